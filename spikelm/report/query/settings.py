"""What a config says of its neuron, weights and system, in the words of tables and lists."""

from __future__ import annotations

from spikelm.config.schema import Config


def neuron_name(config: Config) -> str:
    """The neuron, ann where there is none."""
    return str(config.neuron["name"])


def neuron_k(config: Config) -> float | None:
    """k of the neuron's amplitude (alpha is k times the mean of absolute values), where it has one."""
    return float(config.neuron["k"]) if "k" in config.neuron else None


def neuron_steps(config: Config) -> int | None:
    """T of the neuron, None where it has none."""
    return int(config.neuron["T"]) if "T" in config.neuron else None


def spike_levels(config: Config) -> str:
    """The values that a spike has, as table 6 prints them."""
    height = "alpha" if config.neuron.get("elastic") else "1"
    return f"{{-{height},0,{height}}}" if config.neuron.get("direction") == "bi" else f"{{0,{height}}}"


def weights_name(config: Config) -> str:
    """The quantiser of the weights, none where they stay as they are."""
    return str(config.weights["name"])


def neuron_text(config: Config) -> str:
    """The neuron with its T and k."""
    T, k = neuron_steps(config), neuron_k(config)
    settings = [*([] if T is None else [f"T={T}"]), *([] if k is None else [f"k={k:g}"])]
    return " ".join([neuron_name(config), *settings])


def system_name(config: Config) -> str:
    """The config's own name for its system; else neuron, T, k, weights and what it was distilled with."""
    if config.system or not config.converted:
        return config.system or neuron_name(config)
    k = neuron_k(config)
    parts = [neuron_name(config), f"T={config.time_steps}", *([] if k is None else [f"k={k:g}"])]
    parts += [f"weights={weights_name(config)}"] if config.quantized else []
    parts += [f"distill={config.distill.name}"] if config.distill.name != "none" else []
    return " ".join(parts)
