"""The rule language: what a value may be, and how that is said."""

from __future__ import annotations

from typing import Any

import pytest

from spikelm.rules import Rule


@pytest.mark.parametrize(
    "rule, good, bad, says",
    [
        (Rule(choices=("a", "b")), ["a", "b"], ["c", None, 1], "a, b"),
        (Rule(flag=True), [True, False], [1, 0, "true", None], "true or false"),
        (Rule(text=True), ["", "word"], [1, None], "text"),
        (Rule(whole=True, least=1), [1, 5], [0, 1.0, True, None], "a whole number of at least 1"),
        (Rule(above=0), [0.1, 3], [0, -1, float("nan"), float("inf"), "1"], "a number above 0"),
        (Rule(least=0, below=1), [0, 0.99], [1, -0.1], "a number of at least 0 and below 1"),
        (Rule(least=0, most=1, optional=True), [None, 1], [1.1], "a number of at least 0 and at most 1, or null"),
        (Rule(whole=True, least=1, many=True), [[1, 2], [], (3,)], [[0], 1, "12"], "a list, each a whole number of"),
    ],
)
def test_a_rule_allows_what_it_says(rule: Rule, good: list[Any], bad: list[Any], says: str) -> None:
    assert all(rule.allows(value) for value in good)
    assert not any(rule.allows(value) for value in bad)
    assert says in str(rule)
