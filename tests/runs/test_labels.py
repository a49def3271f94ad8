"""What a tracked run is grouped and tagged by."""

from __future__ import annotations

import pytest

from spikelm.config.compose import load_config
from spikelm.runs.labels import labels, system_file, tables_of


@pytest.mark.parametrize(
    "overrides, file",
    [
        (["system=spikelm_t4"], "spikelm_t4"),
        (["system=spikelm_t1"], "spikelm_t1"),  # of the same name as spikelm_t4
        (["system=spikelm_k3", "seed=3"], "spikelm_k3"),
        (["neuron=bispike", "T=4"], ""),
    ],
)
def test_a_config_knows_the_file_of_its_system(overrides: list[str], file: str) -> None:
    assert system_file(load_config(["task=glue/rte", *overrides])) == file


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
