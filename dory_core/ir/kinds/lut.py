"""Function of one byte as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, Interval
from dory_core.ir.kinds.channels import Selection
from dory_core.ir.kinds.operator import Intervals, Offsets, Operator, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import BYTES, RandomParts
from dory_core.ir.tensor import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Lut(Operator):
    """A function of one byte: ``y = table[c, x & 255]``, without requantisations.

    Values of the input lie in [0, 255] or in [-128, 127]; the index is the byte that stores them.

    Attributes:
        table: Shape (256,), or (C, 256) with a function per channel.
    """

    table: Array

    is_channelwise: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("lut",)

    def output_shape(self, sources: Tensors) -> Shape:
        [source] = sources
        if self.table.shape not in ((256,), (source.channels, 256)):
            raise self.refused(f"a table of shape {self.table.shape} for {source.shape}")
        return source.shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        lo, hi = sources[0].lo, sources[0].hi
        if not ((lo >= 0 and hi <= 255) or (lo >= -128 and hi <= 127)):
            raise self.refused(
                f"its input has values in [{lo}, {hi}], a table takes those of one byte"
            )
        if self.requants:
            raise self.refused("a table has no requantisation behind it")
        reached = self.table.values.reshape(-1, 256)[:, np.arange(lo, hi + 1) & 255]
        rows = reached.astype(np.int64)
        return Accumulator.of(rows.min(axis=1), rows.max(axis=1))

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source], table = inputs, self.table.values.astype(np.int64)
        channels = np.arange(len(source)).reshape(-1, 1, 1)
        return np.asarray(table[source & 255] if table.ndim == 1 else table[channels, source & 255])

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the entries that each channel reaches."""
        rows, [source] = self.table.values.reshape(-1, 256), intervals
        ends = []
        for channel, (lo, hi) in enumerate(
            zip(source.lo.tolist(), source.hi.tolist(), strict=True)
        ):
            seen = rows[channel if len(rows) > 1 else 0, np.arange(lo, hi + 1) & 255]
            ends.append((int(seen.min()), int(seen.max())))
        lows, highs = zip(*ends, strict=True)
        return Interval(np.array(lows, np.int64), np.array(highs, np.int64))

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        several = len(self.table.shape) > 1
        return {"table": selection.of_rows(self.table) if several else self.table}

    @property
    def offsets(self) -> Offsets:
        return Offsets.EACH

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Rotate the table, and move its entries."""
        table = np.roll(self.table.values.astype(np.int64), before[0], axis=-1)
        return replace(self, table=Array(table + after))

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, (lo, hi) = draw.shape(), draw.byte()
        low, high = draw.pick(*BYTES, (-3000, 3000), (-100000, 100000))
        rows = draw.pick((), (), (shape[0],))
        table = draw.numbers.integers(low, high + 1, (*rows, 256))
        return Sample({"table": Array(table)}, ((*shape, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        def table(seed: int, rows: int) -> Array:
            values = np.random.default_rng(seed).integers(-128, 128, (rows, 256))
            return Array(values if rows > 1 else values[0])

        return {
            "lut": Sample({"table": table(1, 1)}, ((12, 15, 14, -128, 127),)),
            "lut_of_channels": Sample({"table": table(2, 12)}, ((12, 15, 14, 0, 255),)),
        }
