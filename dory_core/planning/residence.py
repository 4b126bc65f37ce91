"""Tensors that stay in L1 between layers: neither loaded nor, where nobody else reads them, stored.

A tensor can stay when the layer that makes it has all of it in one tile. The layers that read it
next and have it in L1 as a whole find it there; where others read it too, or it leaves the network,
it is stored as well. L1 is then a memory over the whole network, as L2 is: a tensor that stays
keeps its bytes over several layers, every other buffer over one. A layer of several tiles may be
computed in one instead. Whatever stays has to save estimated cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType

from dory_core.estimate.timeline import LayerCosts, estimate
from dory_core.hardware import MemoryHierarchy
from dory_core.ir import Linear
from dory_core.planning.blocks import Request, fullest_step
from dory_core.planning.heuristics import best_fit, peak_of
from dory_core.planning.layouts import LayoutPlan
from dory_core.tiling.schedule import L1_ALIGNMENT, OPERANDS, Buffering, L1Buffer, l1_buffers
from dory_core.tiling.tiled import TiledLayer

# Returns the layer at a position in one tile, None when it cannot be computed so.
InOneTile = Callable[[int], TiledLayer | None]


@dataclass(frozen=True, slots=True)
class L1Residence:
    """What a layer has to do with tensors that stay in L1.

    offsets: of its buffers in L1; empty when they follow one another from its start. found: its
    operands (x, x2) that lie there when it begins. leaves: its output stays there; stored: and is
    stored all the same. beside: tensors that lie there for later layers and are not its output,
    with their offsets.
    """

    offsets: Mapping[str, int] = field(default_factory=dict)
    found: frozenset[str] = frozenset()
    leaves: bool = False
    stored: bool = True
    beside: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", MappingProxyType(dict(self.offsets)))
        object.__setattr__(self, "beside", MappingProxyType(dict(self.beside)))

    @property
    def unmoved(self) -> frozenset[str]:
        """Buffers (x, x2, y) whose tensor the layer does not move."""
        return self.found if self.stored else self.found | {"y"}


#: Everything of a layer is moved.
MOVED = L1Residence()


@dataclass(frozen=True, slots=True)
class Residency:
    """tiled: the layers, with one copy of buffers that need no second one. stays: per layer.
    tensors: names of those that take no room of L2."""

    tiled: tuple[TiledLayer, ...]
    stays: tuple[L1Residence, ...]
    tensors: frozenset[str]


def plan_residency(
    tiled: Sequence[TiledLayer],
    flow: LayoutPlan,
    hierarchy: MemoryHierarchy,
    budget_bytes: int,
    in_one_tile: InOneTile,
) -> Residency:
    """Return what stays in L1 of layers in the order of execution; budget_bytes: of L1."""
    planner = _Planner(tuple(tiled), flow, hierarchy, budget_bytes, cache(in_one_tile))
    if hierarchy.resident_l1:
        for kept in _candidates(tiled, flow):
            planner = planner.keeping(kept) or planner
    return planner.result()


@dataclass(frozen=True, slots=True)
class ResidentTensor:
    """A tensor that stays: the layer that makes it, and those that find it, in order."""

    name: str
    maker: int
    readers: tuple[int, ...]
    stored: bool

    @property
    def last(self) -> int:
        return self.readers[-1]

    def lies_in(self, n: int) -> bool:
        """Return whether it lies in L1 while layer n runs."""
        return self.maker <= n <= self.last


def _candidates(tiled: Sequence[TiledLayer], flow: LayoutPlan) -> list[ResidentTensor]:
    """Return what may stay, the shortest stays first: they stand in the way of the fewest others.

    A tensor is there once for each number of layers that may find it.
    """
    elsewhere = {source for pairs in flow.before for source, _ in pairs} | set(flow.outputs)
    found: list[ResidentTensor] = []
    for maker, name in enumerate(flow.writes):
        readers = [n for n, reads in enumerate(flow.reads) if name in reads]
        for count, reader in enumerate(readers, 1):
            in_place = any(one.in_place for one in tiled[maker : reader + 1])
            if in_place or flow.reads[reader].count(name) > 1:
                break
            stored = name in elsewhere or count < len(readers)
            found.append(ResidentTensor(name, maker, tuple(readers[:count]), stored))
    return sorted(found, key=lambda kept: (kept.last - kept.maker, kept.maker))


@dataclass(frozen=True, slots=True)
class _Planner:
    """Layers, what stays of their tensors, and where the buffers of such layers lie."""

    tiled: tuple[TiledLayer, ...]
    flow: LayoutPlan
    hierarchy: MemoryHierarchy
    budget: int
    in_one_tile: InOneTile
    kept: tuple[ResidentTensor, ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)

    def keeping(self, new: ResidentTensor) -> _Planner | None:
        """Return the planner that keeps a tensor; None when it does not fit, or does not pay."""
        touched = (new.maker, *new.readers)
        tiled = list(self.tiled)
        for n in touched:
            one = self._with_whole(n, new)
            if one is None:
                return None
            tiled[n] = one
        kept = (*(one for one in self.kept if one.name != new.name), new)
        other = replace(self, tiled=tuple(tiled), kept=kept)
        offsets = other._pack(_connected(kept, new))
        if offsets is None or other._cycles(touched) >= self._cycles(touched):
            return None
        return replace(other, offsets={**self.offsets, **offsets})

    def _with_whole(self, n: int, kept: ResidentTensor) -> TiledLayer | None:
        """Return a layer that has a tensor in L1 as a whole, in one tile if it must be."""
        for one in (self.tiled[n], self.in_one_tile(n)):
            if one is None:
                continue
            if n == kept.maker:
                whole = one.schedule.count == 1
            else:
                whole = _reads_whole(one, self.flow.reads[n].index(kept.name))
            if whole:
                return one
        return None

    def _pack(self, layers: range) -> Mapping[str, int] | None:
        """Return the offsets of what these layers have in L1; None when that does not fit."""
        requests = [
            Request(one.name, self._size(one), one.maker, one.last)
            for one in self.kept
            if one.maker in layers
        ]
        for n in layers:
            own = self._own(n)
            requests += [
                Request(_buffer_name(n, buffer.name), int(buffer.total), n, n)
                for buffer in self._buffers(n)
                if buffer.name not in own
            ]
        unit = max(L1_ALIGNMENT, self.hierarchy.link(1).alignment_bytes)
        unit = max(unit, *(m.alignment_bytes for m in self.hierarchy.level(1).memories))
        room = self.budget // unit * unit
        bound = fullest_step(requests, unit)[1]
        if bound > room:
            return None
        offsets = best_fit(requests, unit, bound)
        return offsets if peak_of(requests, offsets, unit) <= room else None

    def _size(self, kept: ResidentTensor) -> int:
        return next(int(b.total) for b in self._buffers(kept.maker) if b.name == "y")

    def _own(self, n: int) -> dict[str, str]:
        """Return the tensors that stay by the buffer (x, x2, y) that they are in layer n."""
        own = {}
        for one in self.kept:
            if n == one.maker:
                own["y"] = one.name
            elif n in one.readers:
                own[OPERANDS[self.flow.reads[n].index(one.name)]] = one.name
        return own

    def _buffers(self, n: int) -> tuple[L1Buffer, ...]:
        one = self._single(n)
        return l1_buffers(one.layer, one.kernel, one.tiling.tile, one.schedule.buffering)

    def _single(self, n: int) -> TiledLayer:
        """Return a layer with one copy of what is there once."""
        one = self.tiled[n]
        own = self._own(n)
        copies = one.schedule.buffering
        if own and one.schedule.count == 1:
            copies = Buffering()
        elif own.keys() & set(OPERANDS):
            copies = replace(copies, x=1)
        return replace(one, schedule=replace(one.schedule, buffering=copies))

    def _cycles(self, layers: Iterable[int]) -> int:
        """Return the estimated cycles of some layers."""
        total = 0
        for n in layers:
            one, unmoved = self._single(n), self._stay(n).unmoved
            costs = LayerCosts(one.layer, one.kernel, self.hierarchy, resident=unmoved)
            total += estimate(costs, one.schedule).cycles
        return total

    def result(self) -> Residency:
        """Return the layers with what stays."""
        layers = range(len(self.tiled))
        stays = tuple(self._placed(n) for n in layers)
        gone = frozenset(one.name for one in self.kept if not one.stored)
        return Residency(tuple(self._single(n) for n in layers), stays, gone)

    def _stay(self, n: int) -> L1Residence:
        """Return what of a layer stays; where it lies apart."""
        own = self._own(n)
        made = next((one for one in self.kept if one.maker == n), None)
        found = frozenset(own) - {"y"}
        return L1Residence(found=found, leaves=made is not None, stored=made is None or made.stored)

    def _placed(self, n: int) -> L1Residence:
        """Return what of a layer stays, with the offsets of its buffers and of what lies beside."""
        here = [one for one in self.kept if one.lies_in(n)]
        if not here:
            return MOVED
        own = self._own(n)
        names = {b.name: own.get(b.name, _buffer_name(n, b.name)) for b in self._buffers(n)}
        return replace(
            self._stay(n),
            offsets={buffer: self.offsets[name] for buffer, name in names.items()},
            beside={one.name: self.offsets[one.name] for one in here if one.maker < n < one.last},
        )


def _buffer_name(n: int, name: str) -> str:
    return f"layer {n}, {name}"


def _connected(kept: Iterable[ResidentTensor], start: ResidentTensor) -> range:
    """Return the layers whose buffers share L1 with a tensor, by way of others that stay."""
    first, last = start.maker, start.last
    rest = [one for one in kept if one is not start]
    while True:
        near = [one for one in rest if one.maker <= last and one.last >= first]
        grown = min([first, *(k.maker for k in near)]), max([last, *(k.last for k in near)])
        if grown == (first, last):
            return range(first, last + 1)
        first, last = grown


def _reads_whole(tiled: TiledLayer, operand: int) -> bool:
    """Return whether a layer has an operand in L1 once, as a whole and as it lies in L2."""
    layer, schedule = tiled.layer, tiled.schedule
    channels, rows, columns, inputs = schedule.counts
    if (rows, columns, inputs) != (1, 1, 1) or (channels > 1 and schedule.is_channelwise):
        return False
    if tiled.traits.planar and tiled.traits.inputs[operand].is_hwc:
        return False  # it changes its layout on the way
    if isinstance(layer.op, Linear):
        return True
    x = layer.inputs[operand]
    return (schedule.h[0].x_size, schedule.w[0].x_size) == (x.height, x.width)
