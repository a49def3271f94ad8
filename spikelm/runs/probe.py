"""What a trained model's neurons see and do: histograms of one site per time step, and shares of active values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.config.settings.schema import Config
from spikelm.neurons import Neuron
from spikelm.neurons.amplitude import AmplitudeNeuron
from spikelm.neurons.kernels.clip import clip_run
from spikelm.neurons.kernels.precision import wide

BINS = 161
SITE = "encoder.layer.0.ffn1_in"  # the first feed-forward linear of the first block (appendix A.4)


@dataclass(frozen=True)
class StepPicture:
    """One time step of a site: histograms of what goes in and of the potential, and shares of what comes out."""

    input: list[float]
    membrane: list[float]
    height: float  # of a spike
    negative: float  # share of negative spikes
    silent: float
    positive: float
    deviation: dict[str, float]  # of input and membrane


@dataclass(frozen=True)
class SitePicture:
    """A site at every time step; `edges` are those of the histograms' bins."""

    site: str
    edges: list[float]
    steps: list[StepPicture]


def read_picture(record: Mapping[str, Any]) -> SitePicture:
    """Back from what `asdict` made of it."""
    return SitePicture(record["site"], record["edges"], [StepPicture(**step) for step in record["steps"]])


def load_for_probe(directory: Path, config: Config, root: Path) -> tuple[nn.Module, dict[str, Tensor]]:
    """The model of a finished run and its measurement samples, tokenised in the store `root`."""
    from spikelm.spiking import load_pretrained
    from spikelm.training.fit import quiet_libraries
    from spikelm.training.samples import measurement_samples

    quiet_libraries()
    torch.manual_seed(0)
    (batch, *_) = measurement_samples(replace(config, runs_dir=str(root)))
    model = load_pretrained(directory / "model")
    model.eval()
    return model, batch


@torch.no_grad()
def inputs_of(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, tuple[Neuron, Tensor]]:
    """Every neuron by site with what it was given, (T, B, ..., D)."""
    seen: dict[str, tuple[Neuron, Tensor]] = {}

    def watch(module: nn.Module, args: tuple) -> None:
        if isinstance(module, Neuron):
            seen[module.site] = (module, args[0].detach().clone())

    hooks = [module.register_forward_pre_hook(watch) for module in model.modules() if isinstance(module, Neuron)]
    try:
        model(**batch)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


@torch.no_grad()
def active_rates(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, float]:
    """Share of values above zero that leaves each site: the ones, where {-1, 1} is mapped to {0, 1} (section 3.2)."""
    return {site: float((neuron(x) > 0).double().mean()) for site, (neuron, x) in inputs_of(model, batch).items()}


@torch.no_grad()
def membranes(neuron: Neuron, x: Tensor) -> Tensor:
    """m_t of a clip-family neuron (LIF with the clip estimator, bi-spike), before it fires."""
    values = wide(x)
    if isinstance(neuron, AmplitudeNeuron):
        heights = neuron.alpha.to(values.dtype)
    else:
        heights = values.new_full((neuron.T,), float(neuron.theta))  # type: ignore[arg-type]
    found = torch.empty_like(values)
    rule: Any = neuron.rule
    clip_run(values, rule, lambda t, m: heights[t], torch.empty_like(values), membranes=found)
    return found


@torch.no_grad()
def picture(model: nn.Module, batch: dict[str, Tensor], site: str = SITE) -> SitePicture:
    """Histograms of input, membrane potential and spikes of a site at each time step, as plain numbers."""
    neuron, x = inputs_of(model, batch)[site]
    potentials, spikes = membranes(neuron, x), neuron(x)
    reach = float(torch.stack([x.abs().max(), potentials.abs().max()]).max())
    edges = torch.linspace(-reach, reach, BINS + 1, dtype=torch.float64)
    steps = []
    for t in range(x.shape[0]):
        fired = spikes[t]
        steps.append(
            StepPicture(
                input=_shares(x[t], edges),
                membrane=_shares(potentials[t], edges),
                height=float(fired.abs().max()),
                negative=float((fired < 0).double().mean()),
                silent=float((fired == 0).double().mean()),
                positive=float((fired > 0).double().mean()),
                deviation={"input": float(x[t].std()), "membrane": float(potentials[t].std())},
            )
        )
    return SitePicture(site, edges.tolist(), steps)


def _shares(values: Tensor, edges: Tensor) -> list[float]:
    counts = torch.histogram(values.flatten().double(), edges).hist
    return (counts / values.numel()).tolist()
