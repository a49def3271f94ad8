"""What recipes in conf/ are written with, where a value depends on the neuron or the task."""

from __future__ import annotations

from omegaconf import OmegaConf


def register_resolvers() -> None:
    """What recipes are written with: ${if_spiking:a,b} is a for a spiking neuron and b for the ANN,
    ${if_pairs:a,b} is a for a task with pairs of texts and b for all others, ${when:x,y,a,b} is a where x is y.
    """
    OmegaConf.register_new_resolver(
        "if_spiking", lambda a, b, *, _root_: a if _root_.neuron.get("_target_") else b, replace=True
    )
    OmegaConf.register_new_resolver("when", lambda x, y, a, b: a if x == y else b, replace=True)
    OmegaConf.register_new_resolver(
        "if_pairs", lambda a, b, *, _root_: a if _root_.task.kind == "seq2seq" else b, replace=True
    )
