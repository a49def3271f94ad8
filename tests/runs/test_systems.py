"""Systems of the tables: what each is made of, what it needs first, and that it runs from config to result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spikelm.cli.command_line import described, help_text
from spikelm.config.compose import load_config
from spikelm.config.paths import config_dir
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError
from spikelm.report.tables.paper_table import TABLES, load_table
from spikelm.runs.experiment import run_experiment
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.hashing import run_id
from spikelm.store.result import Result

SYSTEMS = sorted(path.stem for path in (config_dir() / "system").glob("*.yaml"))
LOW_BIT = {
    "q2bert": (2, 8),
    "ternarybert": ("ter", "ter"),
    "binarybert_w1a2": (1, 2),
    "binarybert_w1a1": (1, 1),
    "bibert": (1, 1),
    "bit": (1, 1),
    "bit_multi": (1, 1),
    "bipft": (1, 1),
    "spikelm_1bit": (1, "ter"),
    "sorbet_bert": (1, 4),
    "spikelm_t1": (32, "ter"),
    "spikingformer_t1": (32, 1),
    "bert": (32, 32),
    "quant_ter_bert": (32, "ter"),
    "quant2_bert": (32, 2),
    "quant3_bert": (32, 3),
    "quant4_bert": (32, 4),
    "spikelm_residual_d2": (32, "2 x ter"),
    "residual_token_d3": (32, "3 x ter"),
    "place_bert": (32, 5),
    "ilif_bert": (32, 3),
    "ilif_bert_signed": (32, 4),
    "phase_bert": (32, 9),
}
#: of the table field: what makes each of them the form that docs/guide/field.md describes
FIELD = {
    "ilif_bert": {"levels": 4, "signed": False},
    "ilif_bert_signed": {"levels": 4, "signed": True},
    "spikingbrain_bert": {"k": 3.0, "coding": "bitwise"},
    "spikellm_bert": {"width": 4, "extra": 1, "low_share": 0.9, "saliency": "weights"},
    "spikezip_bert": {"levels": 16, "signed": True},
    "phase_bert": {"steps": 8, "grains": 1},
    "sorbet_bert": {"width": 4, "shift": True, "offset": False},
    "place_bert": {"width": 4, "scale": "token"},
    "spikelm_residual_d2": {"steps": 2, "k": 2.5, "scale": "layer"},
    "spikelm_residual_d3": {"steps": 3, "k": 4.0, "scale": "layer"},
    "residual_token_d3": {"steps": 3, "scale": "token"},
    "spikelm_t4_symmetric": {"reset": "normalized", "k": 2.4},
    "quant_ter_bert": {"levels": 3},
    "quant2_bert": {"levels": 4},
    "quant3_bert": {"levels": 8},
    "quant4_bert": {"levels": 16},
}


def of(system: str, *options: str) -> Config:
    return load_config([f"system={system}", "task=glue/sst2", *options])


def id_of(config: Config) -> str:
    return run_id(identity(config))


@pytest.mark.parametrize(("system", "bits"), LOW_BIT.items())
def test_bits_of_weights_and_activations(system: str, bits: tuple[Any, Any]) -> None:
    assert tuple(of(system).bits.values()) == bits


def test_every_system_of_table_four_has_the_printed_bits() -> None:
    for row in load_table(4).rows:
        if row.system not in (None, "binarybert_w1a2"):  # printed as 1/1, see its note
            printed = (str(row.paper[key]).lower() for key in ("weight_bits", "act_bits"))
            assert tuple(map(str, LOW_BIT[str(row.system)])) == tuple(printed)


def test_help_describes_every_system_with_its_tables() -> None:
    text = help_text()
    for system in SYSTEMS:
        assert f"  {system} " in text
        assert described(system) in " ".join(text.split())
        assert re.search(r"tables? \d|not in the paper's tables", described(system)), system


@pytest.mark.parametrize(("system", "settings"), FIELD.items())
def test_systems_of_the_field_are_the_forms_that_the_docs_describe(system: str, settings: dict[str, Any]) -> None:
    config = of(system)
    assert {key: config.neuron.arguments[key] for key in settings} == settings
    assert config.time_steps == (4 if system == "spikelm_t4_symmetric" else 1)
    assert config.fires
    assert config.quantized == (system == "sorbet_bert")
    assert config.variant.activation == ("relu" if system in ("spikezip_bert", "sorbet_bert") else None)
    assert ("docs/guide/field.md" in described(system)) == (system != "sorbet_bert"), "it has a page of its own"


def test_every_system_of_the_field_that_no_table_of_the_paper_has_is_checked_here() -> None:
    of_paper = {row.system for id in TABLES for row in load_table(id).rows}
    assert {row.system for row in load_table("field").rows} - of_paper == set(FIELD)


def test_what_is_changed_in_the_model_is_another_run() -> None:
    changes = ["weights=binary", "weights=ternary", "variant.attention=quantized", "backbone.keep_layers=1"]
    assert len({id_of(of("spikelm_t1", change)) for change in changes} | {id_of(of("spikelm_t1"))}) == 5


def test_students_of_one_task_share_their_teacher() -> None:
    plain = id_of(of("bert"))
    for system in ("q2bert", "bit", "binarybert_w1a2"):
        assert id_of(prerequisites(of(system))["teacher"]) == plain
    recipe = ("scale=paper", "source=embedded")
    student = of("bit", *recipe)
    assert (student.finetune.lr, student.finetune.batch, student.finetune.epochs) == (1e-4, 8, 10), "BiT's own"
    assert id_of(prerequisites(student)["teacher"]) == id_of(of("bert", *recipe)), "the same, whatever its recipe"


def test_chains_of_students() -> None:
    binary = prerequisites(of("binarybert_w1a2"))
    assert binary["pretrained"].weights.name == "ternary"
    assert binary["pretrained"].variant.width == 0.5
    multi = prerequisites(of("bit_multi"))
    assert multi["pretrained"].neuron.arguments["width"] == 2
    assert id_of(multi["teacher"]) == id_of(multi["pretrained"])
    assert id_of(prerequisites(multi["teacher"])["teacher"]) == id_of(of("bert"))
    pretrained = prerequisites(of("bipft"))["pretrained"]
    assert prerequisites(pretrained)["teacher"].neuron.name == "ann"


def test_layers_of_the_small_berts() -> None:
    paper = ("scale=paper", "source=embedded")
    assert [of(system, *paper).depth for system in ("bert_3l", "bert_3l_first", "bert_6l")] == [3, 3, 6]
    assert of("bert_3l_first", *paper).backbone.layers == 12
    first = prerequisites(of("bert_3l_first"))["pretrained"]
    assert id_of(first) == id_of(prerequisites(of("bert"))["pretrained"])
    assert of("bert_3l").depth == 1


MISTAKES = [
    (["weights=binary", "weights.centre=x"], "none, tensor, row"),
    (["weights=binry"], "binary"),
    (["neuron=residual", "neuron.bits=ternary"], "ter, 2 x ter, or a whole number"),
    (["neuron=levels", "neuron.levels=5"], "neuron.levels=5 is not valid"),
    (["weights=binary", "+weights.x=1"], "unknown key weights.x"),
    (["variant.attention=bool"], "boolean"),
    (["variant.width=0"], "above 0"),
    (["neuron=ann", "variant.pooler=true"], "plain"),
    (["neuron=ann", "weights=binary", "variant.attention=boolean"], "needs a neuron"),
    (["distill.start.weights=previous"], "student before"),
    (["distill.layers_first=1"], "below 1"),
    (["backbone.keep_layers=5"], "layers"),
    (["distill=full", "distill.teacher.cache=true", "distill.losses.scores=1"], "distill.teacher.cache"),
    (["backbone=bart_mini", "task=sum/xsum", "variant.attention=quantized"], "is for a BERT"),
]


@pytest.mark.parametrize(("overrides", "says"), MISTAKES, ids=str)
def test_a_mistake_is_refused_by_name(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config(overrides)


def smoke(runs: Path, system: str) -> Result:
    small = ("scale=smoke", "finetune.epochs=1", "source.train_rows=32", "source.documents=100", "pretrain.steps=2")
    return run_experiment(of(system, *small, f"runs_dir={runs}", "tracker.mode=disabled"), Console(quiet=True)).result


def test_sorbet_has_no_real_valued_operator_in_its_blocks_but_the_scale_of_its_norm(tmp_path: Path) -> None:
    result = smoke(tmp_path, "sorbet_bert")
    assert dict(result.bits) == {"weights": 1, "activations": 4}
    assert result.spike_driven.verdict == "fully"
    assert result.spike_driven.operators is not None
    inside = {use.name: use.arithmetic for use in result.spike_driven.operators if use.part == "encoder"}
    shifts = "shifts and additions"
    assert inside == {"PTsoftmax": shifts, "BSPN": "partly", "ReLU": shifts}
    teacher = prerequisites(of("sorbet_bert"))["teacher"]
    assert id_of(teacher) == id_of(of("bert")), "it has a plain BERT for a teacher, as all students have"


def test_a_plain_model_with_other_operators_is_a_run_of_its_own(tmp_path: Path) -> None:
    small = ("scale=smoke", "finetune.epochs=1", "source.train_rows=32", "source.documents=100", "pretrain.steps=2")
    words = ["neuron=ann", "norm=bspn", "attention=ptsoftmax", "task=glue/sst2", *small, f"runs_dir={tmp_path}"]
    result = run_experiment(load_config([*words, "tracker.mode=disabled"]), Console(quiet=True)).result
    assert result.system == "BERT with attention=ptsoftmax norm=bspn"
    assert result.energy_mj == result.energy_ann_mj, "its matmuls are those of the plain model"
    assert result.firing_rate.mean is None


def test_a_chain_from_config_to_result(tmp_path: Path) -> None:
    """Teacher, ternary student of half the width, its binary halves."""
    result = smoke(tmp_path, "binarybert_w1a2")
    assert dict(result.bits) == {"weights": 1, "activations": 2}
    assert dict(result.energy_mj) == {"fp32": None, "fp16": None}, "none is claimed for low-bit arithmetic"
    assert result.firing_rate.mean is None
    assert result.spike_driven.verdict in ("fully", "partly", "none")
    assert result.teacher
    assert result.pretrained


def test_a_quantised_model_is_computed_bit_by_bit(tmp_path: Path) -> None:
    result = smoke(tmp_path, "quant3_bert")
    assert dict(result.bits) == {"weights": 32, "activations": 3}
    assert result.spike_driven.verdict == "fully"
    assert result.firing_rate.virtual_steps == 3
    assert result.firing_rate.mean is not None
    ours, plain = result.energy_mj.fp32, result.energy_ann_mj.fp32
    assert ours is not None
    assert plain is not None
    assert ours / plain == pytest.approx(result.firing_rate.mean * 0.9 / 4.6), "an addition in place of a MAC"


@pytest.mark.slow
@pytest.mark.parametrize("system", [*FIELD])
def test_every_system_of_the_field_runs(tmp_path: Path, system: str) -> None:
    result = smoke(tmp_path, system)
    assert result.metrics
    assert result.spike_driven.verdict == "fully"


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", ["q2bert", "ternarybert", "bibert", "bit_multi", "bipft", "spikelm_1bit", "bert_3l_first"]
)
def test_every_low_bit_system_runs(tmp_path: Path, system: str) -> None:
    assert smoke(tmp_path, system).metrics
