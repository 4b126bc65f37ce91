"""The tile loop of a layer as data: its tiles, their order and their buffers.

:data:`TILE_PHASES` is the order of the phases of a tile. The program of a layer (``plan.lower``)
and its timeline (``schedule.timeline``) follow it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from dory_core.expr import Expr, Number
from dory_core.hardware.memories import BUFFER_ALIGNMENT
from dory_core.ir import Layer
from dory_core.ir.geometry import (
    Span,
    Tile,
    axis_spans,
    channel_spans,
    extent,
    input_spans,
    is_channelwise,
    make_tile,
    partial_sum_bytes,
)
from dory_core.ir.layout import Layout
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.kernels.call import OPERANDS
from dory_core.schedule.boxes import tile_bytes


class LoopOrder(Enum):
    """The nesting of a tile loop: axes of a Schedule from the outermost loop to the innermost."""

    WEIGHTS_OUTER = ("c_out", "h", "w", "c_in")
    SPATIAL_OUTER = ("h", "w", "c_out", "c_in")

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes from the outermost loop to the innermost."""
        return self.value


L1_ALIGNMENT = BUFFER_ALIGNMENT


class Phase(Enum):
    """A phase of a tile. All cores go through it; only core 0 drives the DMA."""

    ARRIVE = "wait for its loads and for the store that still uses its output buffer"
    MEET = "barrier: every core may use what has arrived"
    LOAD_EARLY = "start the next tile's loads into double buffers: they overlap with computation"
    COMPUTE = "the kernel computes the tile; barrier"
    STORE = "start the store of its output"
    LOAD_LATE = "start the next tile's loads into single buffers"


#: The phases of a tile in their order. The loads of the first tile start before the loop, and the
#: last stores are waited for after it. The loads of the next tile fill the other copy of a double
#: buffer, which is free since the barrier after the previous tile's kernel. They start when the
#: cores have met, right before the kernel: where cores fetch instructions from the memory that a
#: transfer reads, what they fetch would wait for it.
TILE_PHASES = tuple(Phase)


@dataclass(frozen=True, slots=True)
class Buffering:
    """Copies of each buffer in L1: 1, or 2 for double buffering.

    Attributes:
        x: Of each input.
        w: Of the constants.
        y: Of the output.
    """

    x: int = 1
    w: int = 1
    y: int = 1

    def of(self, name: str) -> int:
        """Return the copies of a buffer; partial sums and scratch have one."""
        return self.x if name in OPERANDS else {"w": self.w, "y": self.y}.get(name, 1)

    def within(self, other: Buffering) -> bool:
        """Return True when no buffer has more copies than in another buffering."""
        return self.x <= other.x and self.w <= other.w and self.y <= other.y

    @property
    def text(self) -> str:
        """``x2 w1 y2``."""
        return f"x{self.x} w{self.w} y{self.y}"


@dataclass(frozen=True, slots=True)
class TileStep:
    """One step of a tile loop: a call of the kernel.

    Attributes:
        index: Number of the step.
        o, h, w, i: Positions in the spans of the Schedule.
        load_x, load_w: Whether the step needs other data than the previous one.
        store_y: Whether the output is complete after the step and is stored.
        x_slot, w_slot, y_slot: The copy of each buffer that the step uses.
        first, last: Whether it is the first or last input-channel tile of its output tile.
    """

    index: int
    o: int
    h: int
    w: int
    i: int
    load_x: bool
    load_w: bool
    store_y: bool
    x_slot: int
    w_slot: int
    y_slot: int
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """The tiles of every axis, the nesting of the loops and the buffering.

    Attributes:
        order: Nesting of the loops.
        c_out, h, w: Tiles of the output.
        c_in: Tiles of input channels; one for layers that keep channels apart, whose input channels
            follow from c_out (``Span.x_start``, ``Span.x_size``).
        buffering: Copies of the buffers.
        is_channelwise: Whether the layer keeps channels apart.
        has_weights: Whether the kernel has constants to load.
    """

    order: LoopOrder
    c_out: tuple[Span, ...]
    h: tuple[Span, ...]
    w: tuple[Span, ...]
    c_in: tuple[Span, ...]
    buffering: Buffering
    is_channelwise: bool = False
    has_weights: bool = True

    def __post_init__(self) -> None:
        if self.is_channelwise and len(self.c_in) != 1:
            raise ValueError("a layer that keeps channels apart has no input-channel tiles")

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Number of tiles along c_out, h, w, c_in."""
        return len(self.c_out), len(self.h), len(self.w), len(self.c_in)

    @property
    def count(self) -> int:
        """Number of steps."""
        o, h, w, i = self.counts
        return o * h * w * i

    def input_channels(self, step: TileStep) -> tuple[int, int]:
        """Return (start, size) of the input channels that a step reads."""
        if self.is_channelwise:
            span = self.c_out[step.o]
            return span.x_start, span.x_size
        return self.c_in[step.i].start, self.c_in[step.i].size

    def positions(self) -> Iterator[tuple[int, int, int, int]]:
        """Return (o, h, w, i) of every step, in order."""
        o, h, w, i = (range(n) for n in self.counts)
        if self.order is LoopOrder.WEIGHTS_OUTER:
            return product(o, h, w, i)
        return ((c, a, b, d) for a, b, c, d in product(h, w, o, i))

    def steps(self) -> Iterator[TileStep]:
        """Return the steps in order of execution."""
        x_loads = w_loads = stores = 0
        x_before: tuple[int, ...] = ()
        w_before: tuple[int, ...] = ()
        last_i = len(self.c_in) - 1
        buffering = self.buffering
        for index, (o, h, w, i) in enumerate(self.positions()):
            x_now = (o, h, w) if self.is_channelwise else (h, w, i)
            w_now = (o, i)
            load_x = x_now != x_before
            load_w = self.has_weights and w_now != w_before
            x_loads += load_x
            w_loads += load_w
            yield TileStep(
                index=index,
                o=o,
                h=h,
                w=w,
                i=i,
                load_x=load_x,
                load_w=load_w,
                store_y=i == last_i,
                x_slot=(x_loads - 1) % buffering.x,
                w_slot=(w_loads - 1) % buffering.w if self.has_weights else 0,
                y_slot=stores % buffering.y,
                first=i == 0,
                last=i == last_i,
            )
            stores += i == last_i
            x_before, w_before = x_now, w_now


def repeats(order: LoopOrder, counts: Sequence[Any], is_channelwise: bool) -> tuple[Any, Any]:
    """Return how often a tile loop loads each input tile, and each block of constants.

    It is what :meth:`Schedule.steps` does, without looking at the steps.

    Args:
        order: Of the loop.
        counts: Number of tiles along c_out, h, w and c_in, numbers or arrays.
        is_channelwise: Whether the layer keeps channels apart, so that each tile of output
            channels has an input tile of its own.
    """
    o, h, w, i = counts
    places, one = h * w, i == 1
    if order is LoopOrder.WEIGHTS_OUTER:
        x, weights = np.where(one & (places == 1), 1, o), np.where(one, 1, places)
    else:
        x, weights = np.where(one, 1, o), np.where(one & (o == 1), 1, places)
    return (1 if is_channelwise else x), weights


def make_schedule(
    layer: Layer,
    tile: Tile,
    buffering: Buffering,
    order: LoopOrder = LoopOrder.WEIGHTS_OUTER,
    has_weights: bool = True,
) -> Schedule:
    """Return the tile loop of a layer.

    Args:
        layer: The layer.
        tile: Sizes as integers.
        buffering: Copies of the buffers.
        order: Of the loops.
        has_weights: Whether the kernel has constants to load.
    """
    apart = is_channelwise(layer)
    full = extent(layer)
    return Schedule(
        order,
        channel_spans(layer, tile.c_out),
        axis_spans(layer, 0, tile.h),
        axis_spans(layer, 1, tile.w),
        input_spans(layer, full.c_in if apart else tile.c_in),
        buffering,
        apart,
        has_weights,
    )


@dataclass(frozen=True, slots=True)
class L1Buffer:
    """A buffer in L1.

    Attributes:
        name: x, x2 (second operand), w (weight block), y, psum (int32 partial sums) or scratch.
        bytes: Size of a copy, a multiple of L1_ALIGNMENT.
        copies: Number of copies.
    """

    name: str
    bytes: Number
    copies: int

    @property
    def total(self) -> Number:
        """Bytes of all copies."""
        return self.bytes * self.copies


def _aligned(size: Number) -> Number:
    return (size + (L1_ALIGNMENT - 1)) // L1_ALIGNMENT * L1_ALIGNMENT


def _is_zero(size: Number) -> bool:
    return size.bounds == (0, 0) if isinstance(size, Expr) else size == 0


def l1_buffers(
    layer: Layer,
    bound: BoundKernel,
    tile: Tile,
    buffering: Buffering,
    whole: Collection[str] = (),
) -> tuple[L1Buffer, ...]:
    """Return the buffers that a tile needs in L1.

    Their sizes are numbers or expressions, as the tile's. Buffers that are known to be empty are
    left out, and that of constants which the kernel fetches.

    Args:
        layer: The layer.
        bound: Its kernel.
        tile: The tile.
        buffering: Copies of the buffers.
        whole: Those of x, x2 and y that hold the whole tensor, once.
    """
    full = extent(layer)
    all_of = make_tile(layer, full.c_out, full.h, full.w) if whole else tile

    def moved(name: str, layout: Layout, copies: int) -> L1Buffer:
        there = name in whole
        size = tile_bytes(layer, name, layout, all_of if there else tile)
        return L1Buffer(name, _aligned(size), 1 if there else copies)

    split = tile.c_in < full.c_in if not is_channelwise(layer) else 0
    traits = bound.traits
    weights = 0 if traits.fetches else bound.weight_bytes(tile)
    scratch = bound.scratch_bytes(tile)
    candidates = [
        moved(name, layout, buffering.x)
        for name, _, layout in zip(OPERANDS, layer.inputs, traits.inputs, strict=False)
    ]
    candidates += [
        L1Buffer("w", _aligned(weights), buffering.w),
        moved("y", traits.output, buffering.y),
        L1Buffer("psum", _aligned(partial_sum_bytes(tile)) * split, 1),
        L1Buffer("scratch", _aligned(scratch), 1),
    ]
    return tuple(b for b in candidates if not _is_zero(b.bytes))


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A buffer of L1 in its place.

    Attributes:
        name: ``x``, ``x2``, ``w``, ``y``, ``psum`` or ``scratch``.
        bytes: Of one copy.
        offsets: Of its copies, in bytes from the start of the layer's arena.
    """

    name: str
    bytes: int
    offsets: tuple[int, ...]

    @property
    def step(self) -> int:
        """Bytes from one copy to the next."""
        return self.offsets[1] - self.offsets[0] if len(self.offsets) > 1 else self.bytes


def place_l1(
    buffers: tuple[L1Buffer, ...],
    offsets: Mapping[str, int] = MappingProxyType({}),
    second_weights: int | None = None,
) -> tuple[PlacedBuffer, ...]:
    """Return buffers with their places in the arena; the copies of a buffer follow one another.

    Args:
        buffers: The buffers.
        offsets: The offset of each buffer; without any, the buffers follow one another from 0.
        second_weights: Offset of the second copy of the constants, None right after the first one.
    """
    placed = []
    end = 0
    for buffer in buffers:
        start = offsets[buffer.name] if offsets else end
        copies = tuple(start + k * buffer.bytes for k in range(buffer.copies))
        if buffer.name == "w" and second_weights is not None:
            copies = (start, second_weights)
        placed.append(PlacedBuffer(buffer.name, buffer.bytes, copies))
        end = start + buffer.total
    return tuple(placed)
