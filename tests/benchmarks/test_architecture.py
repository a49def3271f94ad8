"""The numbers of the architecture, on a made-up checkout whose answers are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.architecture import Line, components, config_line, contract_line, leaves, show, source_lines

FILES = {
    "errors.py": "class E(Exception): ...\n",
    "__init__.py": "",
    "cli/__init__.py": "",
    "cli/main.py": "from typing import Any\n\nfrom spikelm.runs import plan\n\nprint('a: 1\\nb: {c: [1, 2], d: {}}')\n",
    "runs/__init__.py": "",
    "runs/plan.py": (
        "from typing import Any\n"
        "from ..errors import E\n\n\n"
        "class Plan:\n"
        "    def show(self, a, b, c, d, e, f, g, *h, i=0, **j) -> dict[str, Any]:\n"
        "        def inner() -> None: ...\n"
        "        return {}\n\n"
        "    def small(self, a, b, c, d, e, f, g, h): ...\n"
    ),
    "runs/store.py": "def late():\n    from spikelm.data import rows\n",
    "data/rows.py": "import spikelm.runs.store\n",
    "data/deep/plan.py": "x: dict[str, Any]\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "spikelm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_what_the_sources_say(checkout: Path) -> None:
    assert source_lines(checkout) == [
        Line("modules", "6"),
        Line("modules at the top", "1"),
        Line("largest room", "runs/ with 2 modules"),
        Line("file names used more than once", "1", ("plan.py: 2 times",)),
        Line("dict[str, Any]", "2"),
        Line("longest function", "runs/plan.py: Plan.show, 3 lines"),
        Line("functions with more than 8 parameters", "1", ("runs/plan.py: Plan.show: 10",)),
        Line("import cycles between rooms", "1", ("data, runs",)),
    ]


def test_components_of_a_graph() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d"}}
    assert components(graph) == [{"a", "b", "c"}, {"d"}, {"e"}]


def test_the_config_is_asked_of_the_checkout_itself(checkout: Path) -> None:
    assert config_line(checkout) == Line("config keys of a default run", "3", ("a: 1", "b: 2"))
    (checkout / "spikelm/cli/main.py").write_text("raise SystemExit('no such thing')\n")
    assert config_line(checkout).value == "failed with exit code 1: no such thing"
    assert leaves({"a": [1, 2], "b": {"c": None}}) == 2


def test_contracts_are_those_of_the_checkout(checkout: Path) -> None:
    assert contract_line(checkout).value == "0 kept"
    (checkout / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_package = "spikelm"\n\n'
        '[[tool.importlinter.contracts]]\nname = "nothing imports cli"\ntype = "forbidden"\n'
        'source_modules = ["spikelm.runs"]\nforbidden_modules = ["spikelm.cli"]\n\n'
        '[[tool.importlinter.contracts]]\nname = "cli stands alone"\ntype = "forbidden"\n'
        'source_modules = ["spikelm.cli"]\nforbidden_modules = ["spikelm.runs"]\n'
    )
    assert contract_line(checkout) == Line("import contracts", "1 kept, 1 broken", ("cli stands alone",))


def test_details_are_printed_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [Line("names", "1", ("x.py: 2 times",)), Line("modules", "7")]
    show(lines, verbose=False)
    assert capsys.readouterr().out == "names    1\nmodules  7\n"
    show(lines, verbose=True)
    assert "           x.py: 2 times\n" in capsys.readouterr().out
