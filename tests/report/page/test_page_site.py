"""The site from made-up stores: what it shows, what it escapes, what it survives and what it leaves alone."""

from __future__ import annotations

import json
import math
import os
import re
import time
import tracemalloc
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_up import bulk, config, run_id, write
from made_up_result import ENVIRONMENT

from spikelm.config.settings.stages import StageConfig
from spikelm.report.page import sections
from spikelm.report.page.site import Built, Site
from spikelm.store.hashing import digest
from spikelm.store.store import Run

PLANTED = "<script>alert('planted')</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """What a browser would see: scripts, attributes, links, cells of tables, text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.scripts_from: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.rows: list[list[str]] = []
        self.headings: list[str] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows and ("class", "pick") not in attrs:  # boxes to select runs have no text
            self.rows[-1].append("")
        if tag == "script":
            self.scripts.append("")
            self.scripts_from += [value or "" for name, value in attrs if name == "src"]
        if tag == "h2":
            self.headings.append("")
        if tag not in ("meta", "link", "input", "br", "img", "path", "circle", "rect", "polyline"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "script":
            self.scripts[-1] += data
            return
        self.text += data
        if {"td", "th"} & set(self._inside) and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data
        if "h2" in self._inside:
            self.headings[-1] += data

    @property
    def listed(self) -> dict[str, dict[str, str]]:
        """The rows of the only table by their first cell, each cell under its heading."""
        headings = [heading.strip(" ↓") for heading in self.rows[0]]
        return {row[0]: dict(zip(headings, row, strict=True)) for row in self.rows[1:]}

    @property
    def links(self) -> list[str]:
        return [value for _, name, value in self.attributes if name in ("href", "src")]

    def row(self, first: str) -> list[str]:
        return next([cell.strip() for cell in row] for row in self.rows if row and row[0].strip() == first)


def build(root: Path) -> Built:
    return Site(root, seconds=0.0).build()  # no time for commands: composing is slow and has tests of its own


def pages(root: Path) -> dict[str, Page]:
    folder = root / "report"
    return {str(path.relative_to(folder)): Page(path) for path in folder.rglob("*.html")}


def of(root: Path, number: int) -> Page:
    return Page(root / "report" / "run" / f"{run_id(number)}.html")


def test_every_page_stands_alone_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2, neuron="ann", system="BERT", pretrained=run_id(1), teacher="f" * 16)
    built = build(tmp_path)
    assert (built.runs, built.rendered) == (2, 2)
    found = pages(tmp_path)
    runs = {f"run/{run_id(number)}.html" for number in (1, 2)}
    assert set(found) == {"index.html", "runs.html", "compare.html", *runs}
    for name, page in found.items():
        for link in page.links:
            target = link.partition("#")[0].partition("?")[0]
            assert target.startswith("data:") or not target or "//" not in target, link
            if target and not target.startswith("data:"):
                assert (tmp_path / "report" / name).parent.joinpath(target).is_file(), (name, link)
    assert f"{run_id(1)}.html" in of(tmp_path, 2).links
    assert "not in this store" in of(tmp_path, 2).text, "the teacher of another store"


def test_what_is_planted_in_a_run_is_text_and_never_markup(tmp_path: Path) -> None:
    sample = {"source": PLANTED, "reference": "a & b", "generated": f'" onmouseover={PLANTED}'}
    run = write(tmp_path, 1, system=PLANTED, samples=[sample], metric_notes={"rouge": PLANTED})
    (run.directory / "metrics.csv").write_text(f"step,name,value\n1,dev/{PLANTED},1.0\n2,dev/{PLANTED},2.0\n")
    failed = write(tmp_path, 2)
    (failed.directory / "result.json").unlink()
    failed.fail(f"ValueError: {PLANTED}")
    (failed.directory / "traceback.txt").write_text(PLANTED)
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "table3.md").write_text(f"# {PLANTED}\n\n| system | rte |\n| --- | --- |\n| {PLANTED} | 1 (2) |\n")
    build(tmp_path)
    for name, page in pages(tmp_path).items():
        assert not "".join(page.scripts), name
        assert {link.partition("/")[0] for link in page.scripts_from} <= {"assets", "..", "data"}, name
        handlers = [attribute for _, attribute, _ in page.attributes if attribute.startswith("on")]
        assert not handlers, name
        assert not [tag for tag, _, _ in page.attributes if tag == "img"], name
    assert of(tmp_path, 1).text.count("alert('planted')") >= 4
    assert "alert('planted')" in of(tmp_path, 2).text
    assert "alert('planted')" in Page(tmp_path / "report" / "runs.html").text


def data_of(root: Path, number: int) -> dict[str, Any]:
    """What a browser would be given of a run."""
    text = (root / "report" / "data" / f"{run_id(number)}.js").read_text()
    return json.loads(text.removeprefix("spikelm.take(").rstrip().removesuffix(");"))


def test_a_browser_is_given_curves_rates_energy_config_and_texts(tmp_path: Path) -> None:
    sample = {"source": PLANTED, "reference": "a", "generated": "b"}
    write(tmp_path, 1, samples=[sample], steps=3)
    build(tmp_path)
    data = data_of(tmp_path, 1)
    assert data["curves"][0]["name"] == "train/loss"
    assert data["curves"][0]["lines"] == [{"name": "loss", "x": [0, 20, 40], "y": [2.0, 1.0, 0.666667]}]
    assert data["samples"] == [sample]
    assert (data["config"]["neuron.name"], data["config"]["seed"]) == ("lif", "1")
    assert data["firing"][1] == {"stack": "encoder.layer", "layer": "0", "kind": "key_out", "rate": 0.2}
    expected = sum(64 * 96 * 384 * 4 * rate * 0.9e-9 for rate in (0.5, 0.6))
    assert math.isclose({line["name"]: line["mj"] for line in data["energy"]}["ffn1"], expected, rel_tol=1e-5)
    assert data["scores"] == [{"name": "accuracy, %", "value": 60.0, "text": "60.00", "better": "higher"}]


def converted() -> dict[str, Any]:
    """A conversion of two blocks, of whose neurons two are known in the second one."""
    blocks = [
        {"name": "encoder.layer.0", "cosine": 0.98765, "relative_error": 0.1234},
        {"name": "encoder.layer.1", "cosine": None, "relative_error": 0.5},
    ]
    sites = [
        {"site": "encoder.layer.1.qkv_in", "cosine": 0.9, "relative_error": 0.25, "saturated": 0.0},
        {"site": "encoder.layer.1.ffn1_in", "cosine": None, "relative_error": 0.75, "saturated": 0.5},
    ]
    record = {"batches": 0, "rows": 0, "rotation": "hadamard", "rotation_additions": 3328}
    return {**record, "blocks": blocks, "sites": sites}


def test_a_conversion_is_shown_block_by_block_and_drawn(tmp_path: Path) -> None:
    write(tmp_path, 1, conversion=converted())
    write(tmp_path, 2)
    build(tmp_path)
    page = of(tmp_path, 1)
    assert page.row("encoder 0") == ["encoder 0", "0.9877", "12.3", "", "", "", "", ""]
    # the firing rates of qkv_in and ffn1_in in the second layer are 0.2 and 0.6
    assert page.row("encoder 1") == ["encoder 1", "", "50.0", "50.0", "75.0", "ffn1_in", "25.0", "0.40"]
    assert "no data was needed to set amplitudes" in page.text
    assert "3,328 additions a token" in page.text
    [chart] = [chart for chart in data_of(tmp_path, 1)["curves"] if chart["name"] == "conversion"]
    assert chart["axis"] == "block"
    assert chart["lines"] == [
        {"name": "cosine", "x": [0], "y": [0.98765]},
        {"name": "error", "x": [0, 1], "y": [0.1234, 0.5]},
    ]
    assert "block by block" not in of(tmp_path, 2).text
    assert {chart["axis"] for chart in data_of(tmp_path, 2)["curves"]} == {"step"}


def test_the_library_of_charts_is_that_of_the_package_once_beside_the_pages(tmp_path: Path) -> None:
    import plotly

    write(tmp_path, 1)
    build(tmp_path)
    assets = tmp_path / "report" / "assets"
    (copied,) = assets.glob("plotly-*.js")
    installed = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    assert copied.read_bytes() == installed.read_bytes()
    assert plotly.__version__ in copied.name
    (assets / "page-of-another-version.js").write_text("old")
    before = copied.stat().st_mtime_ns
    build(tmp_path)
    assert not (assets / "page-of-another-version.js").exists()
    assert copied.stat().st_mtime_ns == before, "it is not copied again"
    repository = Path(__file__).parents[3]
    assert not [*(repository / "spikelm").rglob("plotly*.js")], "no foreign code in the repository"


def test_a_run_of_which_only_the_result_is_there_says_so(tmp_path: Path) -> None:
    files = {"metrics.csv": "0" * 64, "model/model.safetensors": "0" * 64}
    run = write(tmp_path, 1, files=files)
    write(tmp_path, 2, files=files)
    (run.directory / "metrics.csv").unlink()
    build(tmp_path)
    listed = Page(tmp_path / "report" / "runs.html").listed
    assert [listed[run_id(n)[:8]]["status"] for n in (1, 2)] == ["result only", "finished"]
    assert listed[run_id(1)[:8]]["score"].startswith("60.00"), "its score is there all the same"
    assert "Only the result of this run is in this store" in of(tmp_path, 1).text
    assert "Only the result" not in of(tmp_path, 2).text
    cards = re.sub(r"\s+", "", Page(tmp_path / "report" / "index.html").text)
    assert "1finished1resultonly" in cards


def half(text: str) -> str:
    return text[: len(text) // 2]


def test_broken_records_are_listed_as_such_and_not_touched(tmp_path: Path) -> None:
    runs = [write(tmp_path, number) for number in range(8)]
    records = [run.directory / "result.json" for run in runs]
    records[0].write_text(half(records[0].read_text()))
    records[1].write_text(records[1].read_text().replace("60.0", "99.0"))  # not what the checksum was made of
    (runs[2].directory / "status.json").write_text("\0\0")
    records[2].write_text("")
    body = {**json.loads(records[3].read_text()), "metrics": [1, 2]}
    del body["checksum"]
    records[3].write_text(json.dumps({**body, "checksum": digest(body)}))
    records[4].unlink()
    (runs[4].directory / "config.yaml").write_text("a: [1\n\t")
    (runs[5].directory / "metrics.csv").write_bytes(b"step,name,value\n1,loss,\0\0\n2,loss,nan\nx,y\n3,loss,1.0")
    (runs[6].directory / "metrics.csv").unlink()
    before = {path: path.read_bytes() for path in tmp_path.glob("glue-rte/*/*") if path.is_file()}
    built = build(tmp_path)
    assert built.runs == 8
    found = Page(tmp_path / "report" / "runs.html").listed
    listed = {name: row["status"].split()[0] for name, row in found.items()}
    nameless = "glue-rte"  # the second has no id: its page is called by its directory
    assert listed == {
        **{run_id(n)[:8]: "broken" for n in (0, 1, 3)},
        nameless: "broken",
        run_id(4)[:8]: "interrupted",
        **{run_id(n)[:8]: "finished" for n in (5, 6, 7)},
    }
    assert "does not match its checksum" in of(tmp_path, 1).text
    assert "not readable JSON" in of(tmp_path, 0).text
    assert "metrics: Input should be a valid dictionary" in of(tmp_path, 3).text
    assert before == {path: path.read_bytes() for path in tmp_path.glob("glue-rte/*/*") if path.is_file()}


def test_a_record_may_hold_anything(tmp_path: Path) -> None:
    odd: list[Any] = [None, [], {}, "x", -5, {"a": "b"}, {"mean": "x", "per_site": {"a": "b"}}, [{"a": None}]]
    run = write(tmp_path, 0)
    good = json.loads((run.directory / "result.json").read_text())
    del good["checksum"]
    fields = set(good) - {"run_id", "schema"} | {"samples", "energy_detail", "teacher_metrics", "bits"}
    cases = [(field, value) for field in sorted(fields) for value in odd]
    for number, (field, value) in enumerate(cases, start=1):
        id = run_id(number)
        folder = tmp_path / "glue-rte" / f"odd-{id[:8]}"
        folder.mkdir()
        body = {**good, "run_id": id, field: value}
        (folder / "result.json").write_text(json.dumps({**body, "checksum": digest(body)}))
    assert build(tmp_path).runs == 1 + len(cases)
    states = [row["status"].split()[0] for row in Page(tmp_path / "report" / "runs.html").listed.values()]
    assert set(states) == {"finished", "result", "broken"}, "of some only the result is there"
    assert len(states) == 1 + len(cases)


def test_only_what_changed_is_made_again(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, number)
    build(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "report").rglob("*.html")}
    again = build(tmp_path)
    assert (again.rendered, again.written) == (0, 0)
    write(tmp_path, 1, score=77.0)
    built = build(tmp_path)
    assert built.rendered == 1
    changed = {path.name for path, at in times.items() if path.stat().st_mtime_ns != at}
    assert changed == {"index.html", "runs.html", f"{run_id(1)}.html"}
    gone = next((tmp_path / "glue-rte").glob(f"*-{run_id(2)[:8]}"))
    os.rename(gone, tmp_path / "elsewhere")
    assert build(tmp_path).runs == 2
    assert not (tmp_path / "report" / "run" / f"{run_id(2)}.html").exists()


def test_a_state_file_of_another_version_or_none_is_no_harm(tmp_path: Path) -> None:
    write(tmp_path, 1)
    build(tmp_path)
    for text in ("", "[]", '{"version": "old", "runs": {}, "bases": {}}'):
        (tmp_path / "report" / ".state.json").write_text(text)
        assert build(tmp_path).rendered == 1


def test_energy_by_matmul_is_that_of_the_paper_and_adds_up(tmp_path: Path) -> None:
    write(tmp_path, 1)
    build(tmp_path)
    page = of(tmp_path, 1)
    macs = 64 * 96 * 384  # length x hidden x FFN, a layer
    expected = sum(macs * 4 * rate * 0.9e-9 for rate in (0.5, 0.6))  # ffn1_in of the two layers, T = 4, 0.9 pJ
    line = page.row("ffn1")
    assert line[1] == f"{2 * macs:,}"
    assert (line[3], line[4]) == (f"{expected:.3g}", f"{2 * macs * 4.6e-9:.3g}"), "three digits that count"
    body = [row for row in page.rows if len(row) == 7 and row[0] != "sum" and row[1].replace(",", "").isdigit()]
    assert math.isclose(sum(float(row[3]) for row in body), float(page.row("sum")[3]), abs_tol=1e-4)
    assert page.row("0")[1:] == ["10.050.0", "20.050.0", "30.050.0", "40.050.0", "50.050.0", "60.050.0"]


def test_energy_that_does_not_add_up_is_not_broken_down(tmp_path: Path) -> None:
    write(tmp_path, 1, energy_mj={"fp32": 1.0, "fp16": 0.5})
    build(tmp_path)
    assert not [heading for heading in of(tmp_path, 1).headings if "Energy" in heading]


def test_scale_and_source_stand_with_every_block_of_numbers(tmp_path: Path) -> None:
    sample = {"source": "a", "reference": "b", "generated": "c"}
    write(tmp_path, 1, scale="smoke", source="local", samples=[sample])
    write(tmp_path, 2, scale="smoke", source="local", neuron="ann")
    build(tmp_path)
    found = of(tmp_path, 1).headings
    blocks = ("Scores", "Measures", "Curves", "Firing", "Energy", "Samples")
    for block in blocks:
        (heading,) = [heading for heading in found if heading.startswith(block)]
        assert "smoke · local" in heading, heading
    overview = Page(tmp_path / "report" / "index.html")
    assert [h for h in overview.headings if h.startswith("Score against energy")] == [
        "Score against energy smoke · local"
    ]
    row = Page(tmp_path / "report" / "runs.html").listed[run_id(1)[:8]]
    assert row["data"] == "smoke · local"


def test_tables_figures_and_claims_are_read_once_however_many_runs_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write(tmp_path, number)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "table3-mini-embedded.json").write_text(json.dumps(table_json(run_id(1))))
    times = []
    read = sections._from_json
    monkeypatch.setattr(sections, "_from_json", lambda path, runs: times.append(path) or read(path, runs))
    assert build(tmp_path).rendered == 3
    assert len(times) == 1


def test_the_first_table_is_linked_from_the_pages_that_were_there_before(tmp_path: Path) -> None:
    write(tmp_path, 1)
    build(tmp_path)
    assert "../tables.html" not in of(tmp_path, 1).links
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "table3-mini-embedded.json").write_text(json.dumps(table_json(run_id(1))))
    build(tmp_path)
    assert "../tables.html" in of(tmp_path, 1).links
    assert build(tmp_path).rendered == 0, "and then nothing is made again"


def test_what_a_run_is_judged_by_stands_beside_its_system(tmp_path: Path) -> None:
    write(tmp_path, 1)
    build(tmp_path)
    (row,) = Page(tmp_path / "report" / "runs.html").listed.values()
    assert list(row)[:7] == ["run", "task", "system", "score", "mJ fp32", "saving", "firing %"]
    assert row["score"].split() == ["60.00", "accuracy"]
    assert float(row["saving"].removesuffix("×")) > 1


def test_digits_are_those_that_count(tmp_path: Path) -> None:
    small = {"loss": 0.13579, "accuracy": 60.0}
    write(tmp_path, 1, metrics=small, energy_mj={"fp32": 0.0480049, "fp16": 0.000213349})
    build(tmp_path)
    page = of(tmp_path, 1)
    assert page.row("loss ↓")[1] == "0.136", "0.14 would be equal to others"
    assert page.row("energy fp32, one inference")[1] == "0.0480 mJ"
    assert page.row("energy fp16, one inference")[1] == "0.000213 mJ"


@pytest.mark.parametrize(("system", "title"), [("SpikeLM", "SpikeLM T=4"), ("BERT with lif T=4", "BERT with lif T=4")])
def test_a_title_tells_the_time_steps_once(tmp_path: Path, system: str, title: str) -> None:
    write(tmp_path, 1, system=system)
    build(tmp_path)
    assert data_of(tmp_path, 1)["title"] == title


def test_an_empty_store_says_how_to_begin(tmp_path: Path) -> None:
    assert Site(tmp_path / "none").build().runs == 0
    for name in ("index", "runs"):
        assert "spikelm-run scale=smoke" in Page(tmp_path / "none" / "report" / f"{name}.html").text
    assert "No runs are selected" in Page(tmp_path / "none" / "report" / "compare.html").text


def table_json(id: str) -> dict[str, Any]:
    """As the tables are written: ours, the paper's and the difference of a cell, with its runs."""
    texts = {"ours": "60.0", "paper": "69.0", "difference": "−9.0"}
    cell = {"text": texts, "runs": [{"id": id, "directory": "x"}], "footnotes": [0]}
    empty = {"text": {"ours": "", "paper": "76.5", "difference": ""}, "runs": [], "footnotes": []}
    lines = [{"name": "SpikeLM", "system": "spikelm_t4", "cells": {"rte": cell, "avg": empty}}]
    where = "scale=mini, source=embedded, seed 42"
    known = {"id": 3, "title": "GLUE dev set", "where": where, "columns": {"rte": "rte", "avg": "avg"}, "lines": lines}
    return {**known, "footnotes": ["a misprint"], "notes": ["a note"], "missing": ["spikelm-run task=glue/cola"]}


def test_tables_figures_and_claims_are_taken_from_their_files(tmp_path: Path) -> None:
    write(tmp_path, 1)
    for folder in ("tables", "figures"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tables" / "table3-mini-embedded.json").write_text(json.dumps(table_json(run_id(1))))
    (tmp_path / "tables" / "table3-mini-embedded.md").write_text("# the same, as text")
    (tmp_path / "tables" / "table7-mini-embedded.md").write_text(
        "# Table 7: over k. Ours at scale=mini; the paper's in brackets\n\n| system | avg | mJ fp32 |\n"
        "| --- | --- | --- |\n"
        "| k=2 | 67.1±1.4 (76.5) | 0.0212 (13.7) |\n| k=3 |  (75.1) |  (–) |\n\n- a remark\n"
    )
    (tmp_path / "tables" / "table9.json").write_text('{"id": 9')
    verdict = {"statement": "larger k fires less", "section": "5.3", "status": "held", "check": "a > b"}
    verdict |= {"numbers": {"a": 0.37, "b": 0.24}, "paper": {"a": 0.4}, "runs": [run_id(1), "0" * 16], "missing": []}
    claims = {"where": "scale=mini", "claims": [verdict]}
    (tmp_path / "tables" / "claims-mini-embedded.json").write_text(json.dumps(claims))
    (tmp_path / "figures" / "fig4-mini-embedded.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    about = {"title": "Figure 4: firing", "caption": "Ours at scale=mini.", "runs": [run_id(1)], "missing": []}
    (tmp_path / "figures" / "fig4-mini-embedded.json").write_text(json.dumps(about))
    build(tmp_path)
    tables = Page(tmp_path / "report" / "tables.html")
    assert tables.row("SpikeLM") == ["SpikeLM", "60.069.01−9.0", "76.5"]
    assert tables.row("k=2") == ["k=2", "67.1 ± 1.476.5−9.4", "0.021213.7−13.7"]
    assert tables.row("k=3") == ["k=3", "75.1", "–"], "missing is empty, never zero"
    assert f"run/{run_id(1)}.html" in tables.links
    assert "table9 cannot be read" in tables.text
    assert "the same, as text" not in tables.text
    claims_page = Page(tmp_path / "report" / "claims.html")
    assert (claims_page.row("a"), claims_page.row("b")) == (["a", "0.37", "0.4"], ["b", "0.24", ""])
    assert "holds if a > b" in claims_page.text
    assert f"run/{run_id(1)}.html" in claims_page.links
    figures = Page(tmp_path / "report" / "figures.html")
    assert "Figure 4: firing" in figures.text
    assert any(link.startswith("data:image/svg+xml;base64,") for link in figures.links)
    assert "tables.html" in "".join(of(tmp_path, 1).links), "a run's page leads to the sections there are"
    for path in [*(tmp_path / "tables").iterdir(), *(tmp_path / "figures").iterdir()]:
        path.unlink()
    build(tmp_path)
    assert not (tmp_path / "report" / "tables.html").exists(), "without files there is no section"


@pytest.mark.slow
def test_two_thousand_runs_take_seconds_and_little_memory(tmp_path: Path) -> None:
    bulk(tmp_path, 2000)
    site = Site(tmp_path, seconds=0.0)
    began, cpu = time.perf_counter(), time.process_time()
    assert site.build().rendered == 2000
    first, first_cpu = time.perf_counter() - began, time.process_time() - cpu
    began = time.perf_counter()
    assert Site(tmp_path, seconds=0.0).build().rendered == 0
    again = time.perf_counter() - began
    (tmp_path / "report" / ".state.json").unlink()
    tracemalloc.start()
    Site(tmp_path, seconds=0.0).build()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    print(f"2000 runs: {first:.1f} s ({first_cpu:.1f} s CPU), again {again:.1f} s, peak {peak:.0f} MB")
    assert first_cpu < 20
    assert peak < 100


def test_the_first_page_says_how_far_a_run_has_come_and_changes_with_it(tmp_path: Path) -> None:
    id = run_id(7)
    saved = config("pretrain", "lif", "mini", "embedded", 7)
    saved = replace(saved, task=replace(saved.task, kind="pretrain"), pretrain=StageConfig(steps=1000))
    run = Run(tmp_path, tmp_path / "pretrain" / f"lif-{id[:8]}", id)
    run.start(saved, ENVIRONMENT)
    build(tmp_path)
    assert "step" not in pages(tmp_path)["index.html"].text.split("Overview")[-1]
    for step in range(0, 400, 20):
        run.append_metrics(step, {"train/loss": 2.0})
    assert build(tmp_path).written
    assert "step 380 of 1,000" in pages(tmp_path)["index.html"].text
    with open(run.directory / "metrics.csv", "a") as file:
        file.write("40")  # a line that is being written
    build(tmp_path)
    assert "step 380 of 1,000" in pages(tmp_path)["index.html"].text
