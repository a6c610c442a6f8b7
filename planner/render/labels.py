"""Where texts may stand in a picture: each takes the nearest free place beside its point, and none covers another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.render.svg import SMALL_PX, Canvas, text_width_px

Box = tuple[float, float, float, float]  # left, top, right, bottom [px]

_AWAY_PX = (12.0, 26.0, 44.0, 66.0, 92.0, 122.0)  # from the point to the text, tried in this order
_DIRECTIONS = ((1, -0.6), (1, 0.6), (-1, -0.6), (-1, 0.6), (0, -1), (0, 1), (1, 0), (-1, 0))
_ANCHORS = {1: "start", 0: "middle", -1: "end"}
_STEP_PX, _ROUNDING = 10.0, 1e-6
_LEADER_FROM_PX = 30.0  # a text further away is tied to its point by a thin line


@dataclass
class Labels:
    """The places that are taken inside a box of a canvas."""

    canvas: Canvas
    inside: Box
    taken: list[Box] = field(default_factory=list)
    texts: list[Box] = field(default_factory=list)  # of those, the texts

    def keep_free(self, x: float, y: float, radius: float = 8.0) -> None:
        """A mark that no text may cover."""
        self.taken.append((x - radius, y - radius, x + radius, y + radius))

    def keep_line_free(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A straight line that no text should cross: a chain of small boxes along it."""
        length = math.dist(start, end)
        steps = max(math.ceil(length / _STEP_PX), 1)
        for step in range(steps + 1):
            part = step / steps
            self.keep_free(start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]), 2.0)

    def place(self, x: float, y: float, text: str, color: str, size: float = SMALL_PX + 1.0) -> None:
        """Set a text beside a point, in the nearest place that is free; where none is, in the one least covered."""
        away, (across, down, anchor), box = self._free_place(x, y, text, size)
        if away > _LEADER_FROM_PX:
            self.canvas.line([(x, y), _nearest((x, y), box)], color, 1.0)
            self.keep_line_free((x, y), _nearest((x, y), box))
        self.taken.append(box)
        self.texts.append(box)
        self.canvas.text(across, down, text, size, anchor, color, halo=True)

    def place_along(self, points: Sequence[tuple[float, float]], text: str, color: str) -> None:
        """Set a text beside the first of several points that has room next to it, else as `place` at the first."""
        size = SMALL_PX + 1.0
        free = (
            point
            for point in points
            if any(self._covered(box) <= _ROUNDING for _, box in _around(*point, _AWAY_PX[0], text, size))
        )
        self.place(*next(free, points[0]), text, color, size)

    def _free_place(self, x: float, y: float, text: str, size: float) -> tuple[float, tuple[float, float, str], Box]:
        """How far from the point, where it is set, and the box that it fills."""
        tried = []
        for away in _AWAY_PX:
            for at, box in _around(x, y, away, text, size):
                hidden = self._covered(box) + self._crossed((x, y), box)
                if hidden <= _ROUNDING:
                    return away, at, box
                tried.append((hidden, away, at, box))
        return min(tried, key=lambda one: one[:2])[1:]

    def _crossed(self, start: tuple[float, float], box: Box) -> float:
        """What a line from a point to a box would hide of texts, as an area [px^2]."""
        end = _nearest(start, box)
        steps = max(math.ceil(math.dist(start, end) / _STEP_PX), 1)
        passed = [[start[i] + step / steps * (end[i] - start[i]) for i in (0, 1)] for step in range(steps + 1)]
        hidden = sum(
            left < x < right and top < y < bottom for x, y in passed for left, top, right, bottom in self.texts
        )
        return hidden * _STEP_PX**2

    def _covered(self, box: Box) -> float:
        """Area of a box that is taken, or outside [px^2]."""
        left, top, right, bottom = box
        whole = (right - left) * (bottom - top)
        return whole - _shared(box, self.inside) + sum(_shared(box, other) for other in self.taken)


def _nearest(point: tuple[float, float], box: Box) -> tuple[float, float]:
    """The point of a box that is nearest to another."""
    return min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3])


def _around(x: float, y: float, away: float, text: str, size: float) -> list[tuple[tuple[float, float, str], Box]]:
    """Places of a text about a point: where it is set, and the box that it fills."""
    width = text_width_px(text, size)
    found = []
    for side, drop in _DIRECTIONS:
        across, down = x + side * away, y + drop * away + 0.35 * size
        left = across - {1: 0.0, 0: width / 2.0, -1: width}[side]
        found.append(((across, down, _ANCHORS[side]), (left - 2.0, down - size, left + width + 2.0, down + 0.3 * size)))
    return found


def _shared(one: Box, other: Box) -> float:
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0.0) * max(down, 0.0)
