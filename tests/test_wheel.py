"""An installed wheel finds its conf/ and runs in any directory."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_a_wheel_brings_its_conf_and_runs_anywhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "dist"), str(PROJECT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = (tmp_path / "dist").glob("spikelm-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    assert (tmp_path / "site" / "spikelm" / "conf" / "config.yaml").is_file()
    assert (tmp_path / "site" / "spikelm" / "export" / "event" / "tiles.cpp").is_file()
    assert not list((tmp_path / "site").rglob("*.so")), "it is pure Python until something is compiled"
    assert (tmp_path / "site" / "spikelm" / "report" / "page" / "templates" / "style.css").is_file()
    somewhere = tmp_path / "somewhere"
    somewhere.mkdir()
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); from spikelm.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, "scale=smoke", "task=pretrain", "neuron=ann"],
        cwd=somewhere, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list((somewhere / "runs" / "pretrain").glob("*/result.json")), "without a checkout, runs/ is here"
