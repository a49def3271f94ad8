"""The command line as a person meets it: subprocesses, exit codes, what is printed, what is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_up_result import ENVIRONMENT

from spikelm.config.compose import load_config
from spikelm.runs.experiment import open_run

ENTRY = "import sys; from spikelm.cli.main import {0}; sys.argv[0] = 'spikelm-{0}'; {0}()"
PROJECT = Path(__file__).resolve().parents[2]


def call(name: str, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); " + ENTRY.format(name)
    return subprocess.run([sys.executable, "-c", code, *args], cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("override", ["task=glue/mnly", "+kk=3", "T=0", "k=-1", "neuron.fire=x", "foo"])
def test_a_mistake_is_one_line_and_exit_code_2(override: str, runs_dir: Path) -> None:
    done = call("run", override)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr + done.stdout
    assert not runs_dir.exists()


def test_help_and_cfg_answer_without_heavy_imports() -> None:
    heavy = "print([m for m in ('torch', 'lightning', 'transformers', 'wandb', 'datasets') if m in sys.modules])"
    for args in (["--help"], ["--cfg", "job"], ["task=glue/mnly"], ["-m", "T=0,1"]):
        code = (
            f"import sys; sys.path.insert(0, {str(PROJECT)!r}); sys.argv = ['spikelm-run', *{args!r}]\n"
            f"from spikelm.cli.main import run\ntry:\n    run()\nexcept SystemExit:\n    pass\n{heavy}"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.stdout.strip().splitlines()[-1] == "[]", args


def test_help_names_groups_and_keys() -> None:
    done = call("run", "--help")
    assert done.returncode == 0
    for word in ("glue/mnli", "bispike", "scale", "T=1", "seed=42", "spikelm-run -m"):
        assert word in done.stdout


def test_cfg_shows_the_composed_job() -> None:
    done = call("run", "--cfg", "job", "task=glue/rte", "k=3")
    assert done.returncode == 0
    assert "name: glue/rte" in done.stdout
    assert "k: 3" in done.stdout


def test_a_run_from_any_directory_and_again_from_the_store(tmp_path: Path, runs_dir: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    args = ("scale=smoke", "task=glue/rte", "neuron=lif")
    first = call("run", *args, cwd=elsewhere)
    assert first.returncode == 0, first.stderr
    assert "constant predictor" in first.stdout
    assert "spike-driven" in first.stdout
    assert list(elsewhere.iterdir()) == [], "nothing is written where it was called from"
    again = call("run", *args, cwd=tmp_path)
    assert again.returncode == 0
    assert "from the store" in again.stdout
    results = sorted(runs_dir.glob("*/*/result.json"))
    assert len(results) == 2, "the pretrained run and the fine-tuning"
    shown = call("report")
    assert "glue/rte" in shown.stdout
    audited = call("audit", json.loads(results[0].read_text())["run_id"])
    assert audited.returncode == 0, audited.stderr
    assert "fully spike-driven" in " ".join(audited.stdout.split())


def test_a_failed_job_leaves_its_siblings_alone(runs_dir: Path) -> None:
    # 5000 rows of evaluation at batch 0 cannot be had: the second job fails on its data, not on its config.
    done = call("run", "-m", "scale=smoke", "task=pretrain", "source.documents=200,1")
    assert done.returncode == 1
    assert "1 of 2 jobs finished" in done.stdout
    assert "retry: spikelm-run scale=smoke task=pretrain source.documents=1" in done.stdout
    assert len(list(runs_dir.glob("pretrain/*/result.json"))) == 1


def test_energy_prints_the_golden_numbers() -> None:
    done = call("energy", "backbone=bert_base")
    assert done.returncode == 0
    assert "11,173,625,856" in done.stdout
    assert "51.40" in done.stdout


def test_energy_of_a_decoder_needs_no_task() -> None:
    done = call("energy", "backbone=llama_mini", "T=4", "--rate", "0.25", "--length", "10")
    assert done.returncode == 0, done.stderr
    # two layers of hidden size 96 and 256 inside; four heads of 12 hold keys and values of eight queries
    linears, pairs = 10 * (2 * 96 * 96 + 2 * 96 * 48 + 3 * 96 * 256), 55 * 2 * 96
    macs = 2 * (linears + pairs)
    assert f"{macs:,} MACs" in done.stdout
    assert f"One token of 10: ANN {macs * 4.6e-7:.4g} µJ, SNN {macs * 0.9e-7:.4g} µJ" in done.stdout
    for words in ("Decoder matmuls", "norms, the gate's activation and product", "gate", "down"):
        assert words in done.stdout
    wrong = call("energy", "backbone=llama_mini", "task=glue/rte")
    assert "task=glue/rte is not valid for Llama" in wrong.stderr


def test_unknown_runs_and_tables_are_named(runs_dir: Path) -> None:
    missing = call("audit", "abcdef")
    assert missing.returncode == 2
    assert "no run abcdef" in missing.stderr
    table = call("report", "table", "10")
    assert table.returncode == 2
    assert "tables: 1, 2, 3" in table.stderr


def test_parallel_jobs_have_a_wandb_run_each(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    launcher = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    done = call("run", "-m", *launcher, "scale=smoke", "task=pretrain", "neuron=ann,lif")
    assert done.returncode == 0, done.stderr
    assert "2 of 2 jobs finished" in done.stdout
    results = [json.loads(path.read_text()) for path in runs_dir.glob("pretrain/*/result.json")]
    tracked = {path.name.rpartition("-")[2] for path in runs_dir.glob("pretrain/*/wandb/offline-run-*")}
    assert len(results) == 2
    assert tracked == {result["run_id"] for result in results}


def test_a_sweep_of_dry_runs_ends_with_one_line_per_system(runs_dir: Path) -> None:
    from spikelm.report.tables.paper_table import load_table

    systems = list(dict.fromkeys(row.system for row in load_table(3).rows if row.system))
    done = call("run", "-m", f"system={','.join(systems)}", "scale=paper", "task=glue/cola", "dry_run=true")
    assert done.returncode == 0, done.stderr
    summary = done.stdout[done.stdout.index(f"{len(systems)} planned runs") :].splitlines()
    rows = [line.split() for line in summary[4:] if "(new)" in line]
    assert len([row for row in rows if row[0] == "SpikeLM" and "109.5M" in row and "51.4" in row]) == 2
    (bert,) = (line.split() for line in summary[4:] if line.split()[:1] == ["BERT"])
    assert bert[-1] == "–", "the public weights need no run first"
    assert {"BERT_3L", "Q2BERT", "ELMo", "SpikeBERT", "LIF-BERT*", "SpikingFormer"} <= {row[0] for row in rows}
    assert "…" not in done.stdout, "nothing is cut off"
    assert not list(runs_dir.glob("*/*/status.json")), "no run was started"


@pytest.mark.parametrize(
    ("state", "says"),
    [("new", "is a new run"), ("running", "was interrupted and goes on"), ("failed", "failed")],
)
def test_the_first_word_of_a_run_comes_before_torch_is_loaded(state: str, says: str, runs_dir: Path) -> None:
    if state != "new":
        config = load_config(["scale=smoke", "task=glue/rte"])
        run = open_run(config)
        run.start(config, ENVIRONMENT)
        if state == "failed":
            run.fail("no reason")
    code = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        "class Never:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': raise SystemExit('now torch is loaded')\n"
        "sys.meta_path.insert(0, Never())\n"
        "sys.argv = ['spikelm-run', 'scale=smoke', 'task=glue/rte']\n"
        "from spikelm.cli.main import run\nrun()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "now torch is loaded" in done.stderr
    assert done.stdout.startswith(f"glue/rte bispike-T1-k2-bert_tiny-smoke-embedded-s42 {says}")
