"""The axes of a layer's tile loop as C: tables of spans and the sizes of the current tile.

What is equal for all tiles becomes an immediate; what differs is read from a small table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.codegen.cexpr import CExpr, closed_form
from dory_core.ir.geometry import Span
from dory_core.plan import LayerStep

_FIELDS = ("start", "size", "x_start", "x_size", "pad_before", "pad_after")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its C table, its member of ``dory_index_t`` and its spans.

    spans: those of all parts of the layer, equal lists once. starts, counts: per part, where its
    spans stand among them.
    """

    table: str
    variable: str
    spans: tuple[Span, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, table: str, variable: str, lists: Sequence[tuple[Span, ...]]) -> Axis:
        """Return the axis of the given spans per part."""
        known: dict[tuple[Span, ...], int] = {}
        spans: list[Span] = []
        for one in lists:
            if one not in known:
                known[one] = len(spans)
                spans += one
        starts, counts = zip(*((known[one], len(one)) for one in lists), strict=True)
        return cls(table, variable, tuple(spans), starts, counts)

    @property
    def is_tiled(self) -> bool:
        """Whether the tile loop steps along the axis."""
        return max(self.counts) > 1

    def get(self, field: str) -> CExpr:
        """Return a field of the span at ``t``: an immediate when all spans agree.

        Spans of one list are mostly regular and computed; others are looked up.
        """
        values = [int(getattr(span, field)) for span in self.spans]
        if len(set(values)) == 1:
            return values[0]
        index = f"t.{self.variable}"
        form = closed_form(values, index) if self.counts[0] == len(values) else None
        return f"{self.table}[{index}].{field}" if form is None else form

    def definition(self) -> str:
        """Return the C table."""
        rows = (", ".join(str(getattr(s, f)) for f in _FIELDS) for s in self.spans)
        lines = "".join(f"\n  {{{row}}}," for row in rows)
        return f"static const dory_span_t {self.table}[{len(self.spans)}] = {{{lines}\n}};"


@dataclass(frozen=True, slots=True)
class TileAxes:
    """All axes of a layer. keeps: input channels follow the output channels."""

    c_out: Axis
    h: Axis
    w: Axis
    c_in: Axis
    keeps: bool

    @classmethod
    def of(cls, step: LayerStep) -> TileAxes:
        """Return the axes of a step."""
        all_ = [part.schedule for part in step.parts]
        return cls(
            Axis.of("channels", "o", [s.c_out for s in all_]),
            Axis.of("rows", "h", [s.h for s in all_]),
            Axis.of("columns", "w", [s.w for s in all_]),
            Axis.of("inputs", "i", [s.c_in for s in all_]),
            all_[0].is_channelwise,
        )

    @property
    def all(self) -> tuple[Axis, ...]:
        """The axes from the output channels to the input channels."""
        return (self.c_out, self.h, self.w, self.c_in)

    @property
    def input(self) -> Axis:
        """The axis that the input channels follow."""
        return self.c_out if self.keeps else self.c_in

    def order(self, step: LayerStep) -> tuple[Axis, ...]:
        """Return the axes from the outermost loop to the innermost."""
        return tuple(getattr(self, name) for name in step.schedule.order.split(","))

    def changes(self, axes: Sequence[Axis]) -> str:
        """Return the C condition under which ``next`` differs from ``t`` along one of the axes."""
        tests = (f"next.{a.variable} != t.{a.variable}" for a in axes if a.is_tiled)
        return " || ".join(tests) or "0"

    @property
    def input_changes(self) -> str:
        """The condition under which the next tile reads another input tile."""
        return self.changes(
            (self.c_out, self.h, self.w) if self.keeps else (self.h, self.w, self.c_in)
        )

    @property
    def weight_changes(self) -> str:
        """The condition under which the next tile needs another weight block."""
        return self.changes((self.c_out, self.c_in))

    @property
    def is_first(self) -> str:
        """The condition under which t is the first input-channel tile."""
        return "1" if len(self.c_in.spans) == 1 else "t.i == 0"

    @property
    def is_last(self) -> str:
        """The condition under which t is the last input-channel tile."""
        count = len(self.c_in.spans)
        return "1" if count == 1 else f"t.i == {count - 1}"

    def sizes(self) -> dict[str, CExpr]:
        """Return the sizes that a kernel's call can name, by name."""
        return {
            "x_h": self.h.get("x_size"),
            "x_w": self.w.get("x_size"),
            "x_c": self.input.get("x_size"),
            "y_h": self.h.get("size"),
            "y_w": self.w.get("size"),
            "y_c": self.c_out.get("size"),
            "pad_top": self.h.get("pad_before"),
            "pad_left": self.w.get("pad_before"),
            "pad_bottom": self.h.get("pad_after"),
            "pad_right": self.w.get("pad_after"),
            "first": self.is_first,
            "last": self.is_last,
        }
