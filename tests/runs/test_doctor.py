"""spikelm-doctor: what it makes of a machine, that it never hangs, writes or tells a secret."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spikelm.cli.doctor import doctor_main
from spikelm.data.tokens.manifest import FORMAT, Counts, Manifest, PreparedSettings, PreparedSplit, write_manifest
from spikelm.errors import ConfigError
from spikelm.machine.compilers import Missing
from spikelm.machine.gpus import DriverAnswer, Gpu
from spikelm.machine.installed import Difference
from spikelm.machine.memory import Memory
from spikelm.machine.meters import Meter, Meters, NotMeasurable
from spikelm.machine.services import Service
from spikelm.machine.torch_build import TorchAnswer, TorchBuild
from spikelm.runs.doctor import facts as facts_module
from spikelm.runs.doctor.data_facts import DataFacts, data_facts, prepared_tokens
from spikelm.runs.doctor.facts import Asked, Disk, Facts
from spikelm.runs.doctor.finding import Finding
from spikelm.runs.doctor.judgement import judged

RAPL = Meter("package-0", "processor", "RAPL (powercap)", lambda: 0)
CLOSED = NotMeasurable("package-0", "root alone may read it", "sudo chmod a+r energy_uj")
H100 = Gpu("NVIDIA H100", 85.5, "560.35")
REACHED = Asked(Service("https://huggingface.co", "", True), "")
READY = Facts(
    python="3.11.7",
    torch=TorchAnswer(TorchBuild("2.13.0+cu126", "12.6", "91002", "2.27.5"), 8),
    driver=DriverAnswer((H100,) * 8),
    missing_on_cpu=[],
    missing_on_gpu=[],
    cores=64,
    memory=Memory(500, 400),
    meters=Meters((RAPL,)),
    disk=Disk(Path("/data"), 2000, True),
    hub=REACHED,
    wandb=REACHED,
    slurm=True,
    allocation=None,
    unmet=[],
    others=[],
    data={"minilm": DataFacts("files"), "paper": DataFacts("4.3 billion tokens")},
)
ON_CPU = replace(READY, torch=TorchAnswer(TorchBuild("2.13.0+cpu")), driver=DriverAnswer(trouble="no nvidia-smi"))
OFFLINE = Asked(Service("https://huggingface.co", "HF_HUB_OFFLINE=1", True), None)
DEAD = Asked(Service("https://huggingface.co", "", True), "timed out")
NOT_PREPARED = {**READY.data, "paper": DataFacts("0 of 2", "no prepared text", "spikelm-prepare scale=paper")}


def of(subject: str, facts: Facts) -> Finding:
    (line,) = [finding for finding in judged(facts) if finding.subject == subject]
    return line


def test_a_machine_that_has_everything_is_ready_for_everything() -> None:
    for line in judged(READY):
        assert set(line.states.values()) == {"ok"}, line
        assert line.fix == ""


@pytest.mark.parametrize(
    ("subject", "changes", "states"),
    [
        ("torch", {"torch": TorchAnswer(None, 0, "no libcudart")}, "problem problem problem"),
        ("torch", {"torch": TorchAnswer(TorchBuild("2.13.0+cpu"))}, "warning warning problem"),
        ("torch", {"torch": replace(READY.torch, gpus=0, trouble="driver too old")}, "warning warning problem"),
        ("GPUs", {"torch": replace(READY.torch, gpus=3)}, "warning warning problem"),
        ("GPUs", {"driver": DriverAnswer(trouble="it hangs")}, "ok ok problem"),
        ("GPUs", {"driver": DriverAnswer((replace(H100, memory_gb=12.0),) * 8)}, "ok ok warning"),
        ("torch.compile", {"missing_on_gpu": [Missing("Triton", "pip install triton")]}, "ok ok warning"),
        ("memory", {"memory": Memory(500, 5)}, "warning warning problem"),
        ("cores", {"cores": 16}, "ok ok warning"),
        ("energy meters", {"meters": Meters(missing=(CLOSED,))}, "ok ok warning"),
        ("disk", {"disk": Disk(Path("/data"), 100, True)}, "ok ok warning"),
        ("disk", {"disk": Disk(Path("/data"), 1, True)}, "warning problem problem"),
        ("disk", {"disk": Disk(Path("/data"), 100, False)}, "problem problem problem"),
        ("libraries", {"others": [Difference("rich", "15", "14")]}, "warning warning warning"),
        ("libraries", {"unmet": [Difference("rich", ">=15", None)]}, "problem problem problem"),
        ("hub", {"hub": OFFLINE}, "ok ok warning"),
        ("hub", {"hub": OFFLINE, "data": NOT_PREPARED}, "ok ok problem"),
        ("hub", {"hub": DEAD, "data": NOT_PREPARED}, "ok ok problem"),
        ("hub", {"hub": Asked(Service("https://huggingface.co", "", False), "")}, "ok ok warning"),
        ("W&B", {"wandb": DEAD}, "ok ok warning"),
        ("W&B", {"wandb": Asked(Service("https://api.wandb.ai", "", False), "")}, "ok ok warning"),
        ("data (paper)", {"data": NOT_PREPARED}, "ok ok problem"),
        ("data (minilm)", {"data": {**READY.data, "minilm": DataFacts("", "no files")}}, "ok problem ok"),
    ],
)
def test_what_is_missing_is_told_with_its_fix(subject: str, changes: dict[str, Any], states: str) -> None:
    line = of(subject, replace(READY, **changes))
    assert " ".join(line.states.values()) == states
    assert line.fix


def test_a_machine_without_gpus_is_fine_for_small_scales() -> None:
    lines = judged(ON_CPU)
    assert all(line.at("mini") == line.at("smoke") == "ok" for line in lines)
    assert {line.subject for line in lines if line.at("paper") == "problem"} == {"torch", "GPUs"}
    assert "TORCH_INDEX" in of("torch", ON_CPU).fix


def test_meters_are_named_and_those_that_are_not_there_say_why() -> None:
    assert of("energy meters", READY).says == "RAPL (powercap): package-0"
    line = of("energy meters", replace(READY, meters=Meters((RAPL,), (NotMeasurable("memory", "it has none"),))))
    assert line.says == "RAPL (powercap): package-0; memory is not counted: it has none"
    assert set(line.states.values()) == {"ok"}  # nothing can be done about it
    closed = of("energy meters", replace(READY, meters=Meters(missing=(CLOSED,))))
    assert (closed.says, closed.fix) == ("none: root alone may read it", "sudo chmod a+r energy_uj")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow questions are answered at once."""
    monkeypatch.setattr(facts_module, "ask_torch", lambda: ON_CPU.torch)
    monkeypatch.setattr(facts_module, "ask_driver", lambda: ON_CPU.driver)


@pytest.mark.usefixtures("quick")
def test_the_command_prints_one_screen_and_its_exit_code_is_that_of_the_scale(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = {"HF_TOKEN": "hf_planted1234567890abcdef", "WANDB_API_KEY": "planted-key-of-wandb"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    assert doctor_main([]) == 0
    printed = capsys.readouterr().out
    assert doctor_main(["--scale", "paper"]) == 1
    at_paper = capsys.readouterr().out
    assert "scale=mini: ready" in printed
    assert "scale=paper: not ready" in at_paper
    assert "problem GPUs: " in at_paper
    assert len(at_paper.splitlines()) < 50
    assert max(map(len, printed.splitlines()[:-1])) <= 100
    assert doctor_main(["--json", "--scale", "paper"]) == 1
    as_json = capsys.readouterr().out
    record = json.loads(as_json)
    assert (record["scale"], record["ready"]) == ("paper", False)
    assert {"subject", "says", "states", "fix"} == set(record["findings"][0])
    for secret in secrets.values():
        assert secret not in printed + at_paper + as_json
    assert not runs_dir.exists()  # reading never writes


@pytest.mark.usefixtures("quick")
def test_a_dead_network_is_not_waited_for(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.delenv("WANDB_MODE")
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("WANDB_BASE_URL", address)
        started = time.monotonic()
        assert doctor_main(["--json"]) == 0
        assert time.monotonic() - started < 15  # two seconds of them, and what the config takes on a busy machine
    findings = {line["subject"]: line["says"] for line in json.loads(capsys.readouterr().out)["findings"]}
    assert "not reachable" in findings["hub"]
    assert "not reachable" in findings["W&B"]


@pytest.mark.usefixtures("quick")
def test_offline_variables_are_obeyed(runs_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def never(*args: Any, **kwargs: Any) -> str:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(facts_module, "unreachable", never)
    assert doctor_main(["--json"]) == 0
    findings = {line["subject"]: line for line in json.loads(capsys.readouterr().out)["findings"]}
    assert "HF_HUB_OFFLINE=1 is set" in findings["hub"]["says"]
    assert findings["hub"]["fix"] == "unset HF_HUB_OFFLINE"
    assert "WANDB_MODE=disabled is set" in findings["W&B"]["says"]


def test_options_of_the_check_need_it() -> None:
    with pytest.raises(ConfigError, match="for --check"):
        doctor_main(["--quick"])
    with pytest.raises(ConfigError, match="reads no data of yours"):
        doctor_main(["source.root=/tmp"])


def test_files_of_a_task_in_a_folder_of_the_users(tmp_path: Path) -> None:
    overrides = [f"source.root={tmp_path}", "backbone=bert_base"]
    missing = data_facts("minilm", tmp_path / "runs", overrides)
    assert "no folder for glue/rte" in missing.missing
    (tmp_path / "RTE").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "RTE" / f"{split}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n")
    assert data_facts("minilm", tmp_path / "runs", overrides) == DataFacts(
        f"glue/rte: 2 files in {tmp_path}; weights of bert_base"
    )
    assert data_facts("minilm", tmp_path, ["task=glue/mnli", *overrides]).missing


def test_running_text_in_a_folder_of_the_users_and_on_the_hub(tmp_path: Path) -> None:
    overrides = ["task=lm/text", f"source.root={tmp_path}", "neuron=ann", "backbone=gpt2", "backbone.path=null"]
    empty = data_facts("minilm", tmp_path / "runs", overrides)
    assert "no folder for lm/text" in empty.missing
    for name in ("train.txt", "valid.txt", "more/train.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a line\n")
    there = data_facts("minilm", tmp_path / "runs", overrides)
    assert there == DataFacts(f"lm/text: 3 text files in {tmp_path}; backbone gpt2")
    mirror = ["task=lm/wikitext2", "neuron=ann", "source=hub", f"source.mirror={tmp_path}"]
    missing = data_facts("paper", tmp_path / "runs", mirror)
    assert missing.missing == "Salesforce/wikitext is not downloaded"
    assert missing.fix == "spikelm-prepare scale=paper task=lm/wikitext2 source=hub"
    (tmp_path / "Salesforce" / "wikitext").mkdir(parents=True)
    assert data_facts("paper", tmp_path / "runs", mirror).missing == ""


def test_prepared_text_is_that_of_the_manifests(tmp_path: Path) -> None:
    cache = tmp_path / ".cache"
    assert data_facts("paper", tmp_path, []).fix == "spikelm-prepare scale=paper task=pretrain"
    texts = {"a": ("hub", 4_300_000_000), "b": ("local", 7), "gone": ("hub", 9**12), "damaged": ("hub", 9**12)}
    for name, (source, tokens) in texts.items():
        settings = PreparedSettings(source, 10, 0, [], 4)
        splits = {"train": PreparedSplit(name, Counts(1, 1, tokens))}
        (cache / "prepared" / name).mkdir(parents=True)
        write_manifest(cache / "prepared" / name, Manifest(FORMAT, "0.1", settings, "", 9, "", [], splits, []))
        if name != "gone":
            (cache / "encoded" / name).mkdir(parents=True)
    (cache / "prepared" / "damaged" / "manifest.json").write_text("{")
    assert prepared_tokens(cache, "hub") == 4_300_000_000
    assert prepared_tokens(cache, "embedded") == 0
    assert data_facts("paper", tmp_path, []) == DataFacts("4.30 billion tokens of pretraining text are prepared")
