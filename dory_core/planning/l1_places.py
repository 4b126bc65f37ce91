"""Where the buffers of all layers lie in L1, where constants are there before their layer runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from dory_core.hardware.memories import MemoryHierarchy
from dory_core.kernels.call import OPERANDS
from dory_core.plan.block_ids import BlockId, BlockKind, buffers_id
from dory_core.plan.blocks import Request, align_up, level_alignment
from dory_core.planning.decision import L1Residence, Residency
from dory_core.planning.layouts import LayoutPlan
from dory_core.planning.packing.heuristics import Offsets, fit_into
from dory_core.schedule.loops import L1_ALIGNMENT, place_l1

#: Layers on both sides of a weight prefetch whose blocks may move to make room for it.
_MARGIN = 8


class L1Places:
    """The blocks of L1 of a network, and how they are placed around weight prefetches.

    A resident tensor is live from the layer that makes it to its last reader; constants that are
    prefetched are live from the layer that starts their load; every other buffer in one layer.
    """

    def __init__(
        self, residency: Residency, flow: LayoutPlan, hierarchy: MemoryHierarchy, budget_bytes: int
    ) -> None:
        """Find the blocks and where they lie without prefetch.

        Args:
            residency: The layers with their tiles and resident tensors.
            flow: The tensors that each layer reads and writes.
            hierarchy: The memories of the target.
            budget_bytes: Bytes of L1.
        """
        self.residency = residency
        self.flow = flow
        self.unit = max(L1_ALIGNMENT, level_alignment(hierarchy, 1))
        self.room = budget_bytes // self.unit * self.unit
        # Those of layers in place always lie at its start.
        self.buffers = tuple(
            () if one.view or one.in_place else one.buffers(stay.in_l1)
            for one, stay in zip(residency.tiled, residency.layers, strict=True)
        )
        self.start: Offsets = {}
        live: dict[str, list[int]] = {}
        sizes: dict[str, int] = {}
        for n, (buffers, stay) in enumerate(zip(self.buffers, residency.layers, strict=True)):
            own = self._tensors(n)
            for placed in place_l1(buffers, stay.offsets):
                block = (
                    BlockId(own[placed.name]) if placed.name in own else buffers_id(n, placed.name)
                )
                self.start[block] = placed.offsets[0]
            for buffer in buffers:
                if buffer.name in own:
                    live.setdefault(own[buffer.name], []).append(n)
                    sizes[own[buffer.name]] = int(buffer.total)
        self.residents = tuple(
            Request(BlockId(name), sizes[name], layers[0], layers[-1])
            for name, layers in live.items()
        )

    def _tensors(self, n: int) -> dict[str, str]:
        """Return the resident tensors of a layer, by the buffer that they lie in."""
        stay = self.residency.layers[n]
        names = zip(OPERANDS, self.flow.reads[n], strict=False)
        own = {buffer: name for buffer, name in names if buffer in stay.found}
        return own | {"y": self.flow.writes[n]} if stay.leaves else own

    def first_bytes(self, n: int) -> int:
        """Return the bytes of one copy of the buffer of a layer's constants; 0 without any."""
        return next((int(b.bytes) for b in self.buffers[n] if b.name == "w"), 0)

    def _requests(self, layers: range, starters: Mapping[int, int]) -> Iterator[Request]:
        """Yield the blocks that are live in one of some layers.

        Args:
            layers: The layers.
            starters: As for :meth:`placed`.
        """
        for one in self.residents:
            if one.first < layers.stop and layers.start <= one.last:
                yield one
        later = (n for n, starter in starters.items() if n >= layers.stop > starter)
        for n in (*layers, *later):
            own = self._tensors(n)
            for buffer in self.buffers[n]:
                if buffer.name in own:
                    continue
                first, size = n, int(buffer.total)
                if buffer.name == "w" and n in starters:
                    first = starters[n]
                    if buffer.copies == 2:
                        size = int(buffer.bytes)
                        if n in layers:
                            yield Request(_second(n), size, n, n)
                if first < layers.stop:
                    yield Request(buffers_id(n, buffer.name), size, first, n)

    def _may_fit(self, layers: range, starters: Mapping[int, int]) -> bool:
        """Return False when more is live in one of some layers than L1 holds."""
        live = dict.fromkeys(layers, 0)
        for request in self._requests(layers, starters):
            for n in range(max(request.first, layers.start), min(request.last + 1, layers.stop)):
                live[n] += align_up(request.size_bytes, self.unit)
        return max(live.values()) <= self.room

    def placed(self, places: Offsets, n: int, starters: Mapping[int, int]) -> Offsets | None:
        """Return offsets that have room for the prefetched constants of one more layer.

        At first only buffers of the layers from its starter to itself move, then all blocks near
        it.

        Args:
            places: Offsets without that.
            n: The layer.
            starters: The layers that start loads, by the layers that these are for.

        Returns:
            None when no room is found.
        """
        layers = range(starters[n], n + 1)
        if not self._may_fit(layers, starters):
            return None
        found = self._fit(places, layers, n, starters, residents=False)
        if found is None:
            near = range(max(0, layers.start - _MARGIN), min(n + _MARGIN + 1, len(self.buffers)))
            found = self._fit(places, near, n, starters, residents=True)
        return found

    def _fit(
        self,
        places: Offsets,
        layers: range,
        n: int,
        starters: Mapping[int, int],
        residents: bool,
    ) -> Offsets | None:
        """Return offsets of all blocks; those that are also live in other layers do not move.

        Args:
            places: As for :meth:`placed`.
            layers: Layers whose buffers may move.
            n: As for :meth:`placed`.
            starters: As for :meth:`placed`.
            residents: Whether resident tensors may move.
        """
        requests = list(self._requests(layers, starters))
        fixed = {
            r.id: places[r.id]
            for r in requests
            if r.id in places
            and r.id != buffers_id(n, "w")
            and (
                r.first < layers.start
                or r.last >= layers.stop
                or (r.id.kind is BlockKind.WHOLE and not residents)
            )
        }
        ids = {r.id for r in requests}
        above = {_second(k): buffers_id(k, "w") for k in starters if _second(k) in ids}
        found = fit_into(requests, self.unit, self.room, fixed, above)
        return None if found is None else places | found

    def with_places(self, places: Offsets, prefetched: Collection[int]) -> Residency:
        """Return the layers with their buffers in other places.

        Args:
            places: Offsets of all blocks.
            prefetched: Layers whose constants are prefetched.
        """
        layers = (
            self._residence(n, stay, places, n in prefetched) if self.buffers[n] else stay
            for n, stay in enumerate(self.residency.layers)
        )
        return replace(self.residency, layers=tuple(layers))

    def _residence(
        self, n: int, stay: L1Residence, places: Offsets, prefetched: bool
    ) -> L1Residence:
        own = self._tensors(n)
        offsets = {
            b.name: places[BlockId(own[b.name]) if b.name in own else buffers_id(n, b.name)]
            for b in self.buffers[n]
        }
        beside = {name: places[BlockId(name)] for name in stay.beside}
        second = places.get(_second(n)) if prefetched else None
        return replace(stay, offsets=offsets, beside=beside, second_weights=second)


def _second(n: int) -> BlockId:
    """Return the block of the second copy of a layer's constants, where the first is prefetched."""
    return BlockId("w", BlockKind.BUFFERS, (n, 1))
