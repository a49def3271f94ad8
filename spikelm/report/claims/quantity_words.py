"""The quantities of claims in words: "SpikeLM, T=4: average score" instead of the name in the check."""

from __future__ import annotations

from functools import lru_cache

import yaml

from spikelm.config.paths import config_dir
from spikelm.report.claims.claims import CARD, Quantity
from spikelm.report.show_result import readable

MEASURES = {
    "avg": "average score",
    "constant": "average score of the constant predictor",
    "energy_fp32": "energy, mJ fp32",
    "energy_fp16": "energy, mJ fp16",
    "firing": "firing rate, %",
    "firing_linears": "firing rate of linear layers, %",
    "firing_before": "firing rate of linear layers before training, %",
    "fully": "fully spike-driven",
    "decoding_fully": "fully spike-driven while decoding",
    "losses_fall": "every wider model has a lower pretraining loss",
    "loss_sum": "sum of the pretraining losses over all widths",
}
ARCHITECTURES = {"sum": "BART", "mt": "mBART"}  # of text tasks, by the first word of their name
TRUTHS = ("fully", "decoding_fully", "losses_fall")  # measures that are 1 or 0


def quantity_words(quantity: Quantity) -> str:
    """What is measured, of which system, on which task."""
    what = _measure_words(quantity.measure) if quantity.measure else readable(quantity.metric)
    architecture = ARCHITECTURES.get(quantity.task.partition("/")[0], "BERT")
    system = _system_words(quantity.system).replace("${architecture:}", architecture)
    return f"{system}{f', {quantity.task}' if quantity.task else ''}: {what}"


def _measure_words(measure: str) -> str:
    """A measure, or an estimator of the energy card and the network that it is about."""
    if not measure.startswith(CARD):
        return MEASURES.get(measure, measure)
    key, _, network = measure.removeprefix(CARD).partition("/")
    whose = {"network": "", "plain": " of the plain model", "twin": " of its quantised twin"}[network]
    return f"modelled energy{whose} by {key.replace('_', ' ')}, mJ"


def value_text(quantity: Quantity | None, value: float) -> str:
    """A number of a claim: yes or no where it says whether something is so, else four significant digits."""
    if quantity is not None and quantity.measure in TRUTHS:
        return "yes" if value else "no"
    text = f"{value:.4g}"
    return f"{text}.0" if text.lstrip("-").isdigit() else text  # 71.0, as the numbers beside it


@lru_cache(maxsize=256)
def _system_words(system: str) -> str:
    """The title of a system as its file has it, and its T where it is not an ANN."""
    path = config_dir() / "system" / f"{system}.yaml"
    if not path.is_file():
        return system
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    return f"{raw['system']['title']}, T={raw['T']}" if "T" in raw else str(raw["system"]["title"])
