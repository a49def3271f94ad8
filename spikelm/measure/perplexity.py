"""How well a language model predicts a text: perplexity by token and by word, bits per byte, accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from spikelm.errors import ConfigError, DataError

LARGEST = 700.0  # exp of more is no number


@dataclass(frozen=True)
class Predicted:
    """A text, each token of which was predicted once."""

    loss: float  # sum over the tokens of -log p(token | those before), in nats
    right: float  # tokens that were the likeliest
    tokens: float
    words: int
    bytes: int


LM_METRICS: dict[str, Callable[[Predicted], float]] = {
    "perplexity": lambda text: math.exp(min(text.loss / text.tokens, LARGEST)),
    "word_perplexity": lambda text: math.exp(min(text.loss / text.words, LARGEST)),
    "bits_per_byte": lambda text: text.loss / text.bytes / math.log(2),
    "loss": lambda text: text.loss / text.tokens,
    "accuracy": lambda text: 100 * text.right / text.tokens,
}


def lm_scores(text: Predicted, names: Iterable[str]) -> dict[str, float]:
    """The scores that a task asks for."""
    names = list(names)
    if unknown := [name for name in names if name not in LM_METRICS]:
        raise ConfigError(
            f"metric {unknown[0]!r} does not score running text", f"choose among: {', '.join(LM_METRICS)}"
        )
    if min(text.tokens, text.words, text.bytes) < 1:
        raise DataError("a text without a token has no perplexity", "check the text of the source")
    return {name: LM_METRICS[name](text) for name in names}
