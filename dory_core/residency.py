"""Tensors that stay in L1 between layers: neither loaded nor, where nobody else reads them, stored.

A tensor can stay when the layer that makes it has all of it in one tile. The layers that read it
next and have it in L1 as a whole find it there; where others read it too, or it leaves the network,
it is stored as well. L1 is then a memory over the whole network, as L2 is: a tensor that stays
keeps its bytes over several layers, every other buffer over one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dory_core.conversions import Flow
from dory_core.hardware import MemoryHierarchy
from dory_core.ir import Linear
from dory_core.kernel import Kernel
from dory_core.memory import Request
from dory_core.memory.heuristics import best_fit, peak_of
from dory_core.memory.lifetimes import fullest_step
from dory_core.tiling.schedule import L1_ALIGNMENT, Buffering, L1Buffer, l1_buffers
from dory_core.tiling.tiled import TiledLayer

OPERANDS = ("x", "x2")


@dataclass(frozen=True, slots=True)
class Stay:
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
MOVED = Stay()


@dataclass(frozen=True, slots=True)
class Residency:
    """tiled: the layers, with one copy of buffers that need no second one. stays: per layer.
    tensors: names of those that take no room of L2."""

    tiled: tuple[TiledLayer, ...]
    stays: tuple[Stay, ...]
    tensors: frozenset[str]


def plan_residency(
    tiled: Sequence[TiledLayer], flow: Flow, hierarchy: MemoryHierarchy, budget_bytes: int
) -> Residency:
    """Return what stays in L1 of layers in the order of execution; budget_bytes: of L1."""
    planner = _Planner(tuple(tiled), flow, hierarchy, budget_bytes)
    if hierarchy.resident_l1:
        for kept in _candidates(tiled, flow):
            planner.try_to_keep(kept)
    return planner.result()


@dataclass(frozen=True, slots=True)
class _Kept:
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


def _candidates(tiled: Sequence[TiledLayer], flow: Flow) -> list[_Kept]:
    """Return what may stay, the shortest stays first: they stand in the way of the fewest others.

    A tensor is there once for each number of layers that may find it.
    """
    elsewhere = {source for pairs in flow.before for source, _ in pairs} | set(flow.outputs)
    found: list[_Kept] = []
    for maker, name in enumerate(flow.writes):
        if tiled[maker].in_place or tiled[maker].schedule.count != 1:
            continue
        readers = [n for n, reads in enumerate(flow.reads) if name in reads]
        for count, reader in enumerate(readers, 1):
            reads = flow.reads[reader]
            between = tiled[maker + 1 : reader + 1]
            if any(one.in_place for one in between) or reads.count(name) > 1:
                break
            if not _reads_whole(tiled[reader], reads.index(name)):
                break
            stored = name in elsewhere or count < len(readers)
            found.append(_Kept(name, maker, tuple(readers[:count]), stored))
    return sorted(found, key=lambda kept: (kept.last - kept.maker, kept.maker))


@dataclass(slots=True)
class _Planner:
    tiled: tuple[TiledLayer, ...]
    flow: Flow
    hierarchy: MemoryHierarchy
    budget: int
    kept: dict[str, _Kept] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)

    def try_to_keep(self, kept: _Kept) -> None:
        """Keep a tensor, unless there is no room for it."""
        chosen = {**self.kept, kept.name: kept}
        layers = _connected(chosen.values(), kept)
        mine = [one for one in chosen.values() if one.maker in layers]
        requests = [*self._stays(mine), *(r for n in layers for r in self._buffers(n, mine))]
        unit = max(L1_ALIGNMENT, *(m.alignment_bytes for m in self.hierarchy.level(1).memories))
        room = self.budget // unit * unit
        if fullest_step(requests, unit)[1] > room:
            return
        offsets = best_fit(requests, unit, room)
        if peak_of(requests, offsets, unit) <= room:
            self.kept = chosen
            self.offsets |= offsets

    def _stays(self, kept: Iterable[_Kept]) -> list[Request]:
        return [Request(k.name, self._size(k), k.maker, k.last) for k in kept]

    def _size(self, kept: _Kept) -> int:
        buffers = self._layer_buffers(kept.maker, (kept,))
        return next(int(b.total) for b in buffers if b.name == "y")

    def _buffers(self, n: int, kept: Iterable[_Kept]) -> list[Request]:
        """Return what layer n needs in L1 beside tensors that stay."""
        own = self._own(n, kept)
        return [
            Request(_buffer_name(n, b.name), int(b.total), n, n)
            for b in self._layer_buffers(n, kept)
            if b.name not in own
        ]

    def _own(self, n: int, kept: Iterable[_Kept]) -> dict[str, str]:
        """Return the tensors that stay by the buffer (x, x2, y) that they are in layer n."""
        own = {}
        for one in kept:
            if n == one.maker:
                own["y"] = one.name
            elif n in one.readers:
                own[OPERANDS[self.flow.reads[n].index(one.name)]] = one.name
        return own

    def _layer_buffers(self, n: int, kept: Iterable[_Kept]) -> tuple[L1Buffer, ...]:
        one = self._single(n, kept)
        return l1_buffers(one.layer, one.kernel, one.tiling.tile, one.schedule.buffering)

    def _single(self, n: int, kept: Iterable[_Kept]) -> TiledLayer:
        """Return a layer with one copy of what is there once."""
        one = self.tiled[n]
        own = self._own(n, kept)
        copies = one.schedule.buffering
        if own and one.schedule.count == 1:
            copies = Buffering()
        elif own.keys() & set(OPERANDS):
            copies = replace(copies, x=1)
        return replace(one, schedule=replace(one.schedule, buffering=copies))

    def result(self) -> Residency:
        """Return the layers with what stays."""
        kept = tuple(self.kept.values())
        tiled = [self._single(n, kept) for n in range(len(self.tiled))]
        stays = [self._stay(n, kept) for n in range(len(self.tiled))]
        gone = frozenset(one.name for one in kept if not one.stored)
        return Residency(tuple(tiled), tuple(stays), gone)

    def _stay(self, n: int, kept: Sequence[_Kept]) -> Stay:
        here = [one for one in kept if one.lies_in(n)]
        if not here:
            return MOVED
        own = self._own(n, here)
        offsets = {
            b.name: self.offsets[own.get(b.name, _buffer_name(n, b.name))]
            for b in self._layer_buffers(n, here)
        }
        leaves = next((one for one in here if one.maker == n), None)
        return Stay(
            offsets,
            frozenset(own) - {"y"},
            leaves is not None,
            leaves is None or leaves.stored,
            {one.name: self.offsets[one.name] for one in here if one.maker < n < one.last},
        )


def _buffer_name(n: int, name: str) -> str:
    return f"layer {n}, {name}"


def _connected(kept: Iterable[_Kept], start: _Kept) -> range:
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
    if (rows, columns, inputs) != (1, 1, 1) or (channels > 1 and schedule.keeps_channels):
        return False
    if not _lies_alike(tiled.kernel, tiled, operand):
        return False
    if isinstance(layer.layer, Linear):
        return True
    x = layer.inputs[operand]
    return (schedule.h[0].x_size, schedule.w[0].x_size) == (x.height, x.width)


def _lies_alike(kernel: Kernel, tiled: TiledLayer, operand: int) -> bool:
    layout = kernel.input_layouts(tiled.layer)[operand]
    return not layout.is_hwc or kernel.input_layout(tiled.layer) == "HWC"
