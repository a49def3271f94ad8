"""What is kept on disk: hashes of local files (a run's id knows contents, not paths) and tokenised text."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.rows import load_rows
from spikelm.data.tokens import cache as cache_module
from spikelm.data.tokens.cache import encoded_documents, encoded_rows
from spikelm.data.tokens.encode import encode_documents, encode_rows
from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import pretraining_of
from spikelm.store.hashing import run_id

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "."]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """RTE, some text and a vocabulary."""
    folder = tmp_path / "data"
    (folder / "RTE").mkdir(parents=True)
    for name in ("train", "dev"):
        (folder / "RTE" / f"{name}.tsv").write_text("sentence1\tsentence2\tlabel\na b\tb\t0\nb\ta\t1\n")
    (folder / "train.txt").write_text("\n\n".join(["A b. B a. " * 20] * 8))
    (folder / "vocab.txt").write_text("\n".join(VOCAB))
    return folder


def local(root: Path, *overrides: str) -> Config:
    paths = [f"source.root={root}", f"source.tokenizer={root}/vocab.txt", f"runs_dir={root.parent}/runs"]
    return load_config(["task=glue/rte", "source=local", *paths, *overrides])


def id_of(config: Config) -> str:
    return run_id(identity(config))


def test_an_id_knows_contents_not_paths(root: Path, tmp_path: Path) -> None:
    before = id_of(local(root))
    moved = tmp_path / "elsewhere" / "moved"
    shutil.copytree(root, moved)
    assert id_of(local(moved)) == before
    assert str(tmp_path) not in str(identity(local(root)))
    for name, old, new in (("RTE/dev.tsv", "b\ta", "b\tb"), ("vocab.txt", "b", "c"), ("train.txt", "B", "Bb")):
        path = moved / name
        kept = path.read_text()
        path.write_text(kept.replace(old, new))
        assert id_of(local(moved)) != before, name
        path.write_text(kept)
        assert id_of(local(moved)) == before


def test_limits_are_in_the_id_of_what_they_limit(root: Path) -> None:
    whole, cut = local(root), local(root, "source.train_rows=1")
    assert id_of(whole) != id_of(cut)
    assert id_of(pretraining_of(whole)) == id_of(pretraining_of(cut))
    assert id_of(whole) == id_of(local(root, "task.official_rows={train:9}"))


def test_unchanged_files_are_not_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = id_of(local(root))

    def refuse(*args: Any) -> Any:
        raise AssertionError("read again")

    with monkeypatch.context() as patched:
        for name in ("source_identity.load_rows", "text_files.read_documents"):
            patched.setattr(f"spikelm.data.sources.{name}", refuse)
        assert id_of(local(root)) == before
        path = root / "RTE" / "train.tsv"
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
        with pytest.raises(AssertionError, match="read again"):
            id_of(local(root))
    assert id_of(local(root)) == before


def test_an_id_needs_no_torch(root: Path) -> None:
    code = (
        "import sys; from spikelm.config.compose import load_config; from spikelm.runs.identity import identity\n"
        f"identity(load_config(['task=glue/rte', 'source=local', 'source.root={root}', 'runs_dir={root}/runs']))\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("source", ["local", "embedded"])
def test_text_is_tokenised_once(source: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = local(root) if source == "local" else load_config(["task=glue/rte", "scale=smoke"])
    rows, documents = load_rows(config.task, config.source), load_documents(config.source)
    tokenizer = train_wordpiece(["a b c d e f g."], 60)
    first = encoded_rows(rows, "train", config.task, tokenizer, 16, tmp_path)
    text = encoded_documents(documents, "train", tokenizer, tmp_path)
    plain = encode_rows(config.task, rows.splits["train"], tokenizer, 16)
    expected = encode_documents(documents.splits["train"], tokenizer)

    def refuse(*args: Any) -> Any:
        raise AssertionError("tokenised again")

    for name in ("encode_rows", "encode_documents"):
        monkeypatch.setattr(cache_module, name, refuse)
    again = encoded_rows(rows, "train", config.task, tokenizer, 16, tmp_path)
    for name in ("ids", "types", "offsets", "labels"):
        arrays = [getattr(found, name) for found in (first, again, plain)]
        assert all(np.array_equal(array, arrays[0]) and array.dtype == arrays[0].dtype for array in arrays)
    assert isinstance(again.ids.base, np.memmap)
    for found in (text, encoded_documents(documents, "train", tokenizer, tmp_path)):
        assert [[s.tolist() for s in d] for d in found] == [[s.tolist() for s in d] for d in expected]
    for split, length in (("train", 8), ("validation", 16)):
        with pytest.raises(AssertionError, match="tokenised again"):
            encoded_rows(rows, split, config.task, tokenizer, length, tmp_path)
    other = train_wordpiece(["a b c d e f g h."], 60)
    with pytest.raises(AssertionError, match="tokenised again"):
        encoded_rows(rows, "train", config.task, other, 16, tmp_path)
    assert not list((tmp_path / "encoded").glob(".*")), "nothing half-written stays"


def test_a_second_run_does_not_tokenise_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spikelm.training import stage as builders

    config = local(root, "scale=smoke", "task=pretrain")
    first = builders.build_stage(config, {}, Console(quiet=True))

    def refuse(*args: Any) -> Any:
        raise AssertionError("tokenised again")

    monkeypatch.setattr(cache_module, "encode_documents", refuse)
    second = builders.build_stage(config, {}, Console(quiet=True))
    assert all((first.train[0][name] == second.train[0][name]).all() for name in first.train[0])
    assert second.source["rows"] == {"train": 6, "validation": 2}
    assert second.module.model.config.vocab_size == len(VOCAB)


def test_warnings_reach_the_console() -> None:
    from spikelm.training import stage as builders

    console = Console(record=True, file=io.StringIO())
    builders.announced(LoadedText({}, "", ("[rte] has 5 rows",)), console)
    assert "warning: [rte] has 5 rows" in console.export_text()
