"""What a config says of its spikes, in the words of tables."""

from __future__ import annotations

from spikelm.config.settings.schema import Config


def spike_levels(config: Config) -> str:
    """The values that a spike has, as table 6 prints them."""
    arguments = config.neuron.arguments
    height = "alpha" if arguments.get("elastic") else "1"
    return f"{{-{height},0,{height}}}" if arguments.get("direction") == "bi" else f"{{0,{height}}}"
