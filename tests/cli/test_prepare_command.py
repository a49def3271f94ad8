"""spikelm-prepare as a command: killed and started again, checked, and a run that finds its text prepared."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from spikelm.cli.prepare import prepare_main
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.tokens import prepared
from spikelm.errors import ConfigError, DataError
from spikelm.runs import preparation
from spikelm.runs.identity import id_of
from spikelm.runs.preparation import check_prepared, check_surveyed

WORDS = [
    "cat",
    "dog",
    "bird",
    "sat",
    "ran",
    "flew",
    "on",
    "over",
    "under",
    "the",
    "a",
    "red",
    "old",
    "mat",
    "house",
    "rain",
]
PREPARE = """
import sys
from spikelm.data.tokens import prepare as shards
shards.SHARD = int(sys.argv.pop(1))
from spikelm.cli.main import prepare
if __name__ == "__main__":
    prepare()
"""
PATIENCE = 120.0


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of documents and a vocabulary."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        paragraphs = (
            " ".join(f"The {' '.join(rng.choice(WORDS, rng.integers(3, 15)))}." for _ in range(rng.integers(2, 20)))
            for _ in range(400)
        )
        (folder / f"{name}.txt").write_text("\n\n".join(paragraphs) + "\n")
    vocab = folder / "vocab"
    vocab.mkdir()
    (vocab / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS]))
    return folder


def overrides(text: Path, runs: Path, *more: str) -> list[str]:
    where = [f"source.root={text}", f"source.tokenizer={text / 'vocab'}", f"runs_dir={runs}"]
    return ["task=pretrain", "scale=smoke", "source=local", "source.documents=10000000", *where, *more]


def contents(runs: Path) -> dict[str, bytes]:
    """The manifest and all arrays, by name."""
    cache = runs / ".cache"
    paths = [path for name in ("encoded", "prepared") for path in (cache / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(cache)): path.read_bytes() for path in paths if path.suffix != ".lock"}


def start(text: Path, runs: Path, shard: int, workers: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PREPARE, str(shard), *overrides(text, runs), f"--workers={workers}"]
    environment = {**os.environ, "SPIKELM_TEST_PREPARES": str(runs)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def written(runs: Path) -> int:
    """Shards in the journal."""
    return sum(path.read_bytes().count(b"\n") for path in runs.glob(".cache/prepared/*/journal.jsonl"))


def reached(runs: Path, shards: int, moment: float = float("inf")) -> bool:
    """Whether more shards than that are written, or it is late."""
    return written(runs) > shards or time.monotonic() > moment


def kill_when(process: subprocess.Popen[str], true: Callable[[], bool]) -> bool:
    """SIGKILL at that moment; False where the command ended before."""
    end = time.monotonic() + PATIENCE
    while not true():
        if process.poll() is not None:
            return False
        assert time.monotonic() < end
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def left_behind(runs: Path) -> list[str]:
    """Processes of a preparation that are still there."""
    mark = f"SPIKELM_TEST_PREPARES={runs}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def by_a_run(text: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, bytes]]:
    """The id of a run and the arrays that it makes by itself."""
    from spikelm.training.stage import build_stage

    config = load_config(overrides(text, runs))
    build_stage(config, {}, Console(quiet=True))
    return id_of(config), {name: content for name, content in contents(runs).items() if name.startswith("encoded")}


def test_killed_twice_and_finished_it_is_what_an_uninterrupted_one_and_a_run_make(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    uninterrupted = start(text, whole, 10_000, 1)
    for shards in (3, 11):
        assert kill_when(start(text, killed, 10_000, 1), partial(reached, killed, shards))
        assert not list(killed.glob(".cache/prepared/*/manifest.json"))
    last = start(text, killed, 10_000, 1)
    said = last.communicate(timeout=PATIENCE)[0]
    assert last.returncode == 0, said
    assert uninterrupted.wait(PATIENCE) == 0
    assert contents(killed) == contents(whole)
    manifest = json.loads(next(killed.glob(".cache/prepared/*/manifest.json")).read_text())
    assert len(manifest["shards"]) > 20
    monkeypatch.setattr("spikelm.data.tokens.prepare.SHARD", 10_000)
    run_id, arrays = by_a_run(text, tmp_path / "run", monkeypatch)
    assert {name: content for name, content in contents(killed).items() if name.startswith("encoded")} == arrays

    def refuse(*args: Any) -> Any:
        raise AssertionError("read or tokenised again")

    monkeypatch.setattr("spikelm.data.tokens.cache.encode_documents", refuse)
    monkeypatch.setattr("spikelm.data.sources.documents._survey", refuse)
    assert by_a_run(text, killed, monkeypatch) == (run_id, arrays)
    end = time.monotonic() + 10
    while left_behind(killed):  # the workers of the killed ones end by themselves
        assert time.monotonic() < end, left_behind(killed)
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.faults
def test_killed_at_random_moments(text: Path, tmp_path: Path) -> None:
    whole, killed, chance = tmp_path / "whole", tmp_path / "killed", random.Random(4)
    assert start(text, whole, 5000, 2).wait(PATIENCE) == 0
    kills = 0
    while kills < 12:
        process = start(text, killed, 5000, 2)
        shards, moment = written(killed) + chance.randrange(12), time.monotonic() + chance.uniform(0.2, 4)
        if not kill_when(process, partial(reached, killed, shards, moment)):
            assert process.returncode == 0
            break
        kills += 1
    else:
        assert start(text, killed, 5000, 2).wait(PATIENCE) == 0
    assert kills >= 3
    assert contents(killed) == contents(whole)


def test_a_check_reads_and_changes_nothing(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = overrides(text, tmp_path)
    assert prepare_main([*words, "--check"]) == 1
    assert "not prepared" in capsys.readouterr().out
    assert prepare_main([*words, "--workers", "1"]) == 0
    assert "800 documents" not in capsys.readouterr().out, "the last twentieth is held out"
    assert prepare_main([*words, "--check"]) == 0
    before = contents(tmp_path)
    ids = next(path for path in tmp_path.rglob("ids.npy") if path.stat().st_size > 50_000)
    content = bytearray(ids.read_bytes())
    content[5000] ^= 1
    ids.write_bytes(content)
    assert prepare_main([*words, "--check"]) == 1
    assert "shard 0" in (said := capsys.readouterr().out)
    assert "without --check" in said
    assert ids.read_bytes() == content
    assert prepare_main([*words, "--workers", "1"]) == 0
    assert contents(tmp_path) == before
    with pytest.raises(ConfigError, match="at least one process"):
        prepare_main([*words, "--workers", "0"])


def test_rows_and_the_text_that_is_generated_are_prepared_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spikelm.training.stage import build_stage

    words = ["task=glue/rte", "scale=smoke", f"runs_dir={tmp_path}"]
    assert prepare_main(words) == 0
    said = capsys.readouterr().out
    assert "pretrain: generated documents" in said
    assert "glue/rte: rows" in said

    def refuse(*args: Any) -> Any:
        raise AssertionError("tokenised again")

    for name in ("encode_documents", "encode_rows"):
        monkeypatch.setattr(f"spikelm.data.tokens.cache.{name}", refuse)
    config = load_config([*words, "task=pretrain"])
    build_stage(config, {}, Console(quiet=True))
    assert prepare_main(["task=sum/xsum", "scale=smoke", f"runs_dir={tmp_path}"]) == 0
    assert "sum/xsum: text pairs" in capsys.readouterr().out


def warned(config: Config, check: Callable[[Config, Console], None]) -> str:
    console = Console(width=1000)
    with console.capture() as captured:
        check(config, console)
    return captured.get()


def test_a_run_says_the_command_for_large_text_and_refuses_where_devices_would_wait(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(overrides(text, tmp_path))
    assert warned(config, check_prepared) == warned(config, check_surveyed) == "", "small text is no matter"
    monkeypatch.setattr(prepared, "LARGE", 1000)
    tuned = load_config(overrides(text, tmp_path, "task=glue/rte"))
    for check, run in ((check_surveyed, config), (check_prepared, config), (check_surveyed, tuned)):
        said = warned(run, check)
        assert re.search(r"warning: not prepared: [1-9][\d.]* kB of pretraining text in 2 files", said)
        assert "spikelm-prepare" in said
        run.trainer.devices = 2
        with pytest.raises(DataError, match="first spikelm-prepare"):
            check(run, Console(quiet=True))
        run.trainer.devices = 1
    monkeypatch.setattr(preparation, "uses_gpu", lambda config: True)
    with pytest.raises(DataError, match="devices would wait"):
        check_prepared(config, Console(quiet=True))
    assert prepare_main([*overrides(text, tmp_path), "--workers", "1"]) == 0
    assert warned(config, check_prepared) == warned(config, check_surveyed) == warned(tuned, check_surveyed) == ""
    config.source.documents = 50
    assert warned(config, check_prepared) == "", "few documents are soon read"


def test_text_of_the_hub_that_is_not_here_is_not_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    config = load_config(["scale=paper", "task=pretrain", f"runs_dir={tmp_path}", "trainer.devices=8"])
    with pytest.raises(DataError, match="not on this machine yet"):
        check_prepared(config, Console(quiet=True))


def test_help_tells_how_pretraining_data_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        prepare_main(["--help"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    for words in ("spikelm-prepare scale=paper task=pretrain", "blank lines between documents", "--check", "--workers"):
        assert words in said


@pytest.mark.parametrize("system", ["neuron=bispike", "system=spikegpt"])
def test_running_text_is_tokenised_before_a_run(
    system: str, runs_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["scale=smoke", "task=lm/embedded", "source.documents=60", system]
    assert prepare_main(words) == 0
    assert "lm/embedded: documents of running text, 57 train, 3 validation" in capsys.readouterr().out
    kept = {file.name for file in (runs_dir / ".cache").iterdir()}
    config = load_config(words)
    monkeypatch.setattr("tokenizers.Tokenizer.encode_batch", lambda *_, **__: pytest.fail("it was tokenised again"))
    preparation.prepare_small(config)
    assert {file.name for file in (runs_dir / ".cache").iterdir()} == kept
