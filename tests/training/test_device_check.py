"""The check of a device: the CPU against itself in double precision passes, and whatever is broken is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from spikelm.cli.device_table import print_device_report, told
from spikelm.config import trust
from spikelm.config.plugins import option_names
from spikelm.config.settings.specs import NeuronSpec, QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.machine.environment import environment
from spikelm.neurons.bispike import BiSpike
from spikelm.spiking import kv_cache
from spikelm.training.device_check import model_checks, two_ranks
from spikelm.training.device_check import report as report_module
from spikelm.training.device_check.comparison import Check, Measured, NotHereError, apart, checked, relative
from spikelm.training.device_check.model_checks import Sizes, bert_checks, cache_check
from spikelm.training.device_check.neuron_checks import neuron_checks, one_of_each_kernel, quantizer_checks
from spikelm.training.device_check.report import DeviceReport, neuron_specs, quantizer_specs, the_device
from spikelm.training.device_check.speed import Speed, memory_checks, speeds

CPU = torch.device("cpu")
SHAPE = (4, 16, 64)
TINY = Sizes("bert_tiny", "bart_tiny", 2, 16, 6)
BROKEN = '''
import torch
from spikelm.neurons.bispike import BiSpike
from spikelm.weights.binary import Binary

def on_device(x):
    return x.dtype == torch.float32  # the reference is computed in double precision

class Early(BiSpike):
    """Fires at a threshold that is one percent too low."""
    def forward(self, x):
        return super().forward(x * 1.01 if on_device(x) else x)

class Amplitude(BiSpike):
    """Its spikes are one percent too high."""
    def forward(self, x):
        return super().forward(x) * (1.01 if on_device(x) else 1.0)

class Gradient(BiSpike):
    """Its gradient is too large."""
    def forward(self, x):
        spikes = super().forward(x)
        return spikes + 0.05 * (x - x.detach()) if on_device(x) else spikes

class Inference(BiSpike):
    """Fires otherwise in inference."""
    def forward(self, x):
        return super().forward(x * 1.1 if on_device(x) and not self.training else x)

class NoNumber(BiSpike):
    def forward(self, x):
        return super().forward(x) * (float("nan") if on_device(x) else 1.0)

class Elsewhere(BiSpike):
    """As a buffer that was left on another device."""
    def forward(self, x):
        if on_device(x):
            raise RuntimeError("Expected all tensors to be on the same device")
        return super().forward(x)

class Weights(Binary):
    def forward(self, weight):
        return super().forward(weight) * (1.01 if on_device(weight) else 1.0)
'''


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "brokenneurons.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    trust.trust("brokenneurons")
    return "brokenneurons"


def test_every_neuron_and_quantiser_is_compared_and_passes() -> None:
    checks = list(neuron_checks(neuron_specs(), CPU, SHAPE))
    named = {check.name.split()[0] for check in checks}
    assert named == set(option_names("neuron")) - {"ann"}
    assert [check for check in checks if check.state != "ok"] == []
    weights = list(quantizer_checks(quantizer_specs(), CPU, 64))
    assert {check.name for check in weights} == set(option_names("weights")) - {"none"}
    assert [check for check in weights if check.state != "ok"] == []
    assert [spec.name for spec in one_of_each_kernel(neuron_specs())] == ["bispike", "lif"]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("Early", "values apart"),
        ("Amplitude", "values apart"),
        ("Gradient", "gradients apart"),
        ("Inference", "inference apart"),
        ("NoNumber", "values apart"),
    ],
)
def test_a_broken_neuron_is_a_problem(broken: str, name: str, number: str) -> None:
    spec = NeuronSpec(f"{broken}.{name}", {}, name=name)
    first, *_ = neuron_checks([spec], CPU, SHAPE)
    assert first.state == "problem"
    assert number in [item.name for item in first.measured if not item.within]


def test_a_neuron_that_fails_on_the_device_is_a_problem_and_the_others_go_on(broken: str) -> None:
    specs = [NeuronSpec(f"{broken}.Elsewhere", {}, name="elsewhere"), NeuronSpec.of(BiSpike)]
    checks = list(neuron_checks(specs, CPU, SHAPE))
    assert checks[0].state == "problem"
    assert "same device" in checks[0].note
    assert {check.state for check in checks[3:]} == {"ok"}


def test_a_broken_quantiser_is_a_problem(broken: str) -> None:
    (check,) = quantizer_checks([QuantizerSpec(f"{broken}.Weights", {}, name="weights")], CPU, 64)
    assert check.state == "problem"


def test_models_are_compared_and_a_neuron_that_fires_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {check.state for check in bert_checks(TINY, CPU)} == {"ok"}
    forward = BiSpike.forward

    def early(self: BiSpike, x: Tensor) -> Tensor:
        return forward(self, x * 1.5 if x.dtype == torch.float32 else x)

    monkeypatch.setattr(BiSpike, "forward", early)
    states = {check.name: check.state for check in bert_checks(TINY, CPU) if "2 layers" in check.name}
    assert states == {"plain, 2 layers": "ok", "bi-spike T=1, 2 layers": "problem", "bi-spike T=4, 2 layers": "problem"}


@pytest.mark.parametrize("T", [1, 4])
def test_a_cache_of_other_rows_is_a_problem(T: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = replace(TINY, bart="bart_mini", new_tokens=12)
    assert cache_check(sizes, CPU, T).state == "ok"
    unpack = kv_cache.unpack
    monkeypatch.setattr(kv_cache, "unpack", lambda *args: unpack(*args).roll(1, 1))  # of the next row
    broken = cache_check(sizes, CPU, T)
    assert broken.state == "problem"
    assert broken.measured[0].value > 2 * model_checks.CACHED


@pytest.mark.slow
def test_two_ranks_have_the_gradient_of_one_and_two_seeds_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    check = two_ranks.two_rank_check(TINY, CPU)
    assert check.state == "ok", check
    whole = two_ranks.alone(TINY, CPU)
    monkeypatch.setattr(two_ranks, "alone", lambda sizes, device: (whole[0] * 2, whole[1]))
    assert two_ranks.two_rank_check(TINY, CPU).state == "problem"


def test_values_are_apart_by_a_share_of_the_largest() -> None:
    reference = torch.tensor([1000.0, 1.0, 0.0, 2.0])
    values = torch.tensor([1000.5, 1.5, 2.0, float("nan")])
    assert apart(values, reference, 1e-3).tolist() == [False, False, True, True]
    assert relative(torch.ones(2), torch.zeros(2)) == pytest.approx(2**0.5)


def test_a_check_is_skipped_failed_or_measured() -> None:
    def missing() -> list[Measured]:
        raise NotHereError("there is one GPU")

    assert checked("a", "b", missing) == Check("a", "b", "skipped", note="there is one GPU")
    assert checked("a", "b", lambda: [Measured("x", 2.0, 1.0)]).state == "problem"
    assert checked("a", "b", lambda: [Measured("x", float("nan"))]).state == "problem"
    assert checked("a", "b", lambda: [Measured("x", 2.0)]).state == "ok"


SPEED = Speed("fp32, eager", "plain", 32, 128, 1e5, 1.0, 10.0, 11.4)


def test_memory_is_compared_with_its_estimate() -> None:
    far, unknown = replace(SPEED, estimated_gb=8.4), replace(SPEED, memory_gb=None)
    assert [check.state for check in memory_checks([SPEED, far, unknown])] == ["ok", "problem", "skipped"]


def test_speeds_are_told_relative_to_the_plain_model() -> None:
    plain, *spiking = speeds(TINY, CPU, repeats=2)
    assert plain.times_plain == 1.0
    assert [speed.system for speed in spiking] == ["bi-spike T=1", "bi-spike T=4"]
    assert all(speed.tokens_per_second > 0 and speed.memory_gb is None for speed in (plain, *spiking))


def test_the_table_names_what_is_not_ok(capsys: pytest.CaptureFixture[str]) -> None:
    checks = (
        Check("neuron", "bispike T=4", "ok", (Measured("values apart", 2e-6, 1e-5),)),
        Check("neuron", "lif T=4", "problem", (Measured("values apart", 0.5, 1e-5),)),
        Check("ranks", "two", "skipped", note="there is one GPU"),
    )
    report = DeviceReport("NVIDIA H100", False, 600.0, environment(), checks, (SPEED,))
    print_device_report(report)
    printed = capsys.readouterr().out
    assert "| neuron | 1 of 2 | values apart 5.0e-01 (1e-05) |" in printed
    assert "| problem | neuron lif T=4 | values apart 5.0e-01 (1e-05) |" in printed
    assert "| skipped | ranks two | there is one GPU |" in printed
    assert "| fp32, eager | plain | 32 x 128 | 100,000 | 1.00 | 10 GB | 11.4 GB |" in printed
    assert told(checks[2]) == "skipped ranks two: there is one GPU"
    assert json.loads(json.dumps(asdict(report)))["checks"][1]["measured"][0]["value"] == 0.5


def test_a_step_that_fails_loses_nothing_of_what_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*args: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    before = Check("neuron", "bispike T=4", "ok")
    monkeypatch.setattr(report_module, "_comparisons", lambda *args: iter([before]))
    monkeypatch.setattr(report_module, "speeds", no_memory)
    report = report_module.check_device("cpu", True, lambda result: None)
    assert report.checks[0] == before
    assert [check.note for check in report.problems] == ["OutOfMemoryError: out of memory"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no GPU"):
        the_device("cuda")


@pytest.mark.slow
def test_the_whole_check_on_a_cpu(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    program = "if __name__ == '__main__':\n    from spikelm.cli.main import doctor\n    doctor()\n"
    (tmp_path / "command.py").write_text(program)
    command = [
        sys.executable,
        str(tmp_path / "command.py"),
        "--check",
        "--device",
        "cpu",
        "--quick",
        "--json",
        str(file),
    ]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(file.read_text())
    assert {check["part"] for check in record["checks"]} == {
        "neuron", "weights", "compiled", "model", "cache", "ranks", "memory",
    }  # fmt: skip
    assert "| part | ok |" in done.stdout
