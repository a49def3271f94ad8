"""Charts as inline SVG: colours are the page's own variables, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH, HEIGHT = 460, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 36
COLOURS = 6  # classes c0 to c5 of the style sheet: a colour (Okabe and Ito) and a dash each


@dataclass(frozen=True)
class Line:
    """One curve with its name."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Point:
    """One mark of a scatter: where, of which group, what it says and where it leads."""

    x: float
    y: float
    group: str
    title: str
    href: str


class _Axis:
    """Data to pixels, linear or logarithmic, with round ticks."""

    def __init__(self, values: Sequence[float], start: float, end: float, log: bool = False) -> None:
        self.log = log and min(values) > 0
        low, high = (math.log10(min(values)), math.log10(max(values))) if self.log else (min(values), max(values))
        margin = (high - low) * 0.04 or (0.1 if self.log else abs(high) * 0.05 or 1.0)
        self.low, self.high, self.start, self.end = low - margin, high + margin, start, end

    def at(self, value: float) -> float:
        value = math.log10(value) if self.log else value
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        low, high = self.low, self.high
        if self.log:
            ticks = [10.0**n * m for n in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
            ticks = [value for value in ticks if low <= math.log10(value) <= high]
            if len(ticks) > 6:
                ticks = [value for value in ticks if math.log10(value) % 1 == 0] or ticks
            if len(ticks) >= 2:
                return ticks
            low, high = 10**low, 10**high
        step = 10 ** math.floor(math.log10((high - low) / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
        first = math.ceil(low / step)
        return [n * step for n in range(first, math.floor(high / step) + 1)]


def short(value: float) -> str:
    """A tick's number: no more digits than it needs."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-4):
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e").replace(".0e", "e")
    return (
        f"{value:.4f}".rstrip("0").rstrip(".")
        if abs(value) < 1
        else f"{value:.4g}"
        if abs(value) < 1e4
        else f"{value:.0f}"
    )


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, width: int = WIDTH) -> Markup:
    """Curves over a common axis; single values are dots."""
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return Markup("")
    x = _Axis([v for line in lines for v in line.x], LEFT, width - RIGHT)
    y = _Axis([v for line in lines for v in line.y], HEIGHT - BOTTOM, TOP)
    parts = [_frame(x, y, x_label, y_label, width)]
    for number, line in enumerate(lines):
        points = [(x.at(a), y.at(b)) for a, b in zip(line.x, line.y, strict=True)]
        if len(points) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            parts.append(Markup('<polyline class="curve c{}" points="{}"/>').format(number % COLOURS, path))
        if len(points) <= 12:
            dots = [Markup('<circle cx="{:.1f}" cy="{:.1f}" r="2.6"/>').format(a, b) for a, b in points]
            parts.append(Markup('<g class="mark c{}">{}</g>').format(number % COLOURS, Markup("").join(dots)))
    return _svg(parts, width, f"{y_label} over {x_label}") + legend([line.name for line in lines])


def scatter(points: Sequence[Point], groups: Sequence[str], x_label: str, y_label: str, width: int = 300) -> Markup:
    """Marks coloured by group, each a link; x is logarithmic."""
    x = _Axis([point.x for point in points], LEFT, width - RIGHT, log=True)
    y = _Axis([point.y for point in points], HEIGHT - BOTTOM, TOP)
    parts = [_frame(x, y, x_label, y_label, width)]
    for point in points:
        mark = _mark(groups.index(point.group), x.at(point.x), y.at(point.y))
        link = Markup('<a href="{}"><title>{}</title>{}</a>').format(point.href, point.title, mark)
        parts.append(link)
    return _svg(parts, width, f"{y_label} against {x_label}")


def _mark(group: int, x: float, y: float) -> Markup:
    """Colour and form: six of one and four of the other are twelve groups that differ."""
    colour, form = group % COLOURS, group % 4
    if form == 0:
        return Markup('<circle class="mark c{}" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(colour, x, y)
    path = {
        1: f"M{x:.1f} {y - 5.5:.1f}l5 9h-10z",
        2: f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z",
        3: f"M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
    }[form]
    return Markup('<path class="mark c{}" d="{}"/>').format(colour, path)


def legend(names: Sequence[str], marks: bool = False) -> Markup:
    """The names of curves or groups beside a sample of each; a single curve needs none."""
    if len(names) < 2 and not marks:
        return Markup("")
    items = []
    for number, name in enumerate(names):
        if marks:
            sample = _mark(number, 8, 6)
        else:
            sample = Markup('<path class="curve c{}" d="M0 6h22"/>').format(number % COLOURS)
        size = 16 if marks else 22
        picture = Markup('<svg width="{}" height="12" aria-hidden="true">{}</svg>').format(size, sample)
        items.append(Markup("<li>{}{}</li>").format(picture, name))
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))


def _frame(x: _Axis, y: _Axis, x_label: str, y_label: str, width: int) -> Markup:
    bottom, right = HEIGHT - BOTTOM, width - RIGHT
    parts = []
    for value in y.ticks():
        at = y.at(value)
        parts.append(Markup('<path class="grid" d="M{} {:.1f}H{}"/>').format(LEFT, at, right))
        parts.append(Markup('<text x="{}" y="{:.1f}" class="end">{}</text>').format(LEFT - 6, at + 3.5, short(value)))
    for value in x.ticks():
        text = Markup('<text x="{:.1f}" y="{}" class="mid">{}</text>')
        parts.append(text.format(x.at(value), bottom + 15, short(value)))
    parts.append(Markup('<path class="axis" d="M{} {}H{}"/>').format(LEFT, bottom, right))
    middle = (LEFT + right) / 2
    parts.append(Markup('<text x="{}" y="{}" class="mid label">{}</text>').format(middle, HEIGHT - 4, x_label))
    turned = Markup('<text class="mid label" transform="translate(11 {}) rotate(-90)">{}</text>')
    parts.append(turned.format((TOP + bottom) / 2, y_label))
    return Markup("").join(parts)


def _svg(parts: Sequence[Markup], width: int, about: str) -> Markup:
    head = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    return head.format(width, HEIGHT, about) + Markup("").join(parts) + Markup("</svg>")
