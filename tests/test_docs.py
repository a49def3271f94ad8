"""The pages of docs/ are true: files and links that they name are there, and the example neuron is a tested one."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml

PROJECT = Path(__file__).resolve().parents[1]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
EXAMPLE = PROJECT / "tests" / "plugin" / "spikelm_example"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"\b((?:spikelm|tests|benchmarks|hydra_plugins)/[\w/]*\w\.py)\b", page.read_text())
    assert [path for path in named if not (PROJECT / path).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    targets = [*re.findall(r"\]\(([^)#\s]+)[^)]*\)", text), *re.findall(r'\bsrc(?:set)?="([^"]+)"', text)]
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_documents_that_the_package_names_are_there() -> None:
    folders = ("spikelm", "conf", "tests", "benchmarks", "hydra_plugins", "examples")
    files = [path for folder in folders for path in (PROJECT / folder).rglob("*") if path.is_file()]
    files += [PROJECT / name for name in ("Makefile", "pyproject.toml", "constraints.txt")]
    named = [
        (str(file.relative_to(PROJECT)), path)
        for file in files
        if "__pycache__" not in file.parts
        for path in re.findall(r"\bdocs/[\w/-]+\.(?:md|json|svg|png)\b", file.read_text(errors="replace"))
    ]
    assert len(named) > 50
    assert [(file, path) for file, path in named if not (PROJECT / path).is_file()] == []


def _block(language: str, mark: str = "") -> str:
    """The first block of extend.md in a language that has `mark` in it."""
    page = (PROJECT / "docs" / "guide" / "extend.md").read_text()
    shown = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return next(str(text) for text in shown if mark in text)


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_neuron_of_extend_md_is_the_one_that_is_tested(tmp_path: Path) -> None:
    (tmp_path / "adaptive.py").write_text(_block("python"))
    shown = _module("shown", tmp_path / "adaptive.py").Adaptive
    tested = _module("tested", EXAMPLE / "adaptive.py").Adaptive
    defaults = [
        {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}
        for cls in (shown, tested)
    ]
    assert defaults[0] == defaults[1]
    x = torch.randn(4, 8, 16, generator=torch.Generator().manual_seed(0)) + 0.5
    assert torch.equal(shown(4)(x), tested(4)(x))
    assert torch.equal(shown(4, memory=False)(x), tested(4, memory=False)(x))


def test_the_yaml_of_extend_md_names_every_setting_of_the_neuron(tmp_path: Path) -> None:
    option = yaml.safe_load(_block("yaml"))
    (tmp_path / "adaptive.py").write_text(_block("python"))
    parameters = inspect.signature(_module("shown", tmp_path / "adaptive.py").Adaptive).parameters
    settings = {name: value.default for name, value in parameters.items() if name not in ("T", "memory")}
    assert option == {"name": "adaptive", "_target_": "spikelm_example.adaptive.Adaptive", **settings}


def test_the_neuron_with_several_spikes_of_extend_md_is_the_one_that_is_tested() -> None:
    assert _block("python", "class Counter") == (EXAMPLE / "counter.py").read_text()
    assert _block("yaml", "counter.Counter") == (EXAMPLE / "conf" / "neuron" / "counter.yaml").read_text()
    counter = _module("tested", EXAMPLE / "counter.py").Counter(T=1)
    # by hand: 0.2 has no unit, -0.6 one, 9.0 eighteen, of which it keeps three
    x = torch.tensor([[[0.2, -0.6, 9.0]]], requires_grad=True)
    spikes = counter(x)
    assert spikes.tolist() == [[[0.0, -0.5, 1.5]]]
    assert counter.unfold(x).tolist() == [[[[0.0, -0.5, 0.5]]], [[[0.0, 0.0, 0.5]]], [[[0.0, 0.0, 0.5]]]]
    spikes.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[[1.0, 1.0, 0.0]]]


def test_the_site_is_whole_and_asks_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = sorted((tmp_path / "site").rglob("*.html"))
    assert len(built) > len(list((PROJECT / "docs").rglob("*.md")))  # 404.html too
    for page in built:
        loaded = re.findall(r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="([^"]+)"', page.read_text())
        assert [address for address in loaded if address.startswith(("http:", "https:", "//"))] == [], page.name
