"""Damaged files of real runs: named, made again or refused; never another number."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from commands import SMALL, Command, call
from test_kills import outcome

from spikelm.cli.verify import verify_main

pytestmark = [pytest.mark.slow, pytest.mark.faults]
ARGS = (*SMALL, "task=glue/rte", "trainer.checkpoint_every=3")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 16
    path.write_bytes(data)


DAMAGE = {
    "flipped": flip,
    "truncated": lambda path: os.truncate(path, path.stat().st_size * 2 // 3),
    "missing": lambda path: path.unlink(),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    code, said = call(folder / "log", *ARGS, f"runs_dir={folder / 'runs'}")
    assert code == 0, said
    return folder / "runs"


def files(runs: Path) -> dict[str, list[Path]]:
    """What a fine-tuning reads, by kind."""
    return {
        "model": list(runs.glob("pretrain/*/model/model.safetensors")),
        "model's config": list(runs.glob("pretrain/*/model/config.json")),
        "result": list(runs.glob("pretrain/*/result.json")),
        "tokenised": sorted(runs.glob(".cache/encoded/*/ids.npy")),
        "labels": sorted(runs.glob(".cache/encoded/*/labels.npy")),
        "tokenizer": list(runs.glob(".cache/*.json")),
        "config": list(runs.glob("pretrain/*/config.yaml")),
    }


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["model", "model's config", "result", "tokenised", "labels", "tokenizer", "config"])
def test_a_fine_tuning_on_damaged_files_gives_the_same_numbers(
    kind: str, damage: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    shutil.rmtree(next(runs.glob("glue-rte/*")))  # to be run again, on what is damaged
    hit = files(runs)[kind]
    assert hit
    for path in hit:
        DAMAGE[damage](path)
    found = verify_main(["--runs-dir", str(runs)])
    listed = capsys.readouterr().out
    unseen = (kind, damage) in {("tokenizer", "missing"), ("result", "missing")}  # as if it had never been made
    assert found == (not unseen), listed
    code, said = call(tmp_path / "log", *ARGS, f"runs_dir={runs}")
    assert code == 0, said
    for task in ("pretrain", "glue-rte"):
        assert outcome(runs, task) == outcome(whole, task)
    if kind == "config":
        assert verify_main(["--runs-dir", str(runs), "--repair"]) == 0
    if not unseen and kind not in ("config", "result"):
        text = " ".join(said.split())
        assert "checksum" in text, "the damage is named"
        assert hit[0].name in text or hit[0].parent.name in text


def test_a_result_that_was_changed_by_hand_is_in_no_table(whole: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    (path,) = runs.glob("glue-rte/*/result.json")
    result = json.loads(path.read_text())
    result["metrics"]["accuracy"] = 99.9
    path.write_text(json.dumps(result))
    from spikelm.store.store import Store

    assert [found.task for found in Store(runs).results()] == ["pretrain"]


def test_a_damaged_checkpoint_after_a_kill(whole: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = Command(tmp_path / "log", *ARGS, "finetune.epochs=8", f"runs_dir={runs}")
    assert command.until(lambda: len(list(runs.glob("glue-rte/*/checkpoints/*.ckpt"))) > 1)
    command.hit(signal.SIGKILL)
    command.wait()
    newest = max(runs.glob("glue-rte/*/checkpoints/*.ckpt"), key=lambda path: int(path.stem[5:]))
    flip(newest)
    code, said = call(tmp_path / "again", *ARGS, "finetune.epochs=8", f"runs_dir={runs}")
    assert code == 0, said
    assert f"{newest.name} does not match its checksum" in " ".join(said.split())
    other = tmp_path / "other"
    code, said = call(tmp_path / "alone", *ARGS, "finetune.epochs=8", f"runs_dir={other}")
    assert code == 0, said
    assert outcome(runs, "glue-rte") == outcome(other, "glue-rte")
