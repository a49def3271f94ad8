"""What spikify makes of a model, as a record: a saved model keeps it in its config.json, under `spikelm`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from spikelm.config.recorded import rebuilt
from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.specs import AttentionSpec, ClassSpec, NormSpec, QuantizerSpec

ENTRY = "spikelm"  # of a transformers config


@dataclass(frozen=True)
class Conversion:
    """Neurons, time steps, quantiser, operators and variant of a model; `cross` is how a decoder reads its encoder.

    With `rotation` the saved weights are the rotated ones.
    """

    T: int
    neuron: ClassSpec = field(default_factory=ClassSpec)
    weights: QuantizerSpec = field(default_factory=QuantizerSpec)
    variant: VariantConfig = field(default_factory=VariantConfig)
    cross: Literal["step", "mean"] = "step"
    attention: AttentionSpec = field(default_factory=AttentionSpec)
    norm: NormSpec = field(default_factory=NormSpec)
    rotation: Literal["none", "hadamard"] = "none"

    def record_in(self, config: Any) -> None:
        """Write it into a transformers config, as plain data."""
        setattr(config, ENTRY, asdict(self))


def conversion_of(config: Any) -> Conversion | None:
    """The conversion that a transformers config records; None for a plain model."""
    record = getattr(config, ENTRY, None)
    if not record:
        return None
    conversion: Conversion = rebuilt(Conversion, record)
    return conversion
