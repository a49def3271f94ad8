"""Firing rates as figure 5 has them: of what each linear layer of a BERT reads."""

from __future__ import annotations

from collections.abc import Mapping

#: the linear layers of a BERT layer, each with the site of the neuron that feeds it
LINEARS = {
    "query": "qkv_in",
    "key": "qkv_in",
    "value": "qkv_in",
    "attention output": "attn_out_in",
    "FFN 1": "ffn1_in",
    "FFN 2": "ffn2_in",
}


def linear_rates(per_site: Mapping[str, float]) -> list[tuple[int, str, float]]:
    """Layer, linear and rate, in the order of computation; six linears a layer."""
    layers = sorted({int(site.split(".")[2]) for site in per_site if site.startswith("encoder.layer.")})
    return [
        (layer, linear, per_site[name])
        for layer in layers
        for linear, site in LINEARS.items()
        if (name := f"encoder.layer.{layer}.{site}") in per_site
    ]
