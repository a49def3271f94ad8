"""What a tracked run is grouped and tagged by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from spikelm.config.checks import typed
from spikelm.config.compose import compose_config, load_config
from spikelm.config.paths import config_dir
from spikelm.config.settings.schema import SystemConfig
from spikelm.runs.labels import label, labels, tables_of, title, tracked_name


@pytest.mark.parametrize(
    "overrides, called",
    [
        (["system=spikelm_t4"], "SpikeLM"),
        (["system=spikelm_t1"], "SpikeLM"),
        (["system=spikelm_k3", "seed=3"], "SpikeLM k=3"),
        (["system=spikelm_t4", "T=2"], "SpikeLM (T=2)"),
        (["system=spikelm_t4", "neuron=psn"], "BERT with psn T=4"),  # which is no SpikeLM
        (["system=bert", "neuron=psn", "T=4"], "BERT with psn T=4"),
        (["system=spikelm_t1", "weights=ternary"], "BERT with bispike T=1 k=2 weights=ternary"),
        (
            ["system=bibert", "weights=ternary"],
            "BERT with sign weights=ternary variant.attention=boolean distill=bibert",
        ),
        (["system=spikelm_t4", "neuron.reset=paper"], "SpikeLM (neuron.reset=paper)"),
        (["system=spikelm_t1", "distill=full"], "SpikeLM (distill=full)"),
        (["system=spikelm_t1", "finetune.lr=1e-4", "backbone.hidden=48"], "SpikeLM"),
        (["system=spikelm_t1", "backbone=bert_tiny"], "SpikeLM (backbone=bert_tiny)"),
        (["system=spikelm_t1", "backbone.layers=1"], "SpikeLM (backbone.layers=1)"),
        (["system=bert", "T=4", "distill=full"], "BERT"),  # which a plain model does not read
        (["system=spikelm_t1", "backbone=roberta_tiny"], "SpikeLM (backbone=roberta_tiny)"),
        (["system=bert", "backbone=roberta_tiny"], "RoBERTa (backbone=roberta_tiny)"),
        (["system=lif_bert", "backbone=roberta_tiny"], "LIF-RoBERTa (backbone=roberta_tiny)"),
        (["neuron=bispike", "T=4"], "BERT with bispike T=4 k=2"),
        (["neuron=ann", "backbone=roberta_tiny"], "RoBERTa"),
        (["neuron=residual", "convert=only"], "BERT with residual T=1 k=2, converted"),
        (["neuron=residual", "neuron.scale=token", "k=3"], "BERT with residual T=1"),  # which reads no k
        (["system=residual_token_d3", "k=3"], load_config(["system=residual_token_d3"]).system.title),
        (["neuron=residual", "convert=first"], "BERT with residual T=1 k=2, converted first"),
        (["system=spikelm_t4", "convert=only", "convert.batches=3"], "SpikeLM, converted"),
        (["system=spikelm_t4", "T=2", "convert=only"], "SpikeLM (T=2), converted"),
        (["neuron=psn", "convert=only", "convert.rotation=hadamard"], "BERT with psn T=1, converted with rotation"),
    ],
)
def test_a_run_is_called_by_its_system_and_what_was_changed_of_it(overrides: list[str], called: str) -> None:
    assert title(load_config(["task=glue/rte", *overrides])) == called


@pytest.mark.parametrize(
    "system, task, called",
    [
        ("bert", "glue/rte", "BERT"),
        ("bert", "sum/xsum", "BART"),
        ("bert", "mt/wmt16_enro", "mBART"),
        ("bert_3l", "glue/rte", "BERT_3L"),
        ("lif_bert", "glue/rte", "LIF-BERT"),
        ("lif_bert", "sum/cnn_dm", "LIF-BART"),
        ("lif_bart_t1", "sum/cnn_dm", "LIF-BART"),
        ("lif_bart_t1", "mt/wmt16_enro", "LIF-mBART"),
        ("spikelm_t4", "sum/xsum", "SpikeLM"),
        ("gpt2", "sum/xsum", "GPT-2"),
    ],
)
def test_a_title_names_the_architecture_that_is_trained(system: str, task: str, called: str) -> None:
    assert title(load_config([f"system={system}", f"task={task}", "scale=smoke"])) == called
    assert title(load_config(["neuron=ann", f"task={task}", "scale=smoke"])) in ("BERT", "BART", "mBART")


def test_weights_that_have_a_name_of_their_own_are_called_by_it() -> None:
    config = load_config(["system=bert", "task=glue/rte", "scale=smoke"])
    given = replace(config, system=SystemConfig(), backbone=replace(config.backbone, title="MiniLM"))
    assert title(given) == "MiniLM"
    minilm = yaml.safe_load((config_dir() / "backbone" / "minilm.yaml").read_text())
    assert minilm["title"] == "MiniLM"


def test_a_record_from_before_its_title_is_called_by_what_it_is() -> None:
    config = load_config(["system=bert", "task=sum/xsum", "scale=smoke"])
    assert title(replace(config, system=SystemConfig("bert", "BERT"))) == "BART"


def test_a_task_of_ones_own_folder_hides_no_change_of_a_system(own_task: Path) -> None:
    """Its YAML is not found again when the title is made."""
    words = ["task=reviews/verdict", f"task.files={own_task / 'data'}", "scale=smoke"]
    for more, called in (([], "SpikeLM"), (["neuron=psn"], "BERT with psn T=4")):
        config = typed(compose_config([*words, "system=spikelm_t4", *more], str(own_task)))
        assert title(config) == called
        assert label(config).endswith("-smoke-local-s42"), "its rows are files, whatever the source of other text"
        assert labels(config).tags[1] == "local"


def test_a_system_that_is_not_here_says_what_it_is_made_of() -> None:
    config = load_config(["neuron=psn", "T=4", "task=glue/rte", "scale=smoke"])
    assert title(replace(config, system=SystemConfig("mine", "Mine"))) == "Mine (BERT with psn T=4)"


@pytest.fixture
def own_task(tmp_path: Path) -> Path:
    """A task's YAML in a folder for --config-dir, and a folder for its files."""
    (tmp_path / "task" / "reviews").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "task" / "reviews" / "verdict.yaml").write_text(
        "# @package task\nname: reviews/verdict\nkind: classification\ncolumns: [review]\nlabels: [avoid, buy]\n"
        "metrics: [accuracy]\nsplits: {validation: ''}\n"
    )
    return tmp_path


def test_a_changed_system_is_in_no_table_and_in_no_group_of_the_unchanged() -> None:
    config = load_config(["task=glue/rte", "system=spikelm_t4", "T=2"])
    assert labels(config).group == "SpikeLM (T=2)"
    assert not [tag for tag in labels(config).tags if tag.startswith("table")]


def test_groups_and_tags_say_table_system_scale_source_task_and_neuron() -> None:
    config = load_config(["task=glue/rte", "system=lif_bert", "scale=smoke"])
    found = labels(config)
    assert found.group.startswith("table")
    assert found.group.endswith(" lif_bert")
    assert found.job_type == "glue/rte"
    assert found.tags[:4] == ["smoke", "embedded", "glue/rte", "lif"]
    assert {"table3", "table6"} <= set(found.tags)
    assert "table5" not in found.tags, "energies come from the pretrained model"
    loose = load_config(["task=sum/xsum", "neuron=lif", "T=4", "scale=smoke"])
    assert labels(loose)[:2] == ("BART with lif T=4 distill=seq2seq", "sum/xsum")
    named = load_config(["task=glue/rte", "neuron=lif", "tracker.group=mine"])
    assert labels(named).group == "mine"


def test_tables_are_those_with_the_system_and_a_column_for_the_task() -> None:
    assert {3, 6, 7} <= set(tables_of("spikelm_t4", "glue/cola"))
    assert 5 in tables_of("spikelm_t4", "pretrain")
    assert tables_of("", "glue/cola") == []
    assert tables_of("ilif_bert", "glue/cola") == tables_of("ilif_bert", "pretrain") == ["field"]
    assert tables_of("spikelm_t1", "glue/cola")[-1] == "field", "those of the paper come first"


def test_a_run_of_the_field_is_grouped_by_it() -> None:
    found = labels(load_config(["task=glue/rte", "system=ilif_bert", "scale=smoke"]))
    assert found.group == "field ilif_bert"
    assert found.tags[-1] == "field"


@pytest.mark.parametrize(
    "overrides, called",
    [
        (["system=spikelm_t1"], "glue/rte SpikeLM T=1 smoke embedded s42"),
        (["system=spikelm_t1", "T=2", "seed=3"], "glue/rte SpikeLM (T=2) smoke embedded s3"),
        (["system=bert"], "glue/rte BERT smoke embedded s42"),
        (["neuron=psn", "T=4"], "glue/rte BERT with psn T=4 smoke embedded s42"),
    ],
)
def test_a_tracker_is_told_the_title_and_T(overrides: list[str], called: str) -> None:
    assert tracked_name(load_config(["task=glue/rte", "scale=smoke", *overrides])) == called


def test_a_conversion_belongs_to_no_table_and_has_a_folder_of_its_own() -> None:
    plain, converted = (
        load_config(["task=glue/rte", "system=spikelm_t4", word]) for word in ("seed=42", "convert=only")
    )
    assert labels(plain).group.startswith("table")
    assert labels(converted).group == "SpikeLM, converted"
    assert label(converted) == label(plain).replace("-k2-", "-k2-converted-")
    assert tracked_name(converted).startswith("glue/rte SpikeLM T=4, converted mini")


def test_a_folder_is_not_named_by_a_k_that_nobody_reads() -> None:
    assert label(load_config(["neuron=residual", "k=3"])).startswith("residual-T1-k3-bert")
    assert label(load_config(["neuron=residual", "neuron.scale=token", "k=3"])).startswith("residual-T1-bert")
