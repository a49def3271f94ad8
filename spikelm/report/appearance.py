"""One colour and one marker for each system, the same on the page, in figures and on W&B, whatever else a store holds.

Families share a hue: SpikeLM is blue, LIF orange, PSN ochre, plain networks grey, low-bit ones purple, rivals green,
codes of our own that unfold inside a layer red.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

import yaml

from spikelm.config.paths import config_dir

#: markers in matplotlib's letters, and what plotly calls them
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "<": "triangle-left",
    ">": "triangle-right",
    "D": "diamond",
    "d": "diamond-tall",
    "P": "cross",
    "X": "x",
    "p": "pentagon",
    "h": "hexagon",
    "8": "octagon",
    "*": "star",
}


@dataclass(frozen=True)
class Look:
    """How a system is drawn: its colour on white, its colour on a dark page, and its marker."""

    colour: str
    dark_colour: str
    marker: str

    @property
    def symbol(self) -> str:
        """The marker as plotly names it."""
        return SYMBOLS[self.marker]


#: by title and T, the usual T of a system first
LOOKS: dict[str, dict[int, Look]] = {
    "SpikeLM": {4: Look("#0072B2", "#4DB2F0", "o"), 1: Look("#2E96E0", "#9BD4FF", "d")},
    "SpikeLM_6L": {4: Look("#1F3A93", "#7F95F2", "h"), 1: Look("#7B72E0", "#CFC7FF", "*")},
    "SpikeLM 1-bit": {1: Look("#0B4A75", "#2C8FC7", "X")},
    "SpikeLM k=3": {4: Look("#3F8FAF", "#86CBE6", "^")},
    "SpikeLM k=4": {4: Look("#12305A", "#6A93CF", "v")},
    "SpikeLM learnable": {4: Look("#5B4FC7", "#B3A6FF", "D")},
    "SpikeLM {-1, 0, 1}": {4: Look("#66727D", "#B8C4CE", "P")},
    "SpikeLM {0, alpha}": {4: Look("#1B6F86", "#5FB8CC", "p")},
    "SpikeLM symmetric reset": {4: Look("#3157A8", "#86A8F5", "h")},
    "Residual code D=2": {1: Look("#D1364B", "#FF8C99", "^")},
    "Residual code D=3": {1: Look("#9E1B32", "#F2637A", "D")},
    "Residual code D=3, per token": {1: Look("#6E1423", "#D9576B", "P")},
    "Place values, 4 bits": {1: Look("#E0544C", "#FFB4AC", "X")},
    "LIF-BERT": {4: Look("#D55E00", "#FF8A33", "s"), 1: Look("#E0672F", "#FFB48A", "^")},
    "LIF-BERT*": {4: Look("#8F3A00", "#D9774A", "X")},
    "PSN-BERT*": {4: Look("#7D6608", "#F0DC82", "P")},
    "BERT": {1: Look("#1A1A1A", "#F2F2F2", "v")},
    "BERT_6L": {1: Look("#4D4D4D", "#C8C8C8", ">")},
    "BERT_3L": {1: Look("#808080", "#9E9E9E", "<")},
    "BERT_3L first layers": {1: Look("#666666", "#B3B3B3", "p")},
    "Quantised BERT, ternary": {1: Look("#B0529F", "#E79AD8", "v")},
    "Quantised BERT, 2 bits": {1: Look("#9C4DCC", "#DDA6FF", "s")},
    "Quantised BERT, 3 bits": {1: Look("#7336A8", "#BE8AF0", "p")},
    "Quantised BERT, 4 bits": {1: Look("#4A148C", "#9F6FE0", "D")},
    "Q2BERT": {1: Look("#96286F", "#D65FAE", "p")},
    "TernaryBERT": {1: Look("#6B2A8A", "#B77BD6", "v")},
    "BinaryBERT": {1: Look("#DB5CA8", "#FFB3DE", "s")},
    "BinaryBERT W1A1": {1: Look("#E0619B", "#FFB8D9", "8")},
    "BiBERT": {1: Look("#5A4A9C", "#A493E8", "D")},
    "BiT": {1: Look("#5C0A3C", "#C04A8E", "P")},
    "BiT multi": {1: Look("#944B77", "#D99BBF", "h")},
    "BiPFT": {1: Look("#A85CD1", "#D79BFF", "<")},
    "SpikingFormer": {4: Look("#00805C", "#33C79B", "^"), 1: Look("#1E9E5A", "#86E0AE", ">")},
    "SpikeBERT": {4: Look("#004D38", "#12916A", "D")},
    "SpikeGPT": {1: Look("#5F8F2E", "#A9D672", "*")},
    "I-LIF-BERT": {1: Look("#4C9A2A", "#A5DE85", "<")},
    "I-LIF-BERT, signed": {1: Look("#2E7D32", "#81C784", ">")},
    "SpikingBrain's code": {1: Look("#00695C", "#4DB6AC", "*")},
    "SpikeLLM's code": {1: Look("#1B5E20", "#66BB6A", "p")},
    "SpikeZIP's code": {1: Look("#3D8B7A", "#8FD3C4", "8")},
    "Sorbet-BERT": {1: Look("#558B2F", "#AED581", "X")},
    "Phase coding": {1: Look("#6B8E00", "#C6D65A", "s")},
    "ELMo": {1: Look("#3F6B12", "#8CC63F", "8")},
    "GPT-2": {1: Look("#1E5949", "#4E9E88", "P")},
    "BERTSUMABS": {1: Look("#2F6B1E", "#74C25C", "h")},
    "PTGEN": {1: Look("#2F9C84", "#7FE8D0", "X")},
}
#: of runs that are called by their neuron ("BERT with lif T=4"), in the hue of its family
NEURONS = {"bispike": ("#1565C0", "#64A8F0"), "lif": ("#BF4B0B", "#FF9D57"), "psn": ("#8C7200", "#E8CF5A")}
MADE_OF = re.compile(r"BERT with (\w+)")
#: colours on white and on dark of systems that are not listed above
OTHERS = (
    ("#A3333D", "#F08A93"),
    ("#7C5A3C", "#C9A27E"),
    ("#00798C", "#4CC3D6"),
    ("#C2410C", "#FDA47A"),
    ("#6D6A00", "#CFCB4A"),
    ("#A21CAF", "#EE8FF5"),
    ("#1D6E3A", "#63CB8A"),
    ("#4338CA", "#A5A0FF"),
)
#: one system has one look in the architectures of all tasks; a file in conf/system may leave the architecture open
ARCHITECTURES = re.compile(r"mBART|BART|\$\{architecture:\}")
TIME_STEPS = re.compile(r"[\s,(]+T=(\d+)\)?$")


def look_of(system_title: str, time_steps: int | None = None) -> Look:
    """The look of a system by what people call it: "SpikeLM" with T=1, which "SpikeLM (T=1)" says as well.

    Without T it is the look of the system's usual T. What is not listed, such as a system whose settings were changed,
    gets a look by its name alone, and where it is called by its neuron a colour by that.
    """
    name, found = TIME_STEPS.sub("", system_title), TIME_STEPS.search(system_title)
    steps = int(found[1]) if found else time_steps
    name = ARCHITECTURES.sub("BERT", name)
    known = LOOKS.get(name, {})
    if known and steps is None:
        return next(iter(known.values()))
    if steps in known:
        return known[steps]
    number = int.from_bytes(hashlib.sha256(f"{name} T={steps or 1}".encode()).digest()[:8], "big")
    neuron = found[1] if (found := MADE_OF.match(name)) else ""
    colour, dark_colour = NEURONS.get(neuron) or OTHERS[number % len(OTHERS)]
    markers = list(SYMBOLS)
    return Look(colour, dark_colour, markers[number // len(OTHERS) % len(markers)])


@lru_cache(maxsize=256)
def look_of_preset(system: str) -> Look:
    """The look of a system by the name of its file in conf/system, as the rows of tables name it."""
    path = config_dir() / "system" / f"{system}.yaml"
    if not path.is_file():
        return look_of(system)
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    return look_of(raw["system"]["title"], raw.get("T", 1))


def dark_colours() -> dict[str, str]:
    """What every colour on white becomes on a dark page."""
    known = {look.colour: look.dark_colour for looks in LOOKS.values() for look in looks.values()}
    return known | dict(OTHERS)
