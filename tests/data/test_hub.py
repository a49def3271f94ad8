"""The hub's text and tasks without the hub: a mirror and a cache on disk, read as the real ones are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from glue_files import hub_cache, hub_parquet
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.sources import hub
from spikelm.data.sources.documents import files_at_hand, load_documents, source_files
from spikelm.data.sources.hub import GLUE, Repository, hub_files, stream_rows
from spikelm.data.sources.rows import load_rows
from spikelm.data.tokens import prepare
from spikelm.data.tokens.cache import encoded_documents
from spikelm.data.tokens.prepare import Preparation, prepare_text
from spikelm.data.tokens.tokenizer import load_tokenizer
from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.errors import ConfigError, DataError
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import pretraining_of
from spikelm.store.hashing import run_id

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "he", "left", "so", ".", "!", "?", "##s"]
WIKI, BOOKS = "wikimedia/wikipedia", "bookcorpus/bookcorpus"
ARTICLES = 40


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    from pyarrow import Table
    from pyarrow import parquet as files

    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_table(Table.from_pylist(rows), path)
    return path


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's repositories in a folder, as `hf download --local-dir` lays them out."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr(hub, "SENTENCES", 4)
    root = tmp_path / "mirror"
    text = "The cat sat. He left! {0}\n\nReferences\n  So the cat {0} left.  \n" + "He sat. The cat left.\n" * 9
    articles = [{"id": str(n), "title": f"T{n}", "text": text.format(n)} for n in range(ARTICLES)]
    for part in range(2):
        path = root / WIKI / "20231101.en" / f"train-0000{part}-of-00002.parquet"
        parquet(path, articles[part * 10 : 10 if part == 0 else None])
    for part in range(3):
        rows = [{"text": f"the cat sat {part} {n} ."} for n in range(10)]
        parquet(root / BOOKS / "plain_text" / "train" / f"000{part}.parquet", [*rows, {"text": " "}])
    rows = [{"sentence1": "the cat", "sentence2": "he left", "label": n % 2, "idx": n} for n in range(40)]
    for split in ("train", "validation"):
        hub_parquet(root / GLUE / "rte" / f"{split}-00000-of-00001.parquet", rows, ["entailment", "not_entailment"])
    vocab = root / "google-bert" / "bert-base-uncased" / "vocab.txt"
    vocab.parent.mkdir(parents=True)
    vocab.write_text("\n".join(VOCAB))
    return root


def config(mirror: Path | None, *overrides: str) -> Config:
    where = [f"source.mirror={mirror}"] if mirror else []
    runs = [f"runs_dir={mirror.parent / 'runs'}"] if mirror else []
    return load_config(["task=glue/rte", "source=hub", *where, *runs, *overrides])


def test_articles_and_runs_of_sentences_are_documents_in_turns(mirror: Path, tmp_path: Path) -> None:
    text = load_documents(config(mirror).source, tmp_path / "cache")
    train, validation = (list(text.splits[split]) for split in ("train", "validation"))
    assert train[0][:5] == ["The cat sat.", "He left!", "0", "References", "So the cat 0 left."]
    assert train[1] == [f"the cat sat 0 {n} ." for n in range(4)]
    assert train[2][2] == "1"
    assert train[5] == ["the cat sat 0 8 .", "the cat sat 0 9 .", "the cat sat 1 0 .", "the cat sat 1 1 ."]
    assert len(train) + len(validation) == ARTICLES + 8, "30 sentences are 7 documents of 4 and one of 2"
    assert (len(train), len(validation)) == (len(text.splits["train"]), len(text.splits["validation"])) == (46, 2)


def test_a_survey_is_made_once_and_a_limit_takes_some_of_each(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = mirror.parent / "cache"
    source = config(mirror).source
    first = load_documents(source, cache)
    some = load_documents(replace(source, documents=40), cache)
    assert [len(documents) for documents in some.splits.values()] == [38, 2]
    assert list(some.splits["train"])[:19] == list(first.splits["train"])[:19]

    def refuse(*args: Any) -> Any:
        raise AssertionError("read again")

    monkeypatch.setattr(hub, "stream_rows", refuse)
    assert load_documents(source, cache).content_hash == first.content_hash
    with pytest.raises(AssertionError, match="read again"):
        load_documents(replace(source, documents=41), cache)


def test_text_of_repositories_in_turns_is_prepared_as_a_run_makes_it(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "SHARD", 300)
    source, tokenizer = config(mirror).source, train_wordpiece(["the cat sat. so he left 0 1 2 3 4"], 60)
    alone, ahead = mirror.parent / "alone", mirror.parent / "ahead"
    text, files = load_documents(source, alone), source_files(source, ahead)
    assert sum(map(len, text.splits.values())) == ARTICLES + 8
    assert files.count() == ARTICLES + 9, "about: the heads of the files count blank rows too"
    manifest = prepare_text(Preparation(source, files, tokenizer, ahead), 0, lambda documents, characters: None)
    assert manifest.content_hash == text.content_hash
    assert len(manifest.shards) > 5
    assert [entry.name.split("/")[-1] for entry in manifest.inputs] == [p.name for g in files.files for p in g]
    for split in text.splits:
        of_a_run = encoded_documents(text, split, tokenizer, alone).folder
        assert of_a_run is not None
        assert manifest.splits[split].folder == of_a_run.name
        for path in of_a_run.iterdir():
            assert (ahead / "encoded" / of_a_run.name / path.name).read_bytes() == path.read_bytes()
    assert files_at_hand(source, ahead) is not None
    shutil.rmtree(mirror / WIKI)
    assert files_at_hand(source, ahead) is None


def test_the_id_knows_repositories_and_revisions_not_the_mirror(mirror: Path) -> None:
    here = config(mirror)
    moved = shutil.copytree(mirror, mirror.parent / "moved")
    for pick in (lambda c: c, pretraining_of):
        known = run_id(identity(pick(here)))
        assert run_id(identity(pick(config(moved)))) == known == run_id(identity(pick(config(None))))
        assert str(mirror.parent) not in json.dumps(identity(pick(here)))
    known = run_id(identity(here))
    for other in (
        "source.revision=main",
        "source.glue=a/b",
        "source.train_rows=5",
        "source.documents=9",
        "source.text=[{repo: a/b, rows: sentences}]",
        "task.hub=rte2",
    ):
        assert run_id(identity(config(mirror, other))) != known, other
    assert run_id(identity(config(mirror, "source.seed=3", "trainer.workers=2"))) == known


def test_a_branch_is_warned_of_and_its_commit_recorded(mirror: Path, tmp_path: Path) -> None:
    source, commit = config(mirror).source, "2" * 40
    text = load_documents(source, tmp_path / "cache")
    (warning,) = text.warnings
    assert warning.startswith(f"{BOOKS} is named by a branch (refs/convert/parquet), which may move")
    assert "commits" not in text.record(source), "a mirror without notes does not tell"
    note = mirror / BOOKS / ".cache" / "huggingface" / "download" / "plain_text" / "train" / "0000.parquet.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{commit}\netag\n0.0\n")
    text = load_documents(source, tmp_path / "cache")
    assert text.record(source)["commits"] == {BOOKS: commit}
    assert (
        f"this run reads commit {commit}; source.text of {BOOKS}: revision={commit} reads it again" in text.warnings[0]
    )


def test_rows_from_the_hubs_cache_name_their_commit(mirror: Path) -> None:
    asked = config(None)
    commit = str(asked.source.revision)
    shutil.copytree(mirror / GLUE, hub_cache(mirror.parent / "home", GLUE, commit))
    text = load_rows(asked.task, asked.source)
    assert text.commits == {GLUE: commit}
    assert not any("may move" in warning for warning in text.warnings)
    assert text.record(asked.source)["commits"] == {GLUE: commit}


def test_a_mirror_of_another_commit_is_refused(mirror: Path) -> None:
    note = mirror / GLUE / ".cache" / "huggingface" / "download" / "rte" / "train-00000-of-00001.parquet.metadata"
    note.parent.mkdir(parents=True)
    source = config(mirror).source
    note.write_text(f"{source.revision}\netag\n0.0\n")
    assert len(hub_files(Repository(GLUE, "rte", source.revision), ("train",), source.mirror)["train"]) == 1
    note.write_text(f"{'0' * 40}\netag\n0.0\n")
    with pytest.raises(DataError, match=f"at commit {'0' * 40}, the pinned one is {source.revision}"):
        hub_files(Repository(GLUE, "rte", source.revision), ("train",), source.mirror)


def test_what_a_mirror_lacks_is_named(mirror: Path) -> None:
    with pytest.raises(DataError, match=r"the mirror has no a/b: .*a/b is not a folder"):
        hub_files(Repository("a/b", None, None), ("train",), str(mirror))
    with pytest.raises(DataError, match=r"glue/cola has no file for train: looked for train-\*.*no such folder"):
        hub_files(Repository(GLUE, "cola", None), ("train",), str(mirror))
    parquet(mirror / BOOKS / "plain_text" / "train" / "0001.parquet", [{"body": "x"}])
    with pytest.raises(DataError, match=r"0001\.parquet row 0: no column 'text'; there is body"):
        load_documents(config(mirror).source)
    (mirror / WIKI / "20231101.en" / "train-00001-of-00002.parquet").unlink()
    with pytest.raises(DataError, match="train is 2 files, but only 1"):
        load_documents(config(mirror).source)


def test_other_endings_and_places(tmp_path: Path) -> None:
    (tmp_path / "a" / "b [1]" / "data").mkdir(parents=True)
    folder = tmp_path / "a" / "b [1]"
    (folder / "data" / "train.jsonl").write_text('{"text": "One."}\n{"text": "Two."}\n')
    files = hub_files(Repository("a/b [1]", None, "main"), ("train",), str(tmp_path))["train"]
    assert [row["text"] for row in stream_rows(files[0])] == ["One.", "Two."]
    (folder / "train.txt").write_text("One.\nTwo.\n")
    files = hub_files(Repository("a/b [1]", None, "main"), ("train",), str(tmp_path))["train"]
    assert [row["text"] for row in stream_rows(files[0])] == ["One.", "Two."]


def test_the_tokenizer_is_the_mirrors_or_a_file(mirror: Path) -> None:
    found = config(mirror)
    assert load_tokenizer(found.source, found.backbone, mirror).get_vocab_size() == len(VOCAB)
    other = mirror.parent / "vocab.txt"
    other.write_text("\n".join([*VOCAB, "more"]))
    found = config(mirror, f"source.tokenizer={other}")
    assert load_tokenizer(found.source, found.backbone, mirror).get_vocab_size() == len(VOCAB) + 1
    assert run_id(identity(found)) != run_id(identity(config(mirror)))


def test_keys_of_other_sources_are_refused(mirror: Path) -> None:
    for overrides, says in (
        ([f"source.mirror={mirror}"], "source.mirror is for source=hub, not source=embedded"),
        (["source=hub", f"source.root={mirror}"], "source.root is for source=local"),
        (["source=hub", f"source.mirror={mirror}/no"], "is not a folder"),
        (["source=hub", "source.text=[{repo: a/b, rows: books}]"], "rows=books is not valid; valid: articles"),
        (["source=hub", "source.text=[{rows: articles}]"], "repo"),
    ):
        with pytest.raises(ConfigError, match=says):
            load_config(overrides)


def test_the_environment_of_the_libraries_is_honoured(mirror: Path) -> None:
    """HF_HOME and HF_HUB_OFFLINE as a user sets them, in a process of its own."""
    revision = config(mirror).source.revision or ""
    folder = hub_cache(mirror.parent / "home", GLUE, revision)
    folder.parent.mkdir(parents=True)
    (mirror / GLUE).rename(folder)
    code = (
        "from spikelm.config.compose import load_config; from spikelm.data.sources.rows import load_rows\n"
        "c = load_config(['task=glue/rte', 'source=hub'])\n"
        "print(len(load_rows(c.task, c.source).splits['train']))"
    )
    home = {"HF_HOME": str(mirror.parent / "home")}
    for offline in ({"HF_HUB_OFFLINE": "1"}, {"HF_HUB_OFFLINE": "0"}):  # a whole commit in the cache asks nobody
        env = {**os.environ, **home, **offline}
        done = subprocess.run([sys.executable, "-c", code], env=env, check=False, capture_output=True, text=True)
        assert done.stdout.strip() == "40", done.stderr


def test_a_run_on_the_hubs_data_from_pretraining_to_result(mirror: Path) -> None:
    from spikelm.runs.experiment import run_experiment

    tiny = ["scale=smoke", "neuron=bispike", "pretrain.steps=2", "trainer.progress=false", "tracker.mode=disabled"]
    found = config(mirror, *tiny, "source.documents=40", "trainer.workers=1")
    finished = run_experiment(found, Console(quiet=True))
    result = finished.result
    assert result.source.rows == {"train": 40, "validation": 40}
    assert result.source.name == "hub"
    saved = json.loads((finished.directory / "result.json").read_text())
    assert saved["config"]["source"]["text"][0]["repo"] == WIKI
