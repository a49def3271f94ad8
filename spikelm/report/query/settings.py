"""What a config says of its spikes, in the words of tables."""

from __future__ import annotations

from spikelm.config.settings.schema import Config

UNFOLDING = "spikelm.neurons.unfolding."  # where neurons with several spikes in a time step live


def virtual_steps(config: Config, measured: int | None) -> int | None:
    """As measured; a record of a neuron with one spike at a time may be older than the measure. None: not known."""
    return measured or (None if config.neuron.target.startswith(UNFOLDING) else 1)


def spike_levels(config: Config) -> str:
    """The values that a spike has, as table 6 prints them."""
    arguments = config.neuron.arguments
    height = "alpha" if arguments.get("elastic") else "1"
    return f"{{-{height},0,{height}}}" if arguments.get("direction") == "bi" else f"{{0,{height}}}"
