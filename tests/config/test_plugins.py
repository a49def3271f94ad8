"""Packages that extend spikelm from outside: found, offered, trusted, and refused where two say the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from spikelm.cli.command_line import help_text, precheck
from spikelm.config import plugins, trust
from spikelm.config.checks import typed
from spikelm.config.compose import compose_config, load_config
from spikelm.errors import ConfigError, DataError
from spikelm.measure.audit import audit
from spikelm.measure.trained_model import measure_firing
from spikelm.neurons import build_neuron
from spikelm.runs.identity import identity
from spikelm.spiking import neurons, spikify
from spikelm.store.hashing import run_id

EXAMPLE = Path(__file__).resolve().parents[1] / "plugin"
PROJECT = EXAMPLE.parents[1]


def install(site: Path, package: str = "spikelm_example", value: str = "") -> None:
    """What an installer leaves: the package and the entry point in its metadata."""
    if package == "spikelm_example":
        shutil.copytree(EXAMPLE / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    info = site / f"{package}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[spikelm.plugins]\nmine = {value or package}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    plugins.plugins.cache_clear()
    yield folder
    plugins.plugins.cache_clear()
    for name in [name for name in sys.modules if name.startswith("spikelm_example")]:
        del sys.modules[name]


def test_an_installed_package_adds_options_and_nothing_is_imported_for_them(site: Path) -> None:
    before = help_text()
    with pytest.raises(ConfigError, match="neuron=adaptive is not a known neuron"):
        load_config(["neuron=adaptive"])
    install(site)
    plugins.plugins.cache_clear()
    config = load_config(["system=adaptive_bert", "task=words/longer", "neuron.rise=0.25"])
    assert (config.system.title, config.T, config.neuron.arguments["rise"]) == ("Adaptive-BERT", 4, 0.25)
    assert config.task.files == str(site / "spikelm_example" / "data" / "longer")
    assert "spikelm_example" not in sys.modules
    added = set(help_text().replace(",", "").split()) - set(before.replace(",", "").split())
    assert {"adaptive", "words/longer", "adaptive_bert"} <= added
    with pytest.raises(ConfigError, match=r"neuron\.theta=-1.* is not valid"):
        load_config(["neuron=adaptive", "neuron.theta=-1"])
    with pytest.raises(ConfigError, match=r"did you mean neuron\.rise"):
        load_config(["neuron=adaptive", "neuron.risee=1"])


@pytest.mark.parametrize("left_out", ["beta", "theta", "rho", "rise", "beta theta rho rise"])
def test_a_setting_that_the_yaml_of_the_docs_leaves_out_is_checked_by_its_annotation(left_out: str, site: Path) -> None:
    install(site)
    plugins.plugins.cache_clear()
    (page,) = (PROJECT / "docs").rglob("extend.md")
    (code,), (option,) = (
        [block for block in re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S) if mark in block]
        for language, mark in (("python", "class Adaptive"), ("yaml", "adaptive.Adaptive"))
    )
    (site / "spikelm_example" / "adaptive.py").write_text(code)
    kept = [line for line in option.splitlines() if line.partition(":")[0] not in left_out.split()]
    (site / "spikelm_example" / "conf" / "neuron" / "adaptive.yaml").write_text("\n".join(kept))
    for setting in left_out.split():
        config = load_config(["neuron=adaptive", f"neuron.{setting}=0.75"])
        assert config.neuron.arguments[setting] == 0.75
        assert getattr(build_neuron(config.neuron, 2), setting) == 0.75
        assert setting not in load_config(["neuron=adaptive"]).neuron.arguments, "the class has a default"
        with pytest.raises(
            ConfigError, match=rf"neuron\.{setting}=-1 is not valid; valid: a number (above|of at least) 0"
        ):
            load_config(["neuron=adaptive", f"neuron.{setting}=-1"])
        with pytest.raises(ConfigError, match=rf"unknown key neuron\.{setting}x; did you mean neuron\.{setting}\?"):
            load_config(["neuron=adaptive", f"neuron.{setting}x=1"])
        assert precheck(["neuron=adaptive", f"neuron.{setting}=0.75", "-m", "T=1,2", f"runs_dir={site.parent}"])
    model = spikify(BertModel(BertConfig(vocab_size=9, hidden_size=8, num_attention_heads=2)), "adaptive", T=2, rho=0.1)
    assert {neuron.rho for neuron in neurons(model)} == {0.1}


def test_its_classes_are_trusted_because_it_is_installed(site: Path) -> None:
    assert not trust.allowed("spikelm_example.adaptive.Adaptive")
    install(site)
    plugins.plugins.cache_clear()
    config = load_config(["neuron=adaptive", "T=3"])
    neuron = build_neuron(config.neuron, config.T)
    x = torch.tensor([1.2, 1.3, 1.45]).reshape(3, 1, 1)
    # by hand: 1.2 fires; 0.25 * 0.2 + 1.3 = 1.35 < 1.5; 0.25 * 1.35 + 1.45 = 1.7875 >= 1.25
    assert neuron(x).flatten().tolist() == [1.0, 0.0, 1.0]


def test_spikes_of_a_neuron_that_unfolds_are_counted_and_audited(site: Path) -> None:
    install(site)
    plugins.plugins.cache_clear()
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    model = spikify(BertModel(BertConfig(vocab_size=100, **sizes)), "counter", T=1)
    words = {"input_ids": torch.randint(100, (8, 16))}
    seen: list[torch.Tensor] = []
    first = next(neuron for neuron in neurons(model) if neuron.site == "encoder.layer.0.qkv_in")
    first.register_forward_hook(lambda neuron, args, spikes: seen.append(spikes))
    rates = measure_firing(model, [words])
    # a count n takes |n| spikes of 0.5
    assert rates["encoder.layer.0.qkv_in"] == pytest.approx(float(seen[0].abs().mean()) / 0.5)
    assert rates["encoder.layer.0.qkv_in"] > 1
    assert audit(model, words, T=1).verdict == "fully"


def test_a_task_with_files_of_its_own_is_named_by_their_content(site: Path, tmp_path: Path) -> None:
    install(site)
    plugins.plugins.cache_clear()
    words = ["task=words/longer", "neuron=ann", f"runs_dir={tmp_path / 'runs'}"]
    first = run_id(identity(load_config(words)))
    moved = tmp_path / "moved"
    rows = site / "spikelm_example" / "data" / "longer"
    shutil.copytree(rows, moved)
    assert run_id(identity(load_config([*words, f"task.files={moved}"]))) == first
    lines = (moved / "train.jsonl").read_text().splitlines()
    changed = {**json.loads(lines[0]), "first": "Other words."}
    (moved / "train.jsonl").write_text("\n".join([json.dumps(changed), *lines[1:]]) + "\n")
    assert run_id(identity(load_config([*words, f"task.files={moved}"]))) != first
    with pytest.raises(DataError, match=r"task\.files: .* is not a folder"):
        identity(load_config([*words, f"task.files={tmp_path / 'nowhere'}"]))


def test_pairs_of_texts_have_no_files_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.files is for labelled rows\s.*source=local"):
        load_config(["task=sum/xsum", f"task.files={tmp_path}"])


def test_an_option_that_is_there_already_is_refused(site: Path) -> None:
    install(site)
    shutil.copy(PROJECT / "conf" / "neuron" / "lif.yaml", site / "spikelm_example" / "conf" / "neuron" / "lif.yaml")
    plugins.plugins.cache_clear()
    with pytest.raises(ConfigError, match=r"plugin spikelm_example: conf/neuron/lif\.yaml is in spikelm already"):
        load_config([])


def test_a_plugin_cannot_bring_a_main_config_or_hydras_own_groups(site: Path) -> None:
    install(site)
    (site / "spikelm_example" / "conf" / "config2.yaml").write_text("a: 1\n")
    plugins.plugins.cache_clear()
    with pytest.raises(ConfigError, match=r"conf/config2\.yaml is in none of the groups"):
        load_config([])


@pytest.mark.parametrize("value", ["not_there_at_all", "spikelm_example.adaptive", "os"])
def test_an_entry_point_that_names_no_package_is_named(site: Path, value: str) -> None:
    install(site, "broken", value)
    plugins.plugins.cache_clear()
    with pytest.raises(ConfigError, match=f"names '{value}', which is no package"):
        typed(compose_config([]))


@pytest.mark.slow
def test_the_example_installs_and_runs_without_touching_spikelm(tmp_path: Path) -> None:
    source = shutil.copytree(EXAMPLE, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*pip, "--target", str(tmp_path / "site"), str(source)], check=True, capture_output=True, timeout=300
    )
    paths = os.pathsep.join([str(tmp_path / "site"), str(PROJECT)])
    environment = {**os.environ, "PYTHONPATH": paths, "SPIKELM_RUNS": str(tmp_path / "runs")}
    command = [sys.executable, "-m", "spikelm.cli.main", "system=adaptive_bert", "task=words/longer", "scale=smoke"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (found,) = (tmp_path / "runs" / "words-longer").glob("*/result.json")
    result = json.loads(found.read_text())
    assert result["source"]["rows"] == {"train": 96, "validation": 48}  # scale smoke takes as many
    assert 0 < result["firing_rate"]["mean"] < 1
    assert result["spike_driven"]["verdict"] == "fully"
