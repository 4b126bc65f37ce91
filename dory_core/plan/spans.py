"""Sizes and places of a layer's tiles as expressions of the loop's variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from dory_core.expr import Var, lookup
from dory_core.ir.geometry import Span
from dory_core.plan import LayerStep
from dory_core.plan.operations import AXES, LoopAxis, Value

#: What start, size and padding before and after are called along an axis.
_NAMES = {
    "o": ("channel", "c"),
    "h": ("row", "h", "top", "bottom"),
    "w": ("column", "w", "left", "right"),
    "i": ("channel", "c"),
}


def table(name: str, values: Sequence[int], index: Value) -> Value:
    """Return ``values[index]``, a number when all values agree.

    Args:
        name: Of the table in C.
        values: Its entries.
        index: A number, or an expression of the loop's variables.
    """
    if len(set(values)) == 1:
        return values[0]
    found = lookup(name, values, index)
    return int(found) if isinstance(index, int) else found


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """An axis of the tile loop.

    Attributes:
        name: One of ``o``, ``h``, ``w``, ``i``.
        spans: Those of all parts, equal lists once.
        starts, counts: Of each part, where its spans stand among them.
        part: Number of the part, a variable where there are several.
        variable: Position of the tile among the spans; the part where each part has one span.
    """

    name: str
    spans: tuple[Span, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    part: Value
    variable: Value

    @property
    def is_tiled(self) -> bool:
        """Whether the tile loop steps along the axis."""
        return max(self.counts) > 1

    def get(self, field: str) -> Value:
        """Return a field of the span of the tile."""
        values = [int(getattr(span, field)) for span in self.spans]
        side, _, what = field.rpartition("_")
        names = dict(zip(("start", "size", "before", "after"), _NAMES[self.name], strict=False))
        name = f"{side or 'y'}_{names.get(what, what)}"
        if self.is_tiled:
            return table(name, values, self.variable)
        return table(name, [values[start] for start in self.starts], self.part)

    @property
    def loop(self) -> LoopAxis:
        """The range of the axis in the tile loop."""
        ends = [start + count for start, count in zip(self.starts, self.counts, strict=True)]
        return LoopAxis(
            self.name,
            table(f"first_{self.name}", self.starts, self.part),
            table(f"end_{self.name}", ends, self.part),
            min(self.counts) > 1,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """The axes of a layer, and the part that runs.

    Attributes:
        axes: By name.
        part: Number of the part, 0 when there is one.
        order: Names of the axes from the outermost loop to the innermost.
        is_channelwise: Whether input channels follow output channels.
    """

    axes: dict[str, Axis]
    part: Value
    order: tuple[str, ...]
    is_channelwise: bool

    @classmethod
    def of(cls, step: LayerStep) -> Tiles:
        """Return the tiles of a step."""
        schedules = [part.schedule for part in step.parts]
        part: Value = Var("part", 0, len(schedules) - 1) if len(schedules) > 1 else 0
        lists = {
            "o": [s.c_out for s in schedules],
            "h": [s.h for s in schedules],
            "w": [s.w for s in schedules],
            "i": [s.c_in for s in schedules],
        }
        names = dict(zip(("c_out", "h", "w", "c_in"), AXES, strict=True))
        order = tuple(names[name] for name in schedules[0].order.axes)
        axes = {name: _axis(name, lists[name], part) for name in AXES}
        return cls(axes, part, order, schedules[0].is_channelwise)

    @property
    def tiled(self) -> tuple[str, ...]:
        """The axes that the loop steps along, from the outermost to the innermost."""
        return tuple(name for name in self.order if self.axes[name].is_tiled)

    @property
    def x_channels(self) -> Axis:
        """The axis that the input channels follow."""
        return self.axes["o" if self.is_channelwise else "i"]

    def along(self, *names: str) -> tuple[str, ...]:
        """Return those of the axes that are tiled."""
        return tuple(name for name in self.tiled if name in names)

    @property
    def x_axes(self) -> tuple[str, ...]:
        """The tiled axes along which the input tile changes."""
        return self.along("h", "w", "o" if self.is_channelwise else "i")

    def sizes(self) -> dict[str, Value]:
        """Return the sizes that a kernel's call can name, by name."""
        o, h, w, i = (self.axes[name] for name in AXES)
        last = len(i.spans) - 1
        return {
            "x_h": h.get("x_size"),
            "x_w": w.get("x_size"),
            "x_c": self.x_channels.get("x_size"),
            "y_h": h.get("size"),
            "y_w": w.get("size"),
            "y_c": o.get("size"),
            "x_row": h.get("x_start"),
            "x_column": w.get("x_start"),
            "x_channel": self.x_channels.get("x_start"),
            "y_row": h.get("start"),
            "y_column": w.get("start"),
            "y_channel": o.get("start"),
            "pad_top": h.get("pad_before"),
            "pad_left": w.get("pad_before"),
            "pad_bottom": h.get("pad_after"),
            "pad_right": w.get("pad_after"),
            "first": i.variable == 0 if last else 1,
            "last": i.variable == last if last else 1,
        }


def _axis(name: str, lists: Sequence[tuple[Span, ...]], part: Value) -> Axis:
    known: dict[tuple[Span, ...], int] = {}
    spans: list[Span] = []
    for one in lists:
        if one not in known:
            known[one] = len(spans)
            spans += one
    starts, counts = zip(*((known[one], len(one)) for one in lists), strict=True)
    variable: Value = Var(name, 0, len(spans) - 1) if max(counts) > 1 else 0
    return Axis(name, tuple(spans), starts, counts, part, variable)


def product(*factors: Value) -> Value:
    """Return the product of numbers and expressions."""
    return reduce(lambda a, b: a * b, factors)
