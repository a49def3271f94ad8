"""The energy card: what real forward passes of any model take, counted by watching them, and what that would cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from torch import Tensor, nn

from spikelm.catalog.counts import TOGETHER, ModelCounts, OperatorCount, ProductCount, merged
from spikelm.catalog.estimators import Estimate, SynapticOperations, estimates, synaptic_operations
from spikelm.errors import SpikeLMError
from spikelm.measure.watch import MatmulWatch, blocks_of, watched
from spikelm.spiking.conversion import conversion_of
from spikelm.spiking.sites import ARCHITECTURES

Inputs = Mapping[str, Any] | Sequence[Any] | Tensor


@dataclass(frozen=True)
class EnergyCard:
    """One model on one set of inputs: what was counted, and what each estimator makes of it."""

    model: str
    inputs: str  # what it was watched on, in words
    counts: ModelCounts
    estimates: tuple[Estimate, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "inputs": self.inputs,
            "counts": asdict(self.counts),
            "modelled": [asdict(one) for one in self.estimates],
        }

    @property
    def neurobench(self) -> SynapticOperations:
        """Counts by NeuroBench's rules."""
        return synaptic_operations(self.counts)


def energy_card(
    model: nn.Module,
    batches: Inputs | list[Mapping[str, Any]],
    T: int | None = None,
    *,
    rows: int | None = None,
    blocks: Sequence[str] | None = None,
    generate: Mapping[str, Any] | None = None,
    inputs: str = "",
) -> EnergyCard:
    """Watch forward passes of a model and count what they take: operations, spikes, what stays real, what is moved.

    It works for our models and for any other torch module. Spikes are found in the numbers themselves, whoever made
    them; neurons of spikingjelly and snnTorch are known as neurons, too.

    Args:
        model: Spiking or plain. It is watched in eval mode and left as it was.
        batches: The arguments of the model, by name, in their order or a single tensor; or a list of such mappings.
        T: The time steps, all in one pass or one after the other; by default what `spikify` wrote into the model, or 1.
        rows: Inputs in a batch, which one inference is counted for; by default the first axis of the first tensor.
        blocks: Where the layers are that the paper's rule counts; by default those of a known architecture, else the
            lists of modules that the model has, else all of it.
        generate: Options of `model.generate`; then the model goes on token by token.
        inputs: What the batches are, in words, for the printed card.

    Returns:
        An `EnergyCard`: its `counts` and `estimates`.

    Examples:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from spikelm.measure import energy_card
        >>> from spikelm.spiking import calibrate, spikify
        >>> sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        >>> batch = {"input_ids": torch.randint(100, (8, 16))}
        >>> card = energy_card(BertModel(BertConfig(vocab_size=100, **sizes)), batch)
        >>> sum(one.macs for one in card.counts.blocks) // card.counts.rows  # 16 (4 * 32^2 + 2 * 32 * 64) + 2 * 16^2 32
        147456
        >>> card.estimates[0].estimator, f"{card.estimates[0].network:.6f} mJ"  # 147,456 times 4.6 pJ
        ('paper', '0.000678 mJ')
    """
    conversion = conversion_of(model.config) if hasattr(model, "config") else None
    steps = T or (conversion.T if conversion else 1)
    places = tuple(blocks) if blocks is not None else _blocks(model)
    listed = batches if isinstance(batches, list) and batches and isinstance(batches[0], Mapping) else [batches]
    seen = [watched(model, batch, steps, generate, places, rows) for batch in listed]
    counts = counts_of(model, seen, steps)
    return EnergyCard(type(model).__name__, inputs, counts, tuple(estimates(counts)))


def counts_of(model: nn.Module, seen: Sequence[MatmulWatch], T: int) -> ModelCounts:
    """What was seen of a model in one or several batches, as one record."""
    products = merged(row.count for watch in seen for row in watch.rows)
    if not products:
        raise SpikeLMError("no product of matrices ran in the model", "a model that computes with matrices")
    neurons: dict[str, Any] = {}
    for one in chain.from_iterable(watch.neurons.values() for watch in seen):
        neurons[one.site] = one if one.site not in neurons else neurons[one.site].plus(one)
    tensors = (*model.parameters(), *model.buffers())
    return ModelCounts(
        rows=sum(watch.inputs for watch in seen),
        passes=len(seen),
        T=T,
        products=tuple(_step_by_step(one, T, len(seen)) for one in products),
        neurons=tuple(neurons.values()),
        operators=_operators(seen, T),
        looked_up=sum(watch.looked_up for watch in seen),
        spiking=any(one.spike_driven for one in products),
        weights=sum({one.module: one.weights for one in products}.values()),
        parameters=sum(one.numel() for one in model.parameters()),
        footprint=sum(one.numel() * one.element_size() for one in tensors),
    )


def _step_by_step(one: ProductCount, T: int, passes: int) -> ProductCount:
    """A product that is called anew at each time step stands for all of them, as one that is given them at once.

    Which values fire at several of its steps is not seen, so that a twin computes as many as it can need at the most.
    """
    if T == 1 or one.steps == T or one.calls % (T * passes):
        return one
    together = max(1, min(TOGETHER, one.sharing))
    return replace(
        one,
        steps=T,
        calls=one.calls // T,
        distinct=min(one.distinct, one.macs // T),
        twin_fetched_together=min(one.twin_fetched_together, one.macs // T // together),
    )


def _operators(seen: Iterable[MatmulWatch], T: int) -> tuple[OperatorCount, ...]:
    """The calls of the same operator as one."""
    groups: dict[tuple[str, str, int], OperatorCount] = {}
    for row in chain.from_iterable(watch.operators for watch in seen):
        key = (row.module, row.name, row.steps)
        values = row.values + (groups[key].values if key in groups else 0)
        groups[key] = OperatorCount(row.module, row.name, row.arithmetic, row.part, row.steps, values)
    return tuple(groups.values())


def _blocks(model: nn.Module) -> tuple[str, ...]:
    """Where the layers are of a model of any kind."""
    if str(getattr(getattr(model, "config", None), "model_type", None)) in ARCHITECTURES:
        return blocks_of(model)
    lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    outermost = [name for name in lists if not any(name.startswith(f"{other}.") for other in lists)]
    return tuple(outermost) or ("",)
