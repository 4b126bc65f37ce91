"""Layers as weight prefetch sees them: where their buffers may lie in L1, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, pairwise

from dory_core.hardware.copies import CORES
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.plan.blocks import align_up, level_alignment
from dory_core.planning.decision import L1Residence
from dory_core.planning.packing.heuristics import gap
from dory_core.schedule.loops import L1_ALIGNMENT, l1_buffers
from dory_core.schedule.timeline import AheadLoad, loaded_estimate
from dory_core.tiling.tiled import TiledLayer

#: First byte, and the one after the last.
Span = tuple[int, int]


class PrefetchLayer:
    """A layer: its buffers in L1, which of them may move, and its cycles."""

    def __init__(
        self,
        n: int,
        tiled: TiledLayer,
        stay: L1Residence,
        there: bool,
        kept: Mapping[str, int],
        hierarchy: MemoryHierarchy,
        budget_bytes: int,
    ) -> None:
        """Find the buffers of a layer, and those that may move.

        Args:
            n: Number of the layer.
            tiled: The layer in its tiles.
            stay: Which of its tensors stay in L1, and where.
            there: Whether its constants are in L2 before the layer before it begins.
            kept: Bytes of all tensors that stay in L1 anywhere, by name.
            hierarchy: The memories and links of the target.
            budget_bytes: Bytes of L1.
        """
        self.n = n
        self.tiled = tiled
        self.stay = stay
        self.unit = max(L1_ALIGNMENT, level_alignment(hierarchy, 1))
        self.room = budget_bytes // self.unit * self.unit
        schedule = tiled.schedule
        self.sizes = buffer_bytes(tiled, stay, self.unit)
        self.first_bytes = self.sizes.get("w", 0) // schedule.buffering.w
        self.offsets = dict(stay.offsets) or _in_order(self.sizes)
        self.stays = {*stay.found, *(["y"] if stay.leaves else [])}
        self.fixed = [(self.offsets[b], self.offsets[b] + self.sizes[b]) for b in self.stays]
        self.fixed += [(at, at + kept[name]) for name, at in stay.beside.items()]
        self.costs = tiled.costs.in_loops(schedule)
        self._known: dict[tuple[float | None, AheadLoad | None], tuple[int, float]] = {}
        self._places: dict[tuple[int | None, Span | None], Mapping[str, int] | None] = {}
        self.can_be_loaded = there and self.first_bytes > 0 and self._by_dma()

    def _by_dma(self) -> bool:
        carriages = self.costs.carriages
        return carriages is not None and carriages["w"].by != CORES

    def cycles(self, arrives: float | None, ahead: AheadLoad | None) -> tuple[int, float]:
        """Return the layer's cycles, and for how many more the link is busy after it."""
        key = (arrives, ahead)
        if key not in self._known:
            self._known[key] = loaded_estimate(
                self.costs, self.tiled.schedule, self.stay.unmoved, arrives, ahead
            )
        return self._known[key]

    def placed(self, weights: int | None, taken: Span | None) -> Mapping[str, int] | None:
        """Return places of the buffers; None when there are none.

        Args:
            weights: Where the constants lie, None for anywhere.
            taken: Bytes that a load for the next layer takes.
        """
        key = (weights, taken)
        if key not in self._places:
            self._places[key] = self._placed(weights, taken)
        return self._places[key]

    def _placed(self, weights: int | None, taken: Span | None) -> dict[str, int] | None:
        busy = [*self.fixed, *([taken] if taken is not None else [])]
        found = {name: self.offsets[name] for name in self.stays}
        if weights is not None:
            found["w"] = weights
            busy.append((weights, weights + self.sizes["w"]))
        if any(end > self.room or start < 0 for start, end in busy) or _meet(busy):
            return None
        rest = {name: size for name, size in self.sizes.items() if name not in found}
        as_before = [(self.offsets[name], self.offsets[name] + size) for name, size in rest.items()]
        if not _meet([*busy, *as_before]):
            return found | {name: self.offsets[name] for name in rest}
        for name, size in sorted(rest.items(), key=lambda item: -item[1]):
            start = gap(sorted(busy), size, tight=True)
            if start + size > self.room:
                return None
            found[name] = start
            busy.append((start, start + size))
        return found

    def end(self, offsets: Mapping[str, int] | None) -> int:
        """Return where its last buffer ends. offsets: places of the buffers, None as before."""
        places = self.offsets if offsets is None else offsets
        return max((places[name] + size for name, size in self.sizes.items()), default=0)

    def places_behind(self, before: PrefetchLayer, weights: int | None) -> list[int]:
        """Return where the constants may lie; ``weights``: those of the layer before.

        Every tight place begins or ends at a border of something, or at an end of the memory.
        """
        size, first = self.sizes["w"], self.first_bytes
        borders = [*self.fixed, *before.fixed]
        if weights is not None:
            borders.append((weights, weights + before.sizes["w"]))
        both = sum(before.sizes.values()) + align_up(first, self.unit)
        top = max(both, sum(self.sizes.values()))
        starts = {0, self.room - size, top - size, top - first}
        for start, end in borders:
            starts |= {end, start - size, start - first}
        legal = (s // self.unit * self.unit for s in starts)
        return sorted({s for s in legal if 0 <= s <= self.room - size})

    @property
    def next_bytes(self) -> int:
        """Most bytes that a tile loads for the next one while it computes."""
        copies = self.tiled.schedule.buffering
        early = {"x": copies.x, "x2": copies.x, "w": copies.w}
        return sum(self.sizes.get(name, 0) // n for name, n in early.items() if n > 1)

    def kernel_cycles(self, tile: int) -> float:
        """Return the cycles of the kernel on a tile, misses of instructions included."""
        schedule, misses = self.tiled.schedule, self.costs.misses
        step = next(islice(schedule.steps(), tile, None))
        return misses[min(tile, len(misses) - 1)].cycles + self.costs.compute(schedule, step)

    def tiles_to_start_at(self) -> tuple[int, ...]:
        """Return the tiles with which the layer may start a load for the next one."""
        count = self.tiled.schedule.count
        tiles = {0, count // 4, count // 2, max(count - 2, 0), count - 1}
        return tuple(sorted(tiles, reverse=True))


def buffer_bytes(tiled: TiledLayer, stay: L1Residence, unit: int) -> dict[str, int]:
    """Return the bytes of the buffers of a layer."""
    copies, tile = tiled.schedule.buffering, tiled.tiling.tile
    buffers = l1_buffers(tiled.layer, tiled.bound, tile, copies, stay.in_l1)
    return {buffer.name: align_up(int(buffer.total), unit) for buffer in buffers}


def _in_order(sizes: Mapping[str, int]) -> dict[str, int]:
    found, end = {}, 0
    for name, size in sizes.items():
        found[name] = end
        end += size
    return found


def _meet(spans: Sequence[Span]) -> bool:
    """Return True when two of some ranges of bytes overlap."""
    rising = sorted(spans)
    return any(one[1] > two[0] for one, two in pairwise(rising))
