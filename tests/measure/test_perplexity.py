"""Perplexity, bits per byte and accuracy of a text, counted by hand."""

from __future__ import annotations

import math

import pytest

from spikelm.errors import ConfigError, DataError
from spikelm.measure.perplexity import LM_METRICS, Predicted, lm_scores


def test_scores_of_a_text_counted_by_hand() -> None:
    text = Predicted(loss=8 * math.log(2), right=3, tokens=4, words=2, bytes=16)
    expected = {"perplexity": 4.0, "word_perplexity": 16.0, "bits_per_byte": 0.5, "loss": 2 * math.log(2)}
    assert lm_scores(text, LM_METRICS) == pytest.approx({**expected, "accuracy": 75.0})
    assert lm_scores(Predicted(1e9, 0, 1, 1, 1), ["perplexity"])["perplexity"] < math.inf
    with pytest.raises(ConfigError, match="rouge"):
        lm_scores(text, ["rouge1"])
    with pytest.raises(DataError, match="without a token"):
        lm_scores(Predicted(0, 0, 0, 1, 1), ["loss"])
