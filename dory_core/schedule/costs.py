"""What one layer costs: cycles of the kernel, of synchronisation and of copies, per tile.

The timeline (``schedule.timeline``) and the bounds of the search (``schedule.bounds``) read nothing
else, so that a cycle of a tile loop is stated once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dory_core.hardware.caches import Misses
from dory_core.hardware.copies import Carriage, Charge
from dory_core.hardware.links import Link
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Layer
from dory_core.ir.geometry import Tile
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.schedule.copies import PLAIN, LayerCopies, moves_all, weight_unit
from dory_core.schedule.loops import Phase, Schedule, TileStep


def link_name(link: Link) -> str:
    """Return the name of a link: ``L2-L1``."""
    return f"L{link.lower}-L{link.upper}"


@dataclass(frozen=True, slots=True, eq=False)
class LayerCosts:
    """The costs of a layer on a kernel; each call and copy of a size is computed once.

    Attributes:
        layer: The layer.
        bound: The kernel.
        hierarchy: The memories and links.
        moves: The copies of tiles.
        carriages: How the link carries the copies of each operand. None: that depends on the tile
            loops, see :meth:`in_loops`.
        tiles_before: Tiles of the layer that ran right before, in other parts of it.
    """

    layer: Layer
    bound: BoundKernel
    hierarchy: MemoryHierarchy
    moves: LayerCopies
    carriages: Mapping[str, Carriage] | None
    tiles_before: int = 0
    _calls: dict[tuple[int, ...], int] = field(default_factory=dict, repr=False)
    _after: dict[int, LayerCosts] = field(default_factory=dict, init=False, repr=False)
    _copies: dict[tuple[Any, ...], Charge] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, layer: Layer, bound: BoundKernel, hierarchy: MemoryHierarchy) -> LayerCosts:
        """Return the costs of a layer on a kernel, whatever its tiles."""
        moves = LayerCopies(layer, bound, (), weight_unit(hierarchy))
        return cls(layer, bound, hierarchy, moves, PLAIN if moves_all(hierarchy) else None)

    def on(self, bound: BoundKernel) -> LayerCosts:
        """Return the costs of the layer on a kernel."""
        return self if bound is self.bound else LayerCosts.of(self.layer, bound, self.hierarchy)

    def after(self, tiles: int) -> LayerCosts:
        """Return the costs of a part before which other parts ran that many tiles."""
        tiles = min(tiles, len(self._all_misses) - 1)
        if tiles == self.tiles_before:
            return self
        if tiles not in self._after:
            self._after[tiles] = replace(self, tiles_before=tiles)
        return self._after[tiles]

    def in_loops(
        self, *schedules: Schedule, carriages: Mapping[str, Carriage] | None = None
    ) -> LayerCosts:
        """Return the costs with copies that are carried as given tile loops ask for.

        They are the same for all tile loops where the links move everything.

        Args:
            schedules: The tile loops of the layer, one for each part.
            carriages: How the copies are carried, where that is known.
        """
        if self.carriages is not None:
            return self
        moves = LayerCopies(self.layer, self.bound, (), weight_unit(self.hierarchy), schedules)
        found = moves.carriages(self.hierarchy) if carriages is None else carriages
        return replace(self, moves=moves, carriages=found)

    @property
    def meetings(self) -> dict[Phase, int]:
        """Cycles of synchronisation by phase of a tile, the same for all tiles."""
        barrier = self.hierarchy.barrier_cycles
        return {Phase.MEET: barrier, Phase.COMPUTE: barrier + self.hierarchy.step_cycles}

    @property
    def misses(self) -> tuple[Misses, ...]:
        """Misses of instructions of the next tiles; those of the rest are as the last."""
        return self._all_misses[self.tiles_before :]

    @property
    def _all_misses(self) -> tuple[Misses, ...]:
        cache, code = self.hierarchy.instructions, self.hierarchy.level(2).code
        if cache is None or code is None or self.bound.traits.in_place:
            return (Misses(),)
        running = self.bound.running_bytes
        if running is None:
            whole = code.of_kernel(self.bound.symbol, self.bound.code_bytes)
            running = int(whole * cache.running_share)
        return cache.misses(running)

    def call(self, c_out: int, h: int, w: int, c_in: int, x_h: int, x_w: int) -> int:
        """Return the cycles of the kernel on a tile of these sizes.

        Args:
            c_out: Output channels.
            h: Output rows.
            w: Output columns.
            c_in: Input channels.
            x_h: Input rows.
            x_w: Input columns.
        """
        key = (c_out, h, w, c_in, x_h, x_w)
        if key not in self._calls:
            self._calls[key] = int(self.bound.cycles(Tile(*key)))
        return self._calls[key]

    def compute(self, schedule: Schedule, step: TileStep) -> int:
        """Return the cycles of the kernel on a tile of a tile loop."""
        h, w = schedule.h[step.h], schedule.w[step.w]
        _, channels = schedule.input_channels(step)
        return self.call(schedule.c_out[step.o].size, h.size, w.size, channels, h.x_size, w.x_size)

    def copy(self, operand: str, *sizes: int) -> Charge:
        """Return the cost of a copy of a tile, see ``LayerCopies.copy``."""
        key = (operand, *sizes)
        if key not in self._copies:
            assert self.carriages is not None
            hierarchy = self.hierarchy
            link = self.constants_link if operand == "w" else hierarchy.link(1)
            cost = self.moves.copy(operand, *sizes)
            self._copies[key] = cost.charge(link, self.carriages[operand], hierarchy.cores)
        return self._copies[key]

    @property
    def constants_link(self) -> Link:
        """The link that loads the constants of the layer into L1."""
        return self.hierarchy.constants_link_of(self.bound.far_constants)

    @property
    def cores_store(self) -> bool:
        """Whether the cores copy the output, which is complete after they have met."""
        return self.carriages is not None and self.carriages["y"].by_cores

    def constants_bytes(self, schedule: Schedule) -> int:
        """Return the bytes of all blocks of constants of a tile loop."""
        if not schedule.has_weights:
            return 0
        blocks = Counter((o.size, i.size) for o in schedule.c_out for i in schedule.c_in)
        return sum(n * self.moves.weights(*sizes).bytes for sizes, n in blocks.items())


def first_weights(costs: LayerCosts, schedule: Schedule) -> Charge:
    """Return the cost of loading the first block of constants of a tile loop."""
    _, c_in = schedule.input_channels(next(schedule.steps()))
    return costs.in_loops(schedule).copy("w", schedule.c_out[0].size, c_in)
