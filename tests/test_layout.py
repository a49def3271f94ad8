"""What adding costs, kept true: a task, neuron or system is its own file and no registry names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from spikelm.config.class_rules import rules_of
from spikelm.config.paths import config_dir
from spikelm.config.settings.specs import AttentionSpec, ClassSpec, NeuronSpec, NormSpec, QuantizerSpec

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = [path for path in (PROJECT / "spikelm").rglob("*.py") if "conf" not in path.parts]


def test_a_new_neuron_is_one_python_file_and_one_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from spikelm.config import trust
    from spikelm.config.checks import check_neuron
    from spikelm.errors import ConfigError
    from spikelm.neurons import build_neuron

    (tmp_path / "myneurons.py").write_text(
        "from spikelm.neurons import Neuron\n"
        "class Half(Neuron):\n"
        "    def __init__(self, T: int, memory: bool = True, level: float = 0.5) -> None:\n"
        "        super().__init__(T, memory)\n"
        "        self.level = level\n"
        "    def forward(self, x):\n"
        "        return (x > self.level).to(x.dtype)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    trust.trust("myneurons")
    spec = NeuronSpec.from_mapping({"_target_": "myneurons.Half", "level": 0.5, "name": "half"})
    check_neuron(spec, "neuron")
    with pytest.raises(ConfigError, match=r"neuron\.level=high is not valid; valid: a number"):
        check_neuron(spec.having(level="high"), "neuron")
    neuron = build_neuron(spec, T=2)
    assert neuron(torch.tensor([[0.2], [0.7]])).tolist() == [[0.0], [1.0]]


def test_neurons_outside_the_allowed_packages_are_refused() -> None:
    from spikelm.config.settings.specs import ClassSpec
    from spikelm.errors import ConfigError
    from spikelm.neurons import build_neuron

    with pytest.raises(ConfigError, match="allowed packages"):
        build_neuron(ClassSpec("os.system"))


def test_a_new_operator_is_one_python_file_and_one_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from spikelm.config import trust
    from spikelm.config.checks import check_operator
    from spikelm.errors import ConfigError
    from spikelm.operators import ScoreOperator, build_operator

    (tmp_path / "myoperators.py").write_text(
        "from spikelm.operators import ScoreOperator\n"
        "class Share(ScoreOperator):\n"
        "    def __init__(self, floor: float = 0.0) -> None:\n"
        "        super().__init__()\n"
        "        self.floor = floor\n"
        "    def forward(self, scores):\n"
        "        return (scores - self.floor).relu()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    trust.trust("myoperators")
    spec = AttentionSpec.from_mapping({"_target_": "myoperators.Share", "floor": 0.5, "name": "share"})
    check_operator(spec, "attention")
    with pytest.raises(ConfigError, match=r"attention\.floor=high is not valid; valid: a number"):
        check_operator(spec.having(floor="high"), "attention")
    assert build_operator(spec, ScoreOperator)(torch.tensor([0.25, 1.5])).tolist() == [0.0, 1.0]


def test_no_source_names_a_single_task_or_neuron_preset() -> None:
    presets = [path.stem for path in (config_dir() / "neuron").glob("*_*.yaml") if path.stem != "lif_atan"]
    for path in SOURCES:
        text = path.read_text()
        for preset in presets:
            assert not re.search(rf"\b{preset}\b", text), f"{path.name} names {preset}"


def test_every_yaml_of_a_class_names_itself_and_the_arguments_of_its_class() -> None:
    groups: dict[str, type[ClassSpec]] = {
        "neuron": NeuronSpec,
        "weights": QuantizerSpec,
        "attention": AttentionSpec,
        "norm": NormSpec,
    }
    for group, kind in groups.items():
        for path in (config_dir() / group).glob("*.yaml"):
            raw = yaml.safe_load(path.read_text())
            assert raw["name"] == path.stem
            if "_target_" in raw:
                spec = kind.from_mapping(raw)
                assert set(spec.arguments) == set(rules_of(spec.target)), path.name


def test_nothing_in_the_hot_path_waits_for_a_device() -> None:
    for folder in ("neurons", "spiking", "weights", "operators"):
        for path in (PROJECT / "spikelm" / folder).glob("*.py"):
            assert not re.search(r"\.item\(\)|\.cuda\(", path.read_text()), path.name
