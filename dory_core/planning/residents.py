"""Resident tensors of a network, chosen one by one, and the offsets of all buffers in L1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Layer, Tensor
from dory_core.ir.geometry import Tile, read_span
from dory_core.kernels.call import OPERANDS
from dory_core.plan.block_ids import BlockId, buffers_id
from dory_core.plan.blocks import Request, align_up, fullest_step, level_alignment
from dory_core.planning.decision import MOVED, L1Residence, Residency
from dory_core.planning.layouts import LayoutPlan
from dory_core.planning.packing.heuristics import best_fit, fit_into, peak_of
from dory_core.schedule.loops import L1_ALIGNMENT, Buffering, L1Buffer, Schedule, l1_buffers
from dory_core.schedule.timeline import estimate
from dory_core.tiling.tiled import TiledLayer

#: Most layers whose buffers are packed together. Of more, those are packed again that lie within
#: MARGIN layers of a new resident tensor.
WINDOW = 100
MARGIN = 8

# Returns other tilings of the layer at a position, which let tensors be resident.
Others = Callable[[int], Sequence[TiledLayer]]
# Returns the tile loops of the parts of a layer that is tiled so.
Parts = Callable[[int, TiledLayer], tuple[Schedule, ...]]


@dataclass(frozen=True, slots=True)
class ResidentTensor:
    """A tensor that stays in L1.

    Attributes:
        name: Of the tensor.
        maker: Number of the layer that makes it.
        readers: Numbers of the layers that find it in L1, in order; at least one.
        stored: Whether it also goes to L2, for other readers.
    """

    name: str
    maker: int
    readers: tuple[int, ...]
    stored: bool

    @property
    def last(self) -> int:
        """Number of the last layer that finds it."""
        return self.readers[-1]


class ResidentPlanner:
    """Chooses resident tensors, and offsets of the buffers of all layers in L1.

    L1 is packed over the whole network: a resident tensor is live over several layers, every other
    buffer in one. A new resident tensor changes the cycles of the layers that make and read it, and
    the live bytes of the layers between them. So estimates are memoised by layer and schedule, and
    only layers are packed again whose resident tensors overlap it in time, directly or through
    others: WINDOW of them at most.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        tiled: Sequence[TiledLayer],
        flow: LayoutPlan,
        hierarchy: MemoryHierarchy,
        budget_bytes: int,
        others: Others,
        parts: Parts,
    ) -> None:
        self.layers = layers
        self.tiled = list(tiled)
        self.parts = parts
        self.flow = flow
        self.hierarchy = hierarchy
        self.others = others
        self.unit = max(L1_ALIGNMENT, level_alignment(hierarchy, 1))
        self.room = budget_bytes // self.unit * self.unit
        self.kept: dict[str, ResidentTensor] = {}
        self.over: list[dict[str, ResidentTensor]] = [{} for _ in tiled]
        self.offsets: dict[BlockId, int] = {}
        self.buffers = cache(self._buffers)
        self.buffer = cache(buffers_id)
        self.block = cache(BlockId)
        self.cycles = cache(self._cycles)

    def try_to_keep(self, new: ResidentTensor) -> bool:
        """Make a tensor resident if L1 has room for it and estimated cycles get fewer.

        Layers take the fastest tiles with which it can be.
        """
        touched = (new.maker, *new.readers)
        before = [self.tiled[n] for n in touched]
        old = self.kept.get(new.name)
        cycles = sum(self._cycles_of(n) for n in touched)
        self._replace(old, new)
        fastest = [self._fastest(n) for n in touched]
        for n, one in zip(touched, fastest, strict=True):
            self.tiled[n] = one or self.tiled[n]
        if all(fastest) and self._fits(new) and sum(map(self._cycles_of, touched)) < cycles:
            offsets = self._pack(new)
            if offsets is not None:
                self.offsets.update(offsets)
                return True
        self._replace(new, old)
        for n, one in zip(touched, before, strict=True):
            self.tiled[n] = one
        return False

    def _fits(self, new: ResidentTensor) -> bool:
        """Return True when what is live in L1 fits in sum, as long as a tensor stays there."""
        return all(self._live_bytes(n) <= self.room for n in range(new.maker, new.last + 1))

    def _replace(self, old: ResidentTensor | None, new: ResidentTensor | None) -> None:
        """Replace one resident tensor by another one; None for no tensor."""
        for one in (old, new):
            if one is None:
                continue
            self.kept.pop(one.name, None)
            for n in range(one.maker, one.last + 1):
                self.over[n].pop(one.name, None)
        if new is not None:
            self.kept[new.name] = new
            for n in range(new.maker, new.last + 1):
                self.over[n][new.name] = new

    def _suits(self, n: int, one: TiledLayer, own: Mapping[str, str]) -> bool:
        """Return True when a tiling lets tensors lie in L1 as wholes, by their buffers."""
        schedules = self.parts(n, one)
        for buffer, name in own.items():
            if buffer == "y":
                stored = self.kept[name].stored
                whole = len(schedules) == 1 and _writes_whole(one, schedules[0], stored)
            else:
                x = self.flow.forms[name].tensor
                whole = all(_reads_whole(one, s, OPERANDS.index(buffer), x) for s in schedules)
            if not whole:
                return False
        return True

    def _fastest(self, n: int) -> TiledLayer | None:
        """Return the fastest tiling of a layer that lets its tensors be resident; None without any.

        Of equals it is the one that the layer has.
        """
        before, own = self.tiled[n], self._own(n)
        suiting = [one for one in (before, *self.others(n)) if self._suits(n, one, own)]

        def cycles(one: TiledLayer) -> int:
            self.tiled[n] = one
            return self._cycles_of(n)

        found = min(suiting, key=cycles, default=None)
        self.tiled[n] = before
        return found

    def _live_bytes(self, n: int) -> int:
        """Return the bytes of L1 that are live while layer n runs."""
        return sum(align_up(r.size_bytes, self.unit) for r in self._requests(n, n))

    def _requests(self, first: int, last: int) -> list[Request]:
        """Return the blocks that a range of layers has in L1, with their live ranges."""
        kept = {name: one for n in range(first, last + 1) for name, one in self.over[n].items()}
        requests = [
            Request(self.block(one.name), self._size(one), one.maker, one.last)
            for one in kept.values()
        ]
        for n in range(first, last + 1):
            own = self._own(n)
            requests += [
                Request(self.buffer(n, buffer.name), int(buffer.total), n, n)
                for buffer in self._buffers_of(n)
                if buffer.name not in own
            ]
        return requests

    def _pack(self, new: ResidentTensor) -> Mapping[BlockId, int] | None:
        """Return the offsets of the buffers of layers near a resident tensor; None without room."""
        layers = self._connected(new)
        if layers is not None:
            requests = self._requests(layers[0], layers[-1])
            offsets = best_fit(requests, self.unit, self.room)
            return offsets if peak_of(requests, offsets, self.unit) <= self.room else None
        first = max(0, new.maker - MARGIN)
        last = min(len(self.tiled) - 1, new.last + MARGIN)
        requests = self._requests(first, last)
        fixed = {r.id: self.offsets[r.id] for r in requests if r.first < first or r.last > last}
        return fit_into(requests, self.unit, self.room, fixed)

    def _connected(self, start: ResidentTensor) -> range | None:
        """Return the layers that resident tensors connect with a first one; None if too many.

        Two layers are connected when a tensor is resident in both.
        """
        first, last = start.maker, start.last
        while last - first < WINDOW:
            grown = (
                min(one.maker for one in self.over[first].values()),
                max(one.last for one in self.over[last].values()),
            )
            if grown == (first, last):
                return range(first, last + 1)
            first, last = grown
        return None

    def _size(self, kept: ResidentTensor) -> int:
        return next(int(b.total) for b in self._buffers_of(kept.maker) if b.name == "y")

    def _own(self, n: int) -> dict[str, str]:
        """Return the resident tensors of layer n, by the buffer (x, x2, y) that they lie in."""
        own = {}
        for one in self.over[n].values():
            if n == one.maker:
                own["y"] = one.name
            elif n in one.readers:
                own[OPERANDS[self.flow.reads[n].index(one.name)]] = one.name
        return own

    def _buffers_of(self, n: int) -> tuple[L1Buffer, ...]:
        one = self._single(n)
        own = frozenset(self._own(n))
        return self.buffers(n, one.tiling.tile, one.schedule.buffering, own)

    def _buffers(
        self, n: int, tile: Tile, buffering: Buffering, whole: frozenset[str]
    ) -> tuple[L1Buffer, ...]:
        one = self.tiled[n]
        return l1_buffers(one.layer, one.bound, tile, buffering, whole)

    def _single(self, n: int) -> TiledLayer:
        """Return a layer with one copy of each buffer that holds a resident tensor."""
        one = self.tiled[n]
        own = self._own(n)
        copies = one.schedule.buffering
        if own and sum(schedule.count for schedule in self.parts(n, one)) == 1:
            copies = Buffering()
        else:
            copies = replace(
                copies,
                x=1 if own.keys() & set(OPERANDS) else copies.x,
                y=1 if "y" in own else copies.y,
            )
        if copies == one.schedule.buffering:
            return one
        return replace(one, schedule=replace(one.schedule, buffering=copies))

    def _cycles_of(self, n: int) -> int:
        """Return the estimated cycles of a layer."""
        schedules = self.parts(n, self._single(n))
        unmoved = self._residence(n).unmoved
        return sum(
            times * self.cycles(n, schedule, unmoved)
            for schedule, times in Counter(schedules).items()
        )

    def _cycles(self, n: int, schedule: Schedule, unmoved: frozenset[str]) -> int:
        return estimate(self.tiled[n].costs, schedule, resident=unmoved).cycles

    def result(self) -> Residency:
        """Return the layers with their resident tensors."""
        self._settle()
        layers = range(len(self.tiled))
        low = tuple(self._placed(n, self.offsets) for n in layers)
        not_in_l2 = frozenset(one.name for one in self.kept.values() if not one.stored)
        return Residency(tuple(self._single(n) for n in layers), low, not_in_l2)

    def _sharing(self) -> Iterator[list[Request]]:
        """Yield the requests of each group of connected layers."""
        n = 0
        while n < len(self.tiled):
            start = min(self.over[n].values(), key=lambda one: one.maker, default=None)
            layers = None if start is None else self._connected(start)
            if layers is not None:
                yield self._requests(layers[0], layers[-1])
                n = layers[-1]
            n += 1

    def _settle(self) -> None:
        """Pack each group of connected layers once more, in as few bytes as are found."""
        for requests in self._sharing():
            bound = fullest_step(requests, self.unit)[1]
            self.offsets.update(best_fit(requests, self.unit, bound))

    def _residence(self, n: int) -> L1Residence:
        """Return the resident tensors of a layer, without offsets."""
        own = self._own(n)
        made = self.kept.get(own.get("y", ""))
        found = frozenset(own) - {"y"}
        return L1Residence(found=found, leaves=made is not None, stored=made is None or made.stored)

    def _placed(self, n: int, offsets: Mapping[BlockId, int]) -> L1Residence:
        """Return the resident tensors of a layer, with the offsets of all buffers."""
        if not self.over[n]:
            return MOVED
        own = self._own(n)
        blocks = {
            b.name: self.block(own[b.name]) if b.name in own else self.buffer(n, b.name)
            for b in self._buffers_of(n)
        }
        beside = [one.name for one in self.over[n].values() if one.maker < n < one.last]
        return replace(
            self._residence(n),
            offsets={buffer: offsets[block] for buffer, block in blocks.items()},
            beside={name: offsets[self.block(name)] for name in beside},
        )


def _writes_whole(tiled: TiledLayer, schedule: Schedule, stored: bool) -> bool:
    """Return True when the tiles of a layer are all of its output, which lies in L1.

    Args:
        tiled: The layer.
        schedule: Its tiles.
        stored: Whether the output also goes to L2: then it is one tile.
    """
    channels, rows, columns, inputs = schedule.counts
    in_rows = rows == 1 or (_in_rows(tiled) and not stored)
    return (channels, columns, inputs) == (1, 1, 1) and in_rows


def _in_rows(tiled: TiledLayer) -> bool:
    """Return True when tiles of whole rows follow one another in the tensors of a layer."""
    layouts = (*tiled.traits.inputs, tiled.traits.output)
    return not tiled.traits.planar and all(layout.is_hwc for layout in layouts)


def _reads_whole(tiled: TiledLayer, schedule: Schedule, operand: int, x: Tensor) -> bool:
    """Return True when a layer has an operand in L1 once, as a whole and as it lies in L2."""
    channels, rows, columns, inputs = schedule.counts
    all_c, all_h, all_w = tiled.layer.whole_axes(operand)
    splits = schedule.is_channelwise and schedule.c_out[0].x_size < x.channels and not all_c
    if (columns, inputs) != (1, 1) or splits:
        return False
    if rows > 1 and (channels > 1 or not _in_rows(tiled)):
        return False
    if tiled.traits.planar and tiled.traits.inputs[operand].is_hwc:
        return False  # it changes its layout on the way
    if tiled.layer.op.reads_vector:
        return True
    (first, _), (last, height), (_, width) = (
        read_span(tiled.layer, operand, span)
        for span in (schedule.h[0], schedule.h[-1], schedule.w[0])
    )
    return (all_h or (first, last + height) == (0, x.height)) and (all_w or width == x.width)
