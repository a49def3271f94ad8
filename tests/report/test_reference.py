"""Reference results: a store of result files that reads like the one it was made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from canned import result
from made_up_result import ENVIRONMENT

from spikelm.config.compose import load_config
from spikelm.errors import ConfigError
from spikelm.report.query.selection import Results, Selection
from spikelm.report.reproduce import reference
from spikelm.report.reproduce.reference import keep, renew
from spikelm.report.tables.paper_table import load_table
from spikelm.runs.experiment import open_run
from spikelm.store.result import Weights
from spikelm.store.store import Store


def finish(root: Path, overrides: list[str], pretrained: str | None = None) -> str:
    config = load_config([*overrides, "scale=smoke", f"runs_dir={root}"])
    run = open_run(config)
    with run.lock():
        run.start(config, ENVIRONMENT)
        metrics = {"accuracy": 61.0, "loss": 1.0, "mlm_loss": 1.0}
        more = {"run_id": run.id, "pretrained": pretrained, "config": config, "seconds": 1800.0, "seed": config.seed}
        run.finish(result(config.task.name, metrics, **more))
    return run.id


@pytest.fixture
def selection(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Selection:
    monkeypatch.setattr(reference, "TABLES", (9,))
    monkeypatch.setattr(reference, "OWN_TABLES", ["field"])
    monkeypatch.setattr(reference, "load_table", lambda id: load_table(id).only(["glue/rte"]))
    monkeypatch.setattr(reference, "FIGURES", ("fig6",))
    monkeypatch.setattr(reference, "check_claims", lambda results: [])
    return Selection("smoke", root=runs_dir)


def test_a_finished_run_and_what_it_was_made_from_are_kept_and_read_again(selection: Selection, tmp_path: Path) -> None:
    pretrained = finish(selection.root, ["system=lif_bert", "task=pretrain"])
    tuned = finish(selection.root, ["system=lif_bert", "task=glue/rte"], pretrained)
    index = renew(selection, tmp_path / "kept").read_text()
    assert "2 finished runs" in index
    assert "1.0 hours of runs, one after the other, 1 thread each" in index
    assert {run.id for run in Store(tmp_path / "kept").runs()} == {pretrained, tuned}
    there = Results(Selection("smoke", root=tmp_path / "kept")).find("lif_bert", "glue/rte").result
    assert there is not None
    assert there.system == "LIF-BERT", "its title is made anew; the store's record says SpikeLM"
    assert there.metrics == Store(selection.root).find(tuned).result().metrics  # type: ignore[union-attr]
    text = (tmp_path / "kept" / "tables" / "table9-smoke-embedded-rte.md").read_text()
    assert "[61.0](../glue-rte/" in text, "cells link to the kept results"


def test_nothing_kept_names_a_place_of_the_machine(selection: Selection, tmp_path: Path) -> None:
    finish(selection.root, ["system=lif_bert", "task=glue/rte"])
    renew(selection, tmp_path / "kept")
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file() and path.suffix not in (".png", ".pdf")]
    assert any(path.name == "result.json" for path in files)
    assert not [path for path in files if str(tmp_path) in path.read_text() or str(selection.root) in path.read_text()]


def test_folders_of_local_files_are_not_kept(selection: Selection, tmp_path: Path) -> None:
    run = Store(selection.root).find(finish(selection.root, ["system=lif_bert", "task=glue/rte"]))
    assert run is not None
    made = run.result()
    assert made is not None
    source = replace(made.config.source, name="local", root=str(tmp_path), tokenizer=str(tmp_path / "vocab.txt"))
    backbone = replace(made.config.backbone, path=str(tmp_path / "bert"))
    given = Weights(path=str(tmp_path / "bert"), sha256="0" * 64)
    config = replace(made.config, source=source, backbone=backbone)
    kept = keep(run, made.model_copy(update={"config": config, "weights": given}), tmp_path / "kept")
    assert (kept.config.source.root, kept.config.source.tokenizer, kept.config.source.mirror) == ("DATA", "DATA", None)
    assert kept.weights is not None
    assert (kept.config.backbone.path, kept.weights.path) == ("WEIGHTS", "WEIGHTS")
    assert str(tmp_path) not in next((tmp_path / "kept").rglob("result.json")).read_text()


def test_results_of_further_seeds_are_kept_beside_tables_without_them(selection: Selection, tmp_path: Path) -> None:
    ids = {finish(selection.root, ["system=lif_bert", "task=glue/rte", f"seed={seed}"]) for seed in (42, 1)}
    index = renew(selection, tmp_path / "kept", further_seeds=(1, 2)).read_text()
    assert {run.id for run in Store(tmp_path / "kept").runs()} == ids
    assert "further seeds: 1 of seed 1 of these results" in index
    assert "--seeds 42,1,2 " in index
    table = tmp_path / "kept" / "tables" / "table9-smoke-embedded-rte.json"
    assert "±" not in table.read_text(), "the tables are those of one seed"
    several = Selection("smoke", seeds=(42, 1), root=tmp_path / "kept")
    assert all(Results(several).find("lif_bert", "glue/rte", seed).result for seed in (42, 1))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_reference_is_renewed_but_never_by_a_smaller_one(selection: Selection, tmp_path: Path) -> None:
    first = finish(selection.root, ["system=lif_bert", "task=glue/rte"])
    kept = tmp_path / "kept"
    renew(selection, kept)
    second = finish(selection.root, ["system=lif_bert", "task=glue/rte", "seed=1"])
    both = replace(selection, seeds=(42, 1))
    renew(both, kept)
    assert {run.id for run in Store(kept).runs()} == {first, second}
    before = contents(kept)
    with pytest.raises(ConfigError, match=rf"would lose 1 of its 2 runs, in {len(before)} files") as caught:
        renew(selection, kept)
    for way in (f"cp -rn {kept}/. {selection.root}/", "--to ANOTHER", f"rm -r {kept}"):
        assert way in caught.value.fix
    assert contents(kept) == before
    (kept / "notes.md").write_text("what I think of it")
    with pytest.raises(ConfigError, match=rf"would lose 1 of its {len(before) + 1} files, notes.md"):
        renew(both, kept)
    assert contents(kept).items() > before.items()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], "nothing is left beside it"


def test_a_store_without_runs_makes_no_reference(selection: Selection, tmp_path: Path) -> None:
    """As in a fresh clone, where the committed reference is all there is."""
    finish(selection.root, ["system=lif_bert", "task=glue/rte"])
    renew(selection, tmp_path / "kept")
    before = contents(tmp_path / "kept")
    empty = replace(selection, root=tmp_path / "fresh")
    with pytest.raises(ConfigError, match=rf"would lose 1 of its 1 runs, in {len(before)} files"):
        renew(empty, tmp_path / "kept")
    with pytest.raises(ConfigError, match=r"no finished run in .*fresh"):
        renew(empty, tmp_path / "new")
    assert contents(tmp_path / "kept") == before
    assert not (tmp_path / "new").exists()


def test_where_a_reference_goes_has_to_be_said() -> None:
    from spikelm.cli.report import main

    with pytest.raises(ConfigError, match="needs --to"):
        main(["reference"])


def test_a_folder_of_something_else_is_not_replaced(selection: Selection, tmp_path: Path) -> None:
    finish(selection.root, ["system=lif_bert", "task=glue/rte"])
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="something else"):
        renew(selection, other)
    assert (other / "chapter1.tex").exists()


def test_where_runs_are_missing_those_of_the_reference_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from spikelm.cli.report import main

    asked = [
        "table",
        "9",
        "--tasks",
        "glue/rte",
        "--scale",
        "smoke",
        "--source",
        "embedded",
        "--runs-dir",
        str(tmp_path),
    ]
    assert main(asked) == 0
    assert "come with the project" not in capsys.readouterr().out
    (tmp_path / "reference" / "tables").mkdir(parents=True)
    (tmp_path / "reference" / "tables" / "claims-smoke-embedded.json").touch()
    assert main(asked) == 0
    assert f"spikelm-report table 9 --runs-dir {tmp_path / 'reference'}" in capsys.readouterr().out
