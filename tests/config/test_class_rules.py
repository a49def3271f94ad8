"""What arguments may be is read from annotations, without an import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spikelm.config.class_rules import rules_of
from spikelm.errors import ConfigError
from spikelm.rules import Rule

SOURCE = """
from typing import Annotated, Literal
from {package}.kinds import Share as Part
from spikelm.rules import Positive, Rule
raise RuntimeError("this module is never imported")

class Base:
    def __init__(self, T: int, memory: bool = True, theta: Positive = 1.0, tau: float | None = None) -> None: ...

class Derived(Base):
    pass

class Own(Base):
    def __init__(
        self, T: int, memory: bool, count: Annotated[int, Rule(least=1)], mode: Literal["a", "b"], on: bool,
        name: "str", part: Part, *, many: list[float]
    ) -> None: ...

class Bare(Base):
    def __init__(self, T, x) -> None: ...
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / f"rules_{tmp_path.name.replace('-', '_')}"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("from .inner.made import Derived\n")
    (folder / "kinds.py").write_text("Share = Annotated[float, Rule(least=0, most=1)]\n")
    (folder / "inner" / "made.py").write_text(SOURCE.format(package=folder.name))
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder.name


def test_every_form_of_annotation(package: str) -> None:
    assert rules_of(f"{package}.inner.made.Own") == {
        "count": Rule(whole=True, least=1),
        "mode": Rule(choices=("a", "b")),
        "on": Rule(flag=True),
        "name": Rule(text=True),
        "part": Rule(least=0, most=1),
        "many": Rule(many=True),
    }


def test_a_class_without_an_init_takes_that_of_its_base_and_names_are_followed(package: str) -> None:
    wanted = {"theta": Rule(above=0), "tau": Rule(optional=True)}
    assert rules_of(f"{package}.inner.made.Derived") == wanted
    assert rules_of(f"{package}.Derived") == wanted, "imported by the package, with dots"


def test_what_says_nothing_is_refused_with_what_to_do(package: str) -> None:
    with pytest.raises(ConfigError, match=r"the annotation of x \(nothing\) does not say") as caught:
        rules_of(f"{package}.inner.made.Bare")
    assert "annotate it" in str(caught.value)


@pytest.mark.parametrize("target", ["nowhere.Class", "spikelm.neurons.lif.NoSuch", "Class", "spikelm.neurons", "sys.x"])
def test_a_class_that_is_not_there_is_named(target: str) -> None:
    with pytest.raises(ConfigError, match=f"there is no class {target}"):
        rules_of(target)


def test_neurons_and_quantisers_say_what_they_take_without_torch() -> None:
    code = (
        "import sys\n"
        "from spikelm.config.class_rules import rules_of\n"
        "assert str(rules_of('spikelm.neurons.bispike.BiSpike')['k']) == 'a number above 0'\n"
        "assert rules_of('spikelm.neurons.sign.Sign') == {}\n"
        "assert set(rules_of('spikelm.weights.split.Split')) == {'rows'}\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
