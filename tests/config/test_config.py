"""Every YAML composes and passes the schema; mistakes are refused with the nearest valid name."""

from __future__ import annotations

from pathlib import Path

import pytest

from spikelm.catalog.kinds import KINDS, LM
from spikelm.cli.command_line import precheck
from spikelm.config.checks import all_keys
from spikelm.config.compose import load_config
from spikelm.config.plugins import option_names
from spikelm.config.suggestions import nearest
from spikelm.errors import ConfigError
from spikelm.runs.identity import identity
from spikelm.runs.labels import label
from spikelm.runs.prerequisites import pretraining_of
from spikelm.store.hashing import run_id

GROUPS = (
    "task",
    "neuron",
    "weights",
    "attention",
    "norm",
    "backbone",
    "scale",
    "source",
    "trainer",
    "tracker",
    "system",
    "recipe",
)


#: options that are whole only with files of the user's
WITH_FILES = ("local", "hf", "minilm")
ALONE = [(group, option) for group in GROUPS for option in option_names(group) if option not in WITH_FILES]
#: what else an option needs: its system brings the neuron, and a system of summaries has no GLUE
SUMMARIES = ("ptgen", "bertsumabs", "gpt2")
UNTRAINED = {"gpt2": ["finetune.steps=0"]}
NEEDS = {
    **{("system", name): ["task=sum/xsum"] for name in SUMMARIES},
    **{("task", f"lm/wikitext{size}"): ["source=hub"] for size in (2, 103)},
    ("task", "mt/wmt14_enfr"): ["source=hub"],
    ("task", "glue/wnli"): ["source=hub"],
    ("task", "lm/text"): ["source=hub", "task.repo=some/text"],
    **{("backbone", name): ["task=lm/embedded"] for name in ("llama_tiny", "llama_mini")},
    ("backbone", "gpt2"): ["task=lm/wikitext103", "source=hub", "neuron=ann", *UNTRAINED["gpt2"]],
    **{("backbone", f"elmo_{scale}"): ["neuron=ann"] for scale in ("smoke", "mini", "paper")},
    **{
        ("backbone", f"{name}_{scale}"): ["neuron=ann", "task=sum/xsum", *UNTRAINED.get(name, [])]
        for name in SUMMARIES
        for scale in ("smoke", "mini", "paper")
    },
}


@pytest.mark.parametrize(("group", "option"), ALONE)
def test_every_option_composes_and_checks(group: str, option: str) -> None:
    if option.startswith("lm/") and not any(LM in kind.tasks for kind in KINDS.values()):
        pytest.skip("no kind of backbone takes it yet")
    config = load_config([f"{group}={option}", *NEEDS.get((group, option), [])])
    assert label(config)
    assert run_id(identity(config))


def test_the_paper_recipe_is_the_papers() -> None:
    config = load_config(["scale=paper", "task=glue/cola"])
    assert (config.pretrain.steps, config.pretrain.batch, config.pretrain.lr) == (100_000, 512, 2e-4)
    assert (config.pretrain.schedule.warmup, config.pretrain.optimizer.weight_decay, config.pretrain.max_length) == (
        5000,
        0.01,
        128,
    )
    assert (config.finetune.epochs, config.finetune.batch, config.finetune.lr) == (50, 32, 2e-5)
    assert config.finetune.schedule.shape == "constant"
    assert config.backbone.name == "bert_base"
    epochs = {"cola": 50, "mnli": 5, "mrpc": 20, "sst2": 10, "stsb": 20, "qqp": 5, "qnli": 10, "rte": 20}
    assert {t: load_config(["scale=paper", f"task=glue/{t}"]).finetune.epochs for t in epochs} == epochs


MISTAKES = [
    (["task=glue/mnly"], "glue/mnli"),
    (["+kk=3"], "did you mean k"),
    (["kk=3"], "did you mean k"),
    (["+backbone.hiden=3"], "backbone.hidden"),
    (["backbone.hiden=3"], "backbone.hidden"),
    (["neuron.fier=round"], "neuron.fire"),
    (["+neuron.extra=1"], "unknown key neuron.extra"),
    (["neuron.fire=rond"], "round, paper"),
    (["neuron=bispik"], "bispike"),
    (["tasc=glue/mnli"], "task"),
    (["T=0"], "T=0"),
    (["T=abc"], "T=abc"),
    (["T=1.5"], "T=1.5"),
    (["k=-1"], "above 0"),
    (["k=0"], "above 0"),
    (["k=nan"], "above 0"),
    (["k=inf"], "above 0"),
    (["neuron.k=-2"], "above 0"),
    (["seed=-1"], "at least 0"),
    (["select=best"], "best_dev"),
    (["tracker.mode=onlin"], "online"),
    (["scale=papr"], "paper"),
    (["finetune.steps=0"], "at least 1"),
    (["finetune.epochs=3"], "not both"),
    (["pretrain.max_length=65"], "backbone.positions=64"),
    (["backbone.heads=7"], "multiple"),
    (["trainer.devices=0"], "at least 1"),
    (["trainer.devices=64"], "cannot be shared"),
    (["foo"], "not an override"),
    (["task=["], "not an override"),
    (["T=1,4"], "-m"),
]


@pytest.mark.parametrize(("overrides", "says"), MISTAKES, ids=lambda value: str(value))
def test_a_mistake_is_refused_by_name(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        precheck(overrides)
    assert says in str(caught.value)
    assert "\n" not in caught.value.what


def test_every_value_of_a_sweep_is_checked() -> None:
    precheck(["-m", "T=1,4", "neuron=lif,bispike"])
    with pytest.raises(ConfigError, match="T=0"):
        precheck(["-m", "T=1,0", "neuron=lif,bispike"])


@pytest.mark.parametrize("flags", [["-m", "--cfg", "job"], ["-m", "--info=all"], ["--run", "--cfg=hydra"]])
def test_flags_that_hydra_refuses_together_are_named(flags: list[str]) -> None:
    with pytest.raises(ConfigError, match="do not go together"):
        precheck([*flags, "T=1"])
    with pytest.raises(ConfigError, match="bispike"):
        precheck(["-m", "T=1,4", "neuron=lif,bispiek"])


def test_nearest_prefers_the_last_part_of_a_name() -> None:
    assert nearest("mnly", ["glue/mnli", "glue/qnli"]) == "; did you mean glue/mnli?"
    assert "backbone.hidden" in all_keys()


def of(*overrides: str) -> str:
    return run_id(identity(load_config(list(overrides))))


def test_identity_ignores_what_cannot_change_a_result() -> None:
    same = [
        "tracker.mode=disabled",
        "trainer.workers=2",
        "runs_dir=elsewhere",
        "force=true",
        "trainer.log_every=5",
    ]
    assert of() == of(*same)
    assert of("neuron=bispike", "T=4", "k=2") == of("system=spikelm_t4")
    assert of("neuron=ann", "T=4", "k=3") == of("neuron=ann"), "the ANN has neither T nor k"
    assert of("neuron=lif", "k=3") == of("neuron=lif"), "LIF has no k"


def test_identity_sees_what_can() -> None:
    changes = [
        *("k=3", "T=4", "seed=1", "neuron=lif", "task=glue/rte", "finetune.lr=1e-4", "pretrain.steps=3"),
        *("backbone.layers=4", "source.seed=1", "source.documents=100", "select=best_dev", "pretrain.seed=1"),
        *("trainer.precision=bf16-mixed", "measure.samples=8", "neuron.fire=paper", "neuron.reset=paper"),
    ]
    assert len({of(), *(of(change) for change in changes)}) == len(changes) + 1


def test_fine_tunings_share_their_pretrained_run() -> None:
    ids = {
        run_id(identity(pretraining_of(load_config([f"task=glue/{task}", f"seed={seed}"]))))
        for task in ("rte", "cola")
        for seed in (1, 2)
    }
    assert ids == {of("task=pretrain", "seed=42")}


def test_a_row_has_room_for_two_sentences() -> None:
    with pytest.raises(ConfigError, match=r"pretrain\.max_length=1 is not valid"):
        load_config(["task=pretrain", "pretrain.max_length=1"])


def test_recipes_may_differ_by_neuron(tmp_path: Path) -> None:
    local = ["source=local", f"source.root={tmp_path}", "scale=minilm", "backbone=bert_mini", "backbone.positions=128"]
    tuned = {neuron: load_config([*local, f"neuron={neuron}"]).finetune.lr for neuron in ("ann", "bispike", "lif")}
    assert tuned == {"ann": 5e-5, "bispike": 1e-3, "lif": 1e-4}
    rates = {neuron: load_config([*local, f"neuron={neuron}"]).general.lr for neuron in ("bispike", "lif")}
    assert rates == {"bispike": 2e-3, "lif": 1e-4}
    assert load_config([*local, "neuron=bispike", "finetune.lr=1e-5"]).finetune.lr == 1e-5, "an override wins"


def test_a_group_of_settings_is_no_value() -> None:
    with pytest.raises(ConfigError, match=r"distill\.logits is a group of settings: distill\.logits\.loss, distill\."):
        load_config(["task=glue/rte", "distill.logits=1"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["task=glue/rte", "task.metrics=[acuracy]"], "task.metrics has acuracy; did you mean accuracy"),
        (["task=glue/mnli", "task.metrics=[f1]"], "task.metrics has f1"),  # of two labels
        (["task=glue/stsb", "task.metrics=[accuracy]"], "choose among: pearson, spearman"),
        (["task=glue/rte", "task.metrics=[]"], "task.metrics of glue/rte is empty"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused_before_anything_trains(words: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config(words)
