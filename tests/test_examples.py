"""The notebook is the script beside it, was run as a whole, and still runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jupytext
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"
SCRIPT, NOTEBOOK = FOLDER / "spiking_bert.py", FOLDER / "spiking_bert.ipynb"


def cells(path: Path) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in jupytext.read(path).cells]


def test_script_and_notebook_say_the_same() -> None:
    assert cells(NOTEBOOK) == cells(SCRIPT), "make notebook"
    assert len(cells(SCRIPT)) > 20


def test_the_notebook_was_run_from_top_to_bottom() -> None:
    code = [cell for cell in jupytext.read(NOTEBOOK).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs: list[Any] = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream", "display_data"}
    assert {output.name for output in outputs if output.output_type == "stream"} == {"stdout"}, "no warnings"
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    check_what_is_printed("".join(output.text for output in outputs if output.output_type == "stream"))


@pytest.mark.slow
def test_the_script_runs() -> None:
    environment = {**os.environ, "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    check_what_is_printed(done.stdout)


def check_what_is_printed(said: str) -> None:
    """What the text around it claims: it learns, spikes, costs less, and comes back the same."""
    assert "spikes by hand are those of the model: True" in said
    assert "the same logits after loading: True" in said
    assert "spike-driven: fully, made of ACs" in said
    trained, exported = map(float, re.findall(r"trained ([\d.]+), exported ([\d.]+)", said)[0])
    assert trained > 0.7
    assert abs(trained - exported) < 0.01
    plain, spiking = map(float, re.findall(r"plain ([\d.]+) µJ, spiking ([\d.]+) µJ", said)[0])
    assert spiking < plain / 2
