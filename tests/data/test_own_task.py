"""A GLUE-like task of one's own by one YAML: from any repository of the hub, a mirror, a folder, or not at all."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from glue_files import hub_cache, write_as
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.source_identity import source_identity
from spikelm.errors import DataError
from spikelm.runs.identity import identity
from spikelm.store.hashing import run_id

REPO, REVISION = "someone/product-reviews", "c0ffee" + "0" * 34
TASK = f"""\
# @package task
name: reviews/verdict
kind: classification
columns: [review]
labels: [avoid, buy]
metrics: [accuracy]
splits: {{test: ""}}
repo: {REPO}
hub: small
revision: {REVISION}
file_columns: {{review: content, label: verdict}}
folders: [product_reviews]
official_rows: {{train: 40, test: 20}}
"""
SCORED = """\
# @package task
name: reviews/mood
kind: regression
columns: [content]
metrics: [pearson]
splits: {test: ""}
repo: someone/product-reviews
file_columns: {label: mood}
"""
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "works", "broke", "twice", "well", ".", "##s"]


def records(count: int) -> list[dict[str, Any]]:
    """Rows as the repository has them; `label` is there too, but the task's label is another column."""
    words = ("broke", "works")
    return [
        {"content": f"it {words[n % 2]} {n} .", "verdict": n % 2, "label": "?", "stars": n % 5, "mood": n % 3 - 1.0}
        for n in range(count)
    ]


def expected(count: int) -> list[dict[str, Any]]:
    return [{"review": row["content"], "label": row["verdict"], "idx": n} for n, row in enumerate(records(count))]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A folder of options, as --config-dir takes it."""
    folder = tmp_path / "conf" / "task" / "reviews"
    folder.mkdir(parents=True)
    (folder / "verdict.yaml").write_text(TASK)
    (folder / "mood.yaml").write_text(SCORED)
    return tmp_path / "conf"


def write_splits(folder: Path, ending: str = "parquet", name: str = "{}") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 40), ("test", 20)):
        write_as(ending, folder / f"{name.format(split)}.{ending}", records(count))
    return folder


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    write_splits(tmp_path / "mirror" / REPO / "small", name="{}-00000-of-00001")
    return tmp_path / "mirror"


def config(conf: Path, *overrides: str, task: str = "verdict") -> Config:
    search = f"hydra.searchpath=[{conf.as_uri()}]"
    return load_config([search, f"task=reviews/{task}", f"runs_dir={conf.parent / 'runs'}", *overrides])


def load(conf: Path, *overrides: str, task: str = "verdict") -> LoadedText:
    composed = config(conf, *overrides, task=task)
    return load_rows(composed.task, composed.source)


def id_of(conf: Path, *overrides: str) -> str:
    return run_id(identity(config(conf, *overrides)))


def test_a_repository_a_folder_and_files_give_the_same_rows(conf: Path, mirror: Path, tmp_path: Path) -> None:
    text = load(conf, "source=hub", f"source.mirror={mirror}")
    assert text.splits == {"train": expected(40), "test": expected(20)}
    assert not text.warnings
    for folder, ending in (("Verdict", "jsonl"), ("product-reviews", "csv"), ("reviews/verdict", "tsv")):
        root = tmp_path / folder.replace("/", "_") / "root"
        write_splits(root / folder, ending)
        assert load(conf, "source=local", f"source.root={root}").content_hash == text.content_hash, folder
    own = write_splits(tmp_path / "own")
    assert load(conf, f"task.files={own}").content_hash == text.content_hash, "whatever the source"
    cut = load(conf, "source=hub", f"source.mirror={mirror}", "source.train_rows=3")
    assert cut.splits["train"] == expected(3)


@pytest.mark.parametrize("place", ["", "data"])
@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "tsv"])
def test_a_repository_without_configurations(conf: Path, tmp_path: Path, place: str, ending: str) -> None:
    write_splits(tmp_path / "mirror" / REPO / place, ending)
    text = load(conf, "source=hub", f"source.mirror={tmp_path / 'mirror'}", "task.hub=")
    assert text.splits["train"] == expected(40)


def test_a_pinned_commit_in_the_cache_needs_no_network(
    conf: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    with pytest.raises(DataError, match=f"{REPO} at revision {REVISION} could not be loaded.*HF_HUB_OFFLINE=1 forbids"):
        load(conf, "source=hub")
    shutil.copytree(mirror / REPO, hub_cache(tmp_path / "home", REPO, REVISION))
    assert load(conf, "source=hub").splits["test"] == expected(20)


def test_the_id_follows_the_repository_and_the_columns(conf: Path, mirror: Path, tmp_path: Path) -> None:
    hub = ["source=hub", f"source.mirror={mirror}"]
    known = id_of(conf, *hub)
    moved = shutil.copytree(mirror, tmp_path / "moved")
    assert id_of(conf, "source=hub", f"source.mirror={moved}") == known == id_of(conf, "source=hub")
    assert id_of(conf, *hub, "source.glue=a/b", "source.revision=main") == known, "these are GLUE's"
    others = ("task.repo=a/b", "task.hub=large", "task.revision=main", "task.file_columns.label=stars")
    assert len({known, *(id_of(conf, *hub, other) for other in others)}) == 1 + len(others)


def test_local_files_are_read_again_where_other_columns_are_asked_for(conf: Path, tmp_path: Path) -> None:
    write_splits(tmp_path / "root" / "verdict", "csv")

    def content(*overrides: str) -> str:
        labels = ["task.labels=[a,b,c,d,e]", "source=local", f"source.root={tmp_path / 'root'}"]
        composed = config(conf, *labels, *overrides)
        return str(source_identity(composed.task, composed.source, tmp_path / "cache")["content"])

    known = content()
    assert content() == known
    assert content("task.file_columns.label=stars") != known


def test_any_score_is_one_unless_the_task_has_a_range(conf: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_splits(root / "mood")
    text = load(conf, "source=local", f"source.root={root}", task="mood")
    assert {row["label"] for row in text.splits["train"]} == {-1.0, 0.0, 1.0}
    with pytest.raises(DataError, match=r"label -1\.0 is not a number from 0 to 1"):
        load(conf, "source=local", f"source.root={root}", "task.score_range=[0,1]", task="mood")


def test_the_micro_world_says_that_it_has_no_such_task(conf: Path) -> None:
    for ask in (load, id_of):  # the id is asked for before anything is trained
        with pytest.raises(DataError, match=r"\(source=embedded\) has no task reviews/verdict; it has cola") as caught:
            ask(conf)
        assert f"source=hub reads it from {REPO}" in caught.value.fix
        assert "source=local source.root=DIR" in caught.value.fix


def test_what_cannot_be_told_apart_is_refused(conf: Path, mirror: Path) -> None:
    hub = ["source=hub", f"source.mirror={mirror}"]
    with pytest.raises(DataError, match=r"task\.labels has '1' for the id 0"):
        load(conf, *hub, "task.labels=['1','2','3','4','5']", "task.file_columns.label=stars")
    with pytest.raises(DataError, match="reviews/verdict has no repository on the hub"):
        load(conf, *hub, "task.repo=", "task.hub=")
    with pytest.raises(DataError, match="row 0: label '\\?' is not one of 0 \\(avoid\\), 1 \\(buy\\)"):
        load(conf, *hub, "task.file_columns.label=label")


def test_a_run_from_pretraining_to_result(conf: Path, mirror: Path) -> None:
    from spikelm.runs.experiment import run_experiment

    text = write_splits(mirror / "someone" / "lines", "jsonl")
    lines = [{"text": f"it {('works', 'broke')[n % 2]} well ."} for n in range(60 * 100)]
    write_as("jsonl", text / "train.jsonl", lines)
    vocab = mirror / "google-bert" / "bert-base-uncased" / "vocab.txt"
    vocab.parent.mkdir(parents=True)
    vocab.write_text("\n".join(VOCAB))
    tiny = ["scale=smoke", "pretrain.steps=2", "trainer.progress=false", "tracker.mode=disabled"]
    hub = ["source=hub", f"source.mirror={mirror}", "source.text=[{repo: someone/lines, rows: sentences}]"]
    finished = run_experiment(config(conf, *hub, *tiny, "source.documents=60"), Console(quiet=True))
    assert finished.result.source.rows == {"train": 40, "test": 20}
    assert set(finished.result.metrics) >= {"accuracy"}
    saved = json.loads((finished.directory / "result.json").read_text())
    assert saved["config"]["task"]["repo"] == REPO
    assert saved["source"]["content_hash"] == load(conf, *hub).content_hash


def test_the_command_line_takes_the_folder_of_options(conf: Path, mirror: Path) -> None:
    words = ["--config-dir", str(conf), "task=reviews/verdict", "source=hub", f"source.mirror={mirror}", "dry_run=true"]
    command = [sys.executable, "-m", "spikelm.cli.main", *words, "scale=smoke", f"runs_dir={conf.parent / 'runs'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "reviews/verdict" in done.stdout


def test_the_example_of_the_docs_is_a_task(conf: Path) -> None:
    docs = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "data.md").read_text()
    example = docs[docs.index("# @package task") : docs.index("```\n\nThen it is a task like any other")]
    (conf / "task" / "reviews" / "verdict.yaml").write_text(example)
    task = config(conf, "source=hub").task
    assert (task.repo, task.hub, task.labels) == (REPO, "small", ["avoid", "buy"])
    assert task.file_columns == {"review": "content", "label": "verdict"}
