"""Checksums, against sha256sum itself; caches, tokenizers and runs whose files are damaged."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from made_up_result import ENVIRONMENT, made_up

from spikelm.cli.verify import verify_main
from spikelm.config.compose import load_config
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.rows import load_rows
from spikelm.data.tokens.cache import encoded_documents, encoded_rows
from spikelm.data.tokens.tokenizer import trained_once
from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.store.checksums import broken_seal, damaged_in, file_hash, file_sums, seal, seal_folder, seal_path
from spikelm.store.file_facts import recall, remember
from spikelm.store.store import Store


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum")
def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("a", "b.npy", "c/d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode() * 100)
    seal_folder(tmp_path)
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path).returncode == 0
    assert damaged_in(tmp_path) == []
    flip(tmp_path / "b.npy")
    (tmp_path / "c" / "d").unlink()
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 1
    assert damaged_in(tmp_path) == ["b.npy", "c/d"]


def test_a_seal_is_broken_by_any_change_of_either_file(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    path.write_bytes(b"weights")
    assert not broken_seal(path), "made before there were checksums"
    for target in (path, seal_path(path)):
        seal(path, file_hash(path))
        assert not broken_seal(path)
        before = target.read_bytes()
        for position in range(len(before)):
            damaged = bytearray(before)
            damaged[position] ^= 4
            target.write_bytes(damaged)
            assert broken_seal(path), position
        target.write_bytes(b"")
        assert broken_seal(path)
        target.write_bytes(before)


def test_damaged_caches_are_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = load_config(["task=glue/rte", "scale=smoke"])
    rows, documents = load_rows(config.task, config.source), load_documents(config.source)
    tokenizer = train_wordpiece(["a b c d e f g."], 60)
    first = encoded_rows(rows, "train", config.task, tokenizer, 16, tmp_path).ids.copy()
    text = encoded_documents(documents, "train", tokenizer, tmp_path).ids.copy()
    files = sorted((tmp_path / "encoded").glob("*/ids.npy"))
    assert len(files) == 2
    for path in files:
        flip(path)
    assert np.array_equal(encoded_rows(rows, "train", config.task, tokenizer, 16, tmp_path).ids, first)
    assert np.array_equal(encoded_documents(documents, "train", tokenizer, tmp_path).ids, text)
    assert all(str(path.parent) in caplog.text for path in files)
    assert not list((tmp_path / "encoded").glob("*damaged*"))


def test_a_damaged_tokenizer_is_trained_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def made() -> str:
        return trained_once(tmp_path, "t", lambda: train_wordpiece(["a b c d e f g."], 60)).to_str()

    first = made()
    path = tmp_path / "t.json"
    path.write_text(path.read_text().replace('"b"', '"z"'))  # still a tokenizer, but another
    assert made() == first
    assert str(path) in caplog.text
    seal_path(path).unlink()  # as made before
    path.write_text(path.read_text()[:-50])
    assert made() == first


def test_a_damaged_fact_is_found_out_again(tmp_path: Path) -> None:
    place = tmp_path / "facts" / "x"
    assert remember(place, "abc") == recall(place) == "abc"
    flip(place)
    assert recall(place) is None


def test_verify_names_what_is_damaged_and_repairs_what_it_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Store(tmp_path).open("0123456789abcdef", "a", "t")
    config = load_config(["task=glue/rte", "neuron=bispike", "k=3"])
    run.start(config, ENVIRONMENT)
    run.model.mkdir()
    (run.model / "weights").write_bytes(b"w" * 100)
    places = [run.directory / "config.yaml", run.model]
    run.finish(made_up(run_id=run.id, config=config, files=file_sums(run.directory, places)))
    assert verify_main(["--runs-dir", str(tmp_path)]) == 0
    flip(run.directory / "config.yaml")
    flip(run.model / "weights")
    capsys.readouterr()
    assert verify_main(["--runs-dir", str(tmp_path), "--repair"]) == 1
    said = capsys.readouterr().out
    assert f"{run.directory / 'config.yaml'}: written again" in said
    assert f"{run.model / 'weights'}: not as it was written; a run that needs it makes it again" in said
    assert said.endswith("1 run looked at, 1 file damaged\n")
    assert run.saved_config() == config
    (run.model / "weights").unlink()
    assert verify_main(["--runs-dir", str(tmp_path)]) == 1
    assert f"{run.model / 'weights'}: missing; a run that needs it makes it again" in capsys.readouterr().out
    (run.directory / "result.json").write_text("{}")
    assert verify_main(["--runs-dir", str(tmp_path)]) == 1
    assert "result.json: does not match its checksum; the same command makes the run again" in capsys.readouterr().out
    assert (run.directory / "result.json").read_text() == "{}", "looking changes nothing"
