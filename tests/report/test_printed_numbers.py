"""The numbers of scale mini that README and docs print are those of the committed reference runs."""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "runs" / "reference" / "tables"
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "paper" / "results.md").read_text(encoding="utf-8")
MICROWORLD = (ROOT / "docs" / "internals" / "microworld.md").read_text(encoding="utf-8")
#: as README names it: the system of table 3
SYSTEMS = {
    "BERT": "bert",
    "BERT_3L (one layer here)": "bert_3l",
    "Q2BERT": "q2bert",
    "ELMo": "elmo",
    "LIF-BERT*, T=4": "lif_bert_atan",
    "PSN-BERT*, T=4": "psn_bert",
    "SpikeBERT, T=4": "spikebert",
    "LIF-BERT, T=4": "lif_bert",
    "SpikingFormer, T=1": "spikingformer_t1",
    "SpikingFormer, T=4": "spikingformer_t4",
    "SpikeLM_6L (one layer here), T=1": "spikelm_6l_t1",
    "SpikeLM_6L (one layer here), T=4": "spikelm_6l_t4",
    "SpikeLM, T=1": "spikelm_t1",
    "SpikeLM, T=4": "spikelm_t4",
}
#: as results.md names it: the name in a result
NAMES = {
    "BERT": "BERT T=1",
    "LIF-BERT {0, 1}": "LIF-BERT",
    "{-1, 0, 1}, fixed": "SpikeLM {-1, 0, 1}",
    "{0, α}, one direction": "SpikeLM {0, alpha}",
    "{-α, 0, α}, learnable": "SpikeLM learnable",
    "{-α, 0, α}, k=2 (SpikeLM)": "SpikeLM T=4",
    "k=3": "SpikeLM k=3",
    "k=4": "SpikeLM k=4",
    "plain BERT": "BERT T=1",
    "SpikeLM, T=4": "SpikeLM T=4",
    "LIF-BERT, T=4": "LIF-BERT",
}
METRICS = {"qqp": "f1", "cola": "matthews", "stsb": "spearman", "mrpc": "f1"}
#: as results.md names it in its tables of texts: the system
TEXTS = {"ANN (the teacher)": "bert", "LIF T=4": "lif_bert", "LIF T=1": "lif_bart_t1", "GPT-2": "gpt2"}
TEXTS |= {"SpikeLM T=1": "spikelm_t1", "SpikeLM T=4": "spikelm_t4", "BERTSUMABS": "bertsumabs", "PTGEN": "ptgen"}
TASKS = ("mnli", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte")


def lines_of(table: int) -> dict[str, dict[str, Any]]:
    """The cells of a reference table by system."""
    content = json.loads((TABLES / f"table{table}-mini-embedded.json").read_text(encoding="utf-8"))
    return {line["system"]: line["cells"] for line in content["lines"]}


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The rows of the Markdown tables of a section."""
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\|(.*)\|$", section, flags=re.MULTILINE)
    return [[cell.strip().replace("\\", "").replace("**", "") for cell in row.split("|")] for row in rows]


def test_the_table_of_the_readme_is_that_of_the_reference() -> None:
    lines = lines_of(3)
    found = {name: tuple(cells) for name, *cells in rows_of(README, "Results") if name in SYSTEMS}
    assert found.keys() == SYSTEMS.keys()
    for name, (mean, energy) in found.items():
        cells = lines[SYSTEMS[name]]
        assert mean == f"{cells['avg']['text']['ours']} ({cells['avg']['paper_printed']})", name
        paper = cells["energy_fp32"]["paper_printed"]
        ours = cells["energy_fp32"]["text"]["ours"]
        assert energy == (f"{ours} ({paper})" if paper else ours), name


def test_the_counts_of_runs_and_claims_are_those_of_the_reference() -> None:
    counts = json.loads((TABLES / "claims-mini-embedded.json").read_text(encoding="utf-8"))["counts"]
    held, failed, all_ = counts["held"], counts["failed"], sum(counts.values())
    assert f"Of {all_} statements of the paper, {held} hold on these runs and {failed} do not" in README
    assert f"{held} of {all_} statements of the paper hold on these runs, {failed} do not" in RESULTS
    assert len(rows_of(RESULTS, "Claims that fail at scale mini")) == failed + 2, "a row each, and the heading"


@pytest.fixture(scope="module")
def scores() -> dict[tuple[str, str], str]:
    """Of every fine-tuned reference run, by system (with and without its T) and task."""
    found = {}
    for file in TABLES.parent.glob("glue-*/*/result.json"):
        result = json.loads(file.read_text(encoding="utf-8"))
        if result["seed"] != 42:
            continue
        task = result["task"].removeprefix("glue/")
        score = f"{result['metrics'][METRICS.get(task, 'accuracy')]:.1f}"
        for name in (result["system"], f"{result['system']} T={result['config']['T']}"):
            found[name, task] = score
            if task == "mnli":
                found[name, "mnli-mm"] = f"{result['metrics']['accuracy_mm']:.1f}"
    return found


@pytest.mark.parametrize(
    ("text", "heading", "tasks", "systems"),
    [
        (RESULTS, "The systems of table 3 at scale mini", TASKS, 14),
        (RESULTS, "The systems of table 4 at scale mini", TASKS, 9),
        (RESULTS, "The ablations of tables 6 and 7 at scale mini", TASKS, 7),
        (MICROWORLD, "What the mini models make of it", (TASKS[0], "mnli-mm", *TASKS[1:]), 3),
    ],
)
def test_the_scores_of_the_docs_are_those_of_the_reference(
    text: str, heading: str, tasks: tuple[str, ...], systems: int, scores: dict[tuple[str, str], str]
) -> None:
    rows = {NAMES.get(cells[0], cells[0]): cells[1:] for cells in rows_of(text, heading)}
    known = {name: cells for name, cells in rows.items() if (name, "mnli") in scores}
    assert len(known) == systems
    for name, cells in known.items():
        assert cells[: len(tasks)] == [scores[name, task] for task in tasks], name


def test_the_scores_of_texts_are_those_of_the_reference() -> None:
    found = {}
    for file in (*TABLES.parent.glob("sum-*/*/result.json"), *TABLES.parent.glob("mt-*/*/result.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        for metric, digits in {"rougeL": 2, "rouge2": 2, "bleu": 2, "exact_match": 1, "entity_accuracy": 1}.items():
            if metric in result["metrics"]:
                score = f"{result['metrics'][metric]:.{digits}f} ({result['metrics'][f'{metric}_test']:.{digits}f})"
                found[result["config"]["system"]["name"], result["task"].partition("/")[2], metric] = score
    facts = (("xsum", "exact_match"), ("xsum", "entity_accuracy"))
    columns = {
        5: (*facts, ("wmt16_enro", "exact_match"), ("wmt16_enro", "entity_accuracy")),
        6: (("xsum", "rougeL"), ("xsum", "rouge2"), ("wmt16_enro", "bleu")),
        7: (("cnn_dm", "rougeL"), ("cnn_dm", "rouge2"), ("xsum", "rougeL")),
    }
    rows = [cells for cells in rows_of(RESULTS, "Texts at scale mini") if re.match(r"[\d.]+ \(", cells[1])]
    assert len(rows) == 5 + 8 + 5
    for name, *cells in rows:
        for (task, metric), cell in zip(columns[len(cells) + 1], cells, strict=False):
            assert cell == found.get((TEXTS[name], task, metric), ""), (name, task, metric)


def test_the_scores_of_three_seeds_are_those_of_the_reference() -> None:
    named = {"BERT": "bert", "SpikeLM, T=4": "spikelm_t4", "SpikeLM, T=1": "spikelm_t1", "LIF-BERT, T=4": "lif_bert"}
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    means: dict[str, list[float]] = defaultdict(list)
    for system in named.values():
        for seed in (42, 43, 44):
            nine = {}
            for file in TABLES.parent.glob("glue-*/*/result.json"):
                result = json.loads(file.read_text(encoding="utf-8"))
                if (result["config"]["system"]["name"], result["seed"]) == (system, seed):
                    task = result["task"].removeprefix("glue/")
                    nine[task] = result["metrics"][METRICS.get(task, "accuracy")]
                    if task == "mnli":
                        nine["mnli-mm"] = result["metrics"]["accuracy_mm"]
            assert len(nine) == 9, (system, seed)
            means[system].append(statistics.mean(nine.values()))
            for task, score in nine.items():
                scores[system, task].append(score)
    rows = rows_of(RESULTS, "Three seeds of four systems at scale mini")
    tasks = rows[0][2:]
    found = {name: cells for name, *cells in rows if name in named}
    assert found.keys() == named.keys()
    for name, (mean, *cells) in found.items():
        assert mean == spread(means[named[name]]), name
        assert cells == [spread(scores[named[name], task]) for task in tasks], name


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"
