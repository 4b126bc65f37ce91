"""The axes of a layer's tile loop as C: tables of spans and the sizes of the current tile.

What is equal for all tiles becomes an immediate; what differs is read from a small table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.codegen.cexpr import CExpr
from dory_core.plan import LayerStep
from dory_core.tiling.geometry import Span

_FIELDS = ("start", "size", "x_start", "x_size", "pad_before", "pad_after")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its C table, its member of ``dory_index_t`` and its spans."""

    table: str
    variable: str
    spans: tuple[Span, ...]

    def get(self, field: str) -> CExpr:
        """Return a field of the span at ``t``: an immediate when all spans agree."""
        values = {int(getattr(span, field)) for span in self.spans}
        return values.pop() if len(values) == 1 else f"{self.table}[t.{self.variable}].{field}"

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
        s = step.schedule
        return cls(
            Axis("channels", "o", s.c_out),
            Axis("rows", "h", s.h),
            Axis("columns", "w", s.w),
            Axis("inputs", "i", s.c_in),
            s.keeps_channels,
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
        tests = (f"next.{a.variable} != t.{a.variable}" for a in axes if len(a.spans) > 1)
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
