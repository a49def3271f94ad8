"""What a tracked run is grouped and tagged by."""

from __future__ import annotations

import pytest

from spikelm.config.compose import load_config
from spikelm.runs.labels import labels, tables_of, title


@pytest.mark.parametrize(
    "overrides, called",
    [
        (["system=spikelm_t4"], "SpikeLM"),
        (["system=spikelm_t1"], "SpikeLM"),
        (["system=spikelm_k3", "seed=3"], "SpikeLM k=3"),
        (["system=spikelm_t4", "T=2"], "SpikeLM (T=2)"),
        (["system=spikelm_t4", "neuron=psn"], "SpikeLM (neuron=psn)"),
        (["system=spikelm_t4", "neuron.reset=paper"], "SpikeLM (neuron.reset=paper)"),
        (["system=spikelm_t1", "distill=full"], "SpikeLM (distill=full)"),
        (["system=spikelm_t1", "finetune.lr=1e-4", "backbone.hidden=48"], "SpikeLM"),
        (["system=spikelm_t1", "backbone=bert_tiny"], "SpikeLM (backbone=bert_tiny)"),
        (["system=spikelm_t1", "backbone.layers=1"], "SpikeLM (backbone.layers=1)"),
        (["system=bert", "T=4", "distill=full"], "BERT"),  # which a plain model does not read
        (["neuron=bispike", "T=4"], "bispike-T4-k2-bert_mini-mini-embedded-s42"),
    ],
)
def test_a_run_is_called_by_its_system_and_what_was_changed_of_it(overrides: list[str], called: str) -> None:
    assert title(load_config(["task=glue/rte", *overrides])) == called


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
    assert labels(loose)[:2] == ("lif T=4", "sum/xsum")
    named = load_config(["task=glue/rte", "neuron=lif", "tracker.group=mine"])
    assert labels(named).group == "mine"


def test_tables_are_those_with_the_system_and_a_column_for_the_task() -> None:
    assert {3, 6, 7} <= set(tables_of("spikelm_t4", "glue/cola"))
    assert 5 in tables_of("spikelm_t4", "pretrain")
    assert tables_of("", "glue/cola") == []
