"""Commands that read a store leave it as it is: what they make goes to the user's own store, or where --to says."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from spikelm.cli import report
from spikelm.cli.audit_command import audit_main
from spikelm.cli.export import export_main
from spikelm.cli.verify import verify_main
from spikelm.config.compose import load_config
from spikelm.config.paths import PACKAGE
from spikelm.errors import SpikeLMError
from spikelm.report.claims import claims as stated
from spikelm.report.page import serve
from spikelm.report.query.output import report_folder
from spikelm.runs.experiment import run_experiment
from spikelm.store.store import Store

REFERENCE = PACKAGE.parent / "runs" / "reference"
WORDS = ("scale=smoke", "task=glue/rte", "system=lif_bert")
SELECTED = ("--scale", "smoke", "--tasks", "glue/rte")
Facts = dict[str, tuple[int, str]]


def facts(folder: Path) -> Facts:
    """Every file and folder, hidden ones too: when it was changed, and what it holds."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in [folder, *folder.rglob("*")]
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of somebody else: two real runs, results that came without their files, tables and figures."""
    root = tmp_path_factory.mktemp("theirs") / "runs"
    run_experiment(load_config([*WORDS, f"runs_dir={root}"]), Console(quiet=True))
    alone = [f"glue-cola/{run.name}" for run in sorted((REFERENCE / "glue-cola").iterdir())[:2]]
    for part in ("tables", "figures", *alone):
        shutil.copytree(REFERENCE / part, root / part)
    damaged = root / "glue-rte" / "lif-0123456789abcdef"
    damaged.mkdir()
    (damaged / "status.json").write_text('{"run_id": "0123456789abcdef", "state": "running"}')
    (damaged / "result.json").write_text("{")
    return root


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SPIKELM_RUNS", str(tmp_path / "own"))
    monkeypatch.setattr(stated, "load_claims", lambda: [])
    monkeypatch.setattr(serve.Server, "serve_forever", lambda server, poll_interval: None)
    return tmp_path / "own"


def trained(store: Path) -> str:
    """The id of the fine-tuned run that has its weights."""
    return next(run.id for run in Store(store).runs() if run.directory.parent.name == "glue-rte" and run.finished)


def asked(*words: str) -> Callable[[list[str]], int]:
    return lambda more: report.main([*words, *more])


def on_run(main: Callable[[list[str]], int], *words: str) -> Callable[[list[str]], int]:
    """A command that takes a run: the trained one, or any where the store is not there."""
    return lambda more: main([*words, trained(Path(more[1])) if Path(more[1]).is_dir() else "5", *more])


#: what a command is asked, and what it makes below the folder for the store
COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "runs": (asked("runs"), ""),
    "run": (on_run(report.main, "run"), ""),
    "command": (on_run(report.main, "command"), ""),
    "page": (asked("page"), "index.html"),
    "serve": (asked("serve", "--port", "0"), "runs.html"),
    "table": (asked("table", "9", *SELECTED), "tables/table9-smoke-embedded-rte.md"),
    "figure": (asked("figure", "fig6", "--scale", "smoke"), "figures/fig6-smoke-embedded.png"),
    "claims": (asked("claims", "--scale", "smoke"), "tables/claims-smoke-embedded.json"),
    "plan": (asked("reproduce", "table9", "--plan", *SELECTED), ""),
    "scores": (lambda more: report.main(["scores", *more, *WORDS]), "tables/scores-smoke-embedded.md"),
    "curves": (lambda more: report.main(["curves", *more, *WORDS]), "figures"),
    "wandb": (asked("wandb"), "wandb-dashboard/dashboard.json"),
    "verify": (verify_main, ""),
    "audit": (on_run(audit_main), ""),
    "export": (on_run(export_main), "exported"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_reads_a_store_changes_nothing_in_it(name: str, store: Path, own: Path) -> None:
    command, made = COMMANDS[name]
    before = facts(store)
    code = command(["--runs-dir", str(store)])
    assert facts(store) == before
    assert code == (1 if name == "verify" else 0), "a result of the store is damaged"
    if made:
        assert (report_folder(store) / made).exists()
        assert report_folder(store).is_relative_to(own)


def test_the_cell_of_a_table_leads_to_its_run_wherever_the_table_is(store: Path, own: Path, tmp_path: Path) -> None:
    for to in ([], ["--to", str(tmp_path / "elsewhere" / "deep")]):
        report.main(["table", "9", *SELECTED, "--runs-dir", str(store), *to])
        folder = (Path(to[1]) if to else report_folder(store)) / "tables"
        text = (folder / "table9-smoke-embedded-rte.md").read_text()
        links = {part.partition(")")[0] for part in text.split("](")[1:]} - {"#runs"}
        assert links
        assert all((folder / link).resolve().is_relative_to(store) for link in links)
        assert all((folder / link).is_file() for link in links)


def test_hashes_of_files_are_kept_in_the_own_store(store: Path, own: Path, tmp_path: Path) -> None:
    rows = ["index\tsentence1\tsentence2\tlabel", *["0\tA man sleeps.\tA man rests.\tentailment"] * 2, ""]
    data, vocabulary = tmp_path / "data", tmp_path / "vocab.txt"
    (data / "RTE").mkdir(parents=True)
    for name in ("train.tsv", "dev.tsv"):
        (data / "RTE" / name).write_text("\n".join(rows))
    (data / "train.txt").write_text("A man sleeps. A man rests.\n\n" * 40)
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "man", "sleeps", "rests", "."]))
    before = facts(store)
    words = [*WORDS, "source=local", f"source.root={data}", f"source.tokenizer={vocabulary}"]
    report.main(["scores", "--runs-dir", str(store), *words])
    assert facts(store) == before
    assert any((own / ".cache" / "hashes").iterdir())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_store_that_is_not_there_is_an_error_and_is_not_made(name: str, tmp_path: Path, own: Path) -> None:
    nowhere = tmp_path / "nope"
    words = ["--runs-dir", str(nowhere)]
    if name == "plan":  # which is asked what a store that is still to be made would need
        assert COMMANDS[name][0](words) == 0
    else:
        with pytest.raises(SpikeLMError, match=f"{nowhere} is not there") as caught:
            COMMANDS[name][0](words)
        assert caught.value.exit_code == 2
    assert not nowhere.exists()
    assert not own.exists() or name == "plan"


@pytest.mark.parametrize("name", ["page", "table", "claims", "scores", "curves", "wandb"])
def test_a_folder_that_cannot_be_written_to_is_one_clear_line(name: str, store: Path, own: Path) -> None:
    own.write_text("a file where the store should be")
    with pytest.raises(SpikeLMError, match=f"cannot write to {report_folder(store)}") as caught:
        COMMANDS[name][0](["--runs-dir", str(store)])
    assert "--to DIR" in caught.value.fix


def test_two_stores_of_one_name_do_not_share_a_folder(own: Path, tmp_path: Path) -> None:
    places = [own, own / "reference", own / "a" / "b", tmp_path / "x" / "runs", tmp_path / "y" / "runs"]
    folders = [report_folder(place) for place in places]
    assert folders[:3] == [own / "report", own / "report" / "of-reference", own / "report" / "of-a-b"]
    assert len(set(folders)) == len(places)
    (tmp_path / "link").symlink_to(own)
    assert report_folder(tmp_path / "link") == own / "report", "the own store by another name"


def test_verify_counts_results_that_came_alone_and_calls_nothing_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """cp -rn runs/reference/. STORE"""
    shutil.copytree(REFERENCE, tmp_path / "store")
    assert verify_main(["--runs-dir", str(tmp_path / "store")]) == 0
    runs = len(list(REFERENCE.glob("*/*/result.json")))
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"result only: {runs} of the runs")
    assert last == f"{runs} runs looked at, 0 files damaged"


def test_the_list_marks_results_that_came_alone(store: Path, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.main(["runs", "--runs-dir", str(store)])
    said = capsys.readouterr().out
    assert said.count("*") == 3, "two of the four, and what the mark means"
    assert "* result only: 2 runs" in said
