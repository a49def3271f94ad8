"""What a config says of its neuron, weights and system, in the words of tables and lists."""

from __future__ import annotations

from spikelm.config.settings.schema import Config
from spikelm.runs.labels import title


def neuron_k(config: Config) -> float | None:
    """k of the neuron's amplitude (alpha is k times the mean of absolute values), where it has one."""
    return float(config.neuron.arguments["k"]) if "k" in config.neuron.arguments else None


def spike_levels(config: Config) -> str:
    """The values that a spike has, as table 6 prints them."""
    arguments = config.neuron.arguments
    height = "alpha" if arguments.get("elastic") else "1"
    return f"{{-{height},0,{height}}}" if arguments.get("direction") == "bi" else f"{{0,{height}}}"


def neuron_text(config: Config) -> str:
    """The neuron with its T and k."""
    k = neuron_k(config)
    steps = [f"T={config.time_steps}"] if config.spiking else []
    return " ".join([config.neuron.name, *steps, *([] if k is None else [f"k={k:g}"])])


def system_name(config: Config) -> str:
    """What people call its system; without one its neuron, T, k, weights and what it was distilled with."""
    if config.system.name:
        return title(config)
    if not config.converted:
        return config.neuron.name
    parts = [neuron_text(config)]
    parts += [f"weights={config.weights.name}"] if config.quantized else []
    parts += [f"distill={config.distill.name}"] if config.distill.name != "none" else []
    return " ".join(parts)
