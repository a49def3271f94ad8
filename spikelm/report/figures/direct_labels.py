"""Names beside the points of a scatter plot, where none covers another one, a point or the edge of the panel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from spikelm.report.figures.style import BACKED, GREY, LABEL_SIZE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

ANGLES = (0, 180, 90, 270, 35, 145, 215, 325)  # degrees; the first that is free is taken
DISTANCES = (6.5, 11.0, 17.0, 25.0, 35.0)  # points between a label and its point
MARKER = 8.0  # points that a marker needs
LED = 9.0  # a label farther away has a line to its point
ROUNDS = 20


class Box(NamedTuple):
    """A rectangle, in points."""

    left: float
    bottom: float
    right: float
    top: float

    def shared(self, other: Box) -> float:
        """The area that two of them share."""
        across = min(self.right, other.right) - max(self.left, other.left)
        up = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(across, 0.0) * max(up, 0.0)

    def outside(self, frame: Box) -> float:
        """The area that is not inside of `frame`."""
        return (self.right - self.left) * (self.top - self.bottom) - self.shared(frame)


def label_points(
    panel: Axes, points: Mapping[str, tuple[float, float]], unnamed: Sequence[tuple[float, float]] = ()
) -> list[Annotation]:
    """Write the name of every point beside it. The figure must have its final layout: its limits, titles and labels.

    No name covers one of the `unnamed` points of the panel either.
    """
    figure = panel.get_figure(root=True)
    assert figure is not None, "a panel belongs to a figure"
    labels = [
        panel.annotate(
            name, xy, (0, 0), textcoords="offset points", fontsize=LABEL_SIZE, ha="center", va="center", bbox=BACKED
        )
        for name, xy in points.items()
    ]
    for label in labels:
        label.set_in_layout(False)
    figure.draw_without_rendering()  # lays it out
    scale = 72 / figure.dpi
    extents = [label.get_window_extent() for label in labels]
    sizes = [(extent.width * scale, extent.height * scale) for extent in extents]
    anchors = [tuple(panel.transData.transform(xy) * scale) for xy in points.values()]
    others = [tuple(panel.transData.transform(xy) * scale) for xy in unnamed]
    frame = Box(*(edge * scale for edge in panel.bbox.extents))
    for label, (x, y) in zip(labels, place(anchors, sizes, frame, others), strict=True):
        label.set_position((x, y))
    for label, (width, height) in zip(labels, sizes, strict=True):
        _lead(panel, label, width, height)
    return labels


def _lead(panel: Axes, label: Annotation, width: float, height: float) -> None:
    """A thin line from a point to a label that is not right beside it."""
    x, y = label.get_position()
    near = (max(abs(x) - width / 2, 0.0), max(abs(y) - height / 2, 0.0))
    if math.hypot(*near) <= LED:
        return
    end = (math.copysign(near[0], x), math.copysign(near[1], y))
    line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    panel.annotate("", label.xy, end, textcoords="offset points", arrowprops=line, zorder=1).set_in_layout(False)


def place(
    anchors: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    frame: Box,
    others: Sequence[tuple[float, float]] = (),
) -> list[tuple[float, float]]:
    """Offsets of the centres of labels from their points: each in turn goes where it disturbs least, until all rest.

    `others` are points without a label.
    """
    half = MARKER / 2
    markers = [Box(x - half, y - half, x + half, y + half) for x, y in (*anchors, *others)]
    choices = [_offsets(width, height) for width, height in sizes]
    chosen = [0] * len(anchors)

    def box(which: int, choice: int) -> Box:
        (x, y), (width, height) = anchors[which], sizes[which]
        right, up = choices[which][choice]
        return Box(x + right - width / 2, y + up - height / 2, x + right + width / 2, y + up + height / 2)

    def cost(which: int, choice: int) -> float:
        own = box(which, choice)
        others = [box(other, chosen[other]) for other in range(len(anchors)) if other != which]
        covered = sum(own.shared(other) for other in (*others, *markers)) + own.outside(frame)
        return 100 * covered + choice

    for _ in range(ROUNDS):
        before = list(chosen)
        for which in range(len(anchors)):
            chosen[which] = min(range(len(choices[which])), key=lambda choice: cost(which, choice))
        if chosen == before:
            break
    return [choices[which][choice] for which, choice in enumerate(chosen)]


def _offsets(width: float, height: float) -> list[tuple[float, float]]:
    """Places around a point for the centre of a label, the best ones first."""
    offsets = []
    for distance in DISTANCES:
        for angle in ANGLES:
            right, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            across = math.copysign(width / 2, right) if abs(right) > 0.1 else 0.0
            above = math.copysign(height / 2, up) if abs(up) > 0.1 else 0.0
            offsets.append((distance * right + across, distance * up + above))
    return offsets
