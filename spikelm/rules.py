"""What a value may be, in one small language: fields of the config, options of a backbone, arguments of a neuron."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Rule:
    """Choices, true or false, text, or a number within bounds; `many` is a list of such, `optional` allows null."""

    choices: tuple[Any, ...] = ()
    flag: bool = False
    text: bool = False
    whole: bool = False
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    many: bool = False
    optional: bool = False

    def allows(self, value: Any) -> bool:
        """Whether the value follows the rule."""
        if value is None:
            return self.optional
        if self.many:
            return isinstance(value, Sequence) and not isinstance(value, str) and all(map(self._allows_one, value))
        return self._allows_one(value)

    def _allows_one(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if self.flag:
            return isinstance(value, bool)
        if self.text:
            return isinstance(value, str)
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """What is valid, as the end of a message: `a whole number of at least 1`."""
        if self.choices:
            meaning = ", ".join(map(str, self.choices))
        elif self.flag:
            meaning = "true or false"
        elif self.text:
            meaning = "text"
        else:
            meaning = " ".join(["a whole number" if self.whole else "a number", *self._bounds()])
        meaning = f"a list, each {meaning}" if self.many else meaning
        return f"{meaning}, or null" if self.optional else meaning

    def _bounds(self) -> list[str]:
        lower = f"of at least {self.least:g}" if self.least is not None else None
        lower = f"above {self.above:g}" if self.above is not None else lower
        upper = f"at most {self.most:g}" if self.most is not None else None
        upper = f"below {self.below:g}" if self.below is not None else upper
        return [" and ".join(bound for bound in (lower, upper) if bound)] if lower or upper else []


#: annotations of arguments (spikelm/config/class_rules.py reads them from the source)
Positive = Annotated[float, Rule(above=0)]
NotNegative = Annotated[float, Rule(least=0)]
