"""Energy of recurrent models' matmuls, counted as `energy` counts a Transformer's: every MAC of a plain model.

LSTM, one token, one direction:   4 c (x + h) + [c h, where the c cells are projected to h]
characters to a word:             sum_w f_w w s (C - w + 1), highways 2 F^2 each, projection F h
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spikelm.catalog.energy import Term, check_sizes, energy_mj


def lstm_macs(inputs: int, cells: int, projection: int | None = None) -> int:
    """MACs of one token through one direction of an LSTM layer."""
    check_sizes(inputs=inputs, cells=cells)
    state = projection or cells
    return 4 * cells * (inputs + state) + (cells * projection if projection else 0)


def character_macs(characters: int, size: int, filters: Sequence[int], highways: int, hidden: int) -> int:
    """MACs of one word from its characters."""
    width = sum(filters)
    convolutions = sum(count * w * size * (characters - w + 1) for w, count in enumerate(filters, start=1))
    return convolutions + highways * 2 * width**2 + width * hidden


def bilm_terms(layers: int, hidden: int, cells: int, own: dict[str, Any], length: int) -> list[Term]:
    """The matmuls of ELMo's biLM over `length` tokens, without its softmax."""
    word = character_macs(own["characters"], own["character_size"], own["filters"], own["highways"], hidden)
    one = 2 * lstm_macs(hidden, cells, hidden if cells > hidden else None)
    return [Term("words from characters", None, length * word)] + [
        Term("biLSTM", None, length * one, layer) for layer in range(layers)
    ]


def elmo_terms(
    layers: int, hidden: int, cells: int, own: dict[str, Any], length: int, pairs: bool, labels: int
) -> list[Term]:
    """The biLM and the task's own BiLSTM and MLP; two sentences have `length` tokens together."""
    task = own["task_hidden"]
    pooled = 2 * task * (4 if pairs else 1)
    return [
        *bilm_terms(layers, hidden, cells, own, length),
        Term("task BiLSTM", None, length * 2 * lstm_macs(2 * hidden, task)),
        Term("task MLP", None, pooled * own["task_mlp"] + own["task_mlp"] * labels),
    ]


def plain_measures(terms: Sequence[Term], parts: Sequence[str]) -> dict[str, Any]:
    """energy_mj, firing_rate and spike_driven of a model without neurons, whose `parts` are all real-valued."""
    energy = {"fp32": energy_mj(terms, "fp32"), "fp16": energy_mj(terms, "fp16")}
    return {
        "energy_mj": energy,
        "energy_ann_mj": energy,
        "firing_rate": {"mean": None, "per_site": {}},
        "spike_driven": {
            **{"verdict": "none", "operations": "MACs", "spike_driven": False},
            **{"real_valued": list(parts), "silent": []},
        },
    }


def pointer_terms(
    embedding: int, hidden: int, source: int, target: int, beams: int = 1, head: int | None = None
) -> list[Term]:
    """The matmuls of a pointer-generator; with `head` words of its vocabulary, the LM head as the last term."""
    check_sizes(embedding=embedding, hidden=hidden, source=source, target=target, beams=beams)
    both = 2 * hidden  # of the encoder's directions, and of h and c
    tokens = beams * target
    terms = [
        Term("encoder biLSTM", None, source * 2 * lstm_macs(embedding, hidden)),
        Term("encoder features", None, source * both**2),
        Term("first state", None, 2 * both * hidden),
        Term("decoder LSTM", None, tokens * ((embedding + both) * embedding + lstm_macs(embedding, hidden))),
        Term("attention", None, tokens * (both**2 + 2 * source * both)),
        Term("switch", None, tokens * (2 * both + embedding)),
        Term("output", None, tokens * 3 * hidden * hidden),
    ]
    return [*terms, Term("lm head", None, tokens * hidden * head)] if head else terms


def plain_generation(
    terms: Callable[[int, int, int], Sequence[Term]],
    lengths: tuple[int, int],
    made: Sequence[tuple[int, int]],
    beams: int,
    head: float,
    parts: Sequence[str],
) -> dict[str, Any]:
    """`plain_measures` at the task's `lengths`, and in detail what was `made`: (source, target) of each text."""
    generated = sum(energy_mj(terms(source, target, beams)) for source, target in made) / len(made)
    sources, targets = zip(*made, strict=True)
    found = plain_measures(terms(*lengths, 1), parts)
    found["energy_detail"] = {
        "lengths": {"source": lengths[0], "target": lengths[1]},
        "generated": {
            "fp32": generated,
            "ann_fp32": generated,
            "beams": beams,
            "mean_source": sum(sources) / len(sources),
            "mean_target": sum(targets) / len(targets),
            "firing_rate_per_site": {},
        },
        "lm_head_fp32": head,
    }
    return found
