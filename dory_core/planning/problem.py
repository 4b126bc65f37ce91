"""What all decisions about a network share: its tiles, the target, and the budgets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from dory_core.hardware.links import Link
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.hardware.options import INPUT_ROWS, MOVES, OUTPUT_ROWS
from dory_core.hardware.target import TargetContext
from dory_core.ir import Graph
from dory_core.ir.geometry import extent, is_channelwise, make_tile
from dory_core.ir.packing import pack
from dory_core.plan import initial_table_bytes
from dory_core.plan.blocks import Bin, level_alignment
from dory_core.plan.budgets import Budgets, memory_budgets
from dory_core.plan.moving import Moving
from dory_core.planning.constants import chunk_sizes
from dory_core.planning.decision import Decision, Residency
from dory_core.planning.layouts import LayoutPlan, plan_layouts
from dory_core.planning.sequence.network_parts import NetworkParts
from dory_core.planning.views import Views, plan_views
from dory_core.schedule.copies import weight_unit
from dory_core.tiling.outer import UNCUT, Cuts, Split
from dory_core.tiling.part_layers import largest_part
from dory_core.tiling.parts import Tilings, split_is_whole
from dory_core.tiling.tiled import TiledLayer

#: Level of whole tensors, and the one from which networks are streamed that do not fit there.
HOME = 2
BELOW = HOME + 1


def is_streamed(hierarchy: MemoryHierarchy) -> bool:
    """Return True when data that home has no room for can be streamed from the level below."""
    if all(link.upper != HOME for link in hierarchy.links) or hierarchy.constants_level == BELOW:
        return False
    return not all(memory.mapped for memory in hierarchy.level(BELOW).memories)


@dataclass(frozen=True, slots=True)
class Problem:
    """A network to be planned.

    Attributes:
        tiling: The tilings of its layers.
        ctx: The target.
        budgets: Bytes of each memory level.
        network: The layers and how they may be cut.
        tiled: The best tiles of each layer as a whole.
        constants: Bytes of each layer's constants that are fetched when the network is streamed.
        thorough: Whether a streamed network is also cut without resident tensors, for less L2.
    """

    tiling: Tilings
    ctx: TargetContext
    budgets: Budgets
    network: NetworkParts
    tiled: tuple[TiledLayer, ...]
    constants: tuple[int, ...]
    thorough: bool = True

    @classmethod
    def of(
        cls, tiling: Tilings, ctx: TargetContext, budgets: Budgets, views: bool = True
    ) -> Problem:
        """Return the problem of a network.

        Args:
            tiling: The tilings of its layers.
            ctx: The target.
            budgets: Bytes of each memory level.
            views: Whether tensors may be slices of others, so that nothing copies them.
        """
        outer = [link for link in ctx.memory.links if link.upper == HOME]
        unit = max((link.alignment_bytes for link in outer), default=1)
        layouts = plan_layouts(tiling.graph, [(one.layer, one.traits) for one in tiling.best])
        alignment = level_alignment(ctx.memory, HOME)
        named = plan_views(tiling.graph.layers, layouts, alignment) if views else Views()
        tiled = tuple(
            one.as_view() if n in named.layers else one for n, one in enumerate(tiling.best)
        )
        cuts = tuple(UNCUT if one.view else _cuts(one, unit) for one in tiled)
        by_rows = [
            name
            for option, names in ((INPUT_ROWS, layouts.inputs), (OUTPUT_ROWS, layouts.outputs))
            for name in names
            if ctx.options.get(option.name)
        ]
        over = {
            (n, k)
            for n, one in enumerate(tiled)
            for k in range(len(one.layer.inputs))
            if _writes_over(one, k, alignment)
        }
        network = _network(
            tiling.graph, layouts, cuts, named, unit, tuple(by_rows), frozenset(over), alignment
        )
        linked, moved = ctx.memory.constants_level != HOME, weight_unit(ctx.memory)
        constants = tuple(
            0 if linked else sum(chunk_sizes(one.layer, one, cut.whole, moved))
            for one, cut in zip(tiled, cuts, strict=True)
        )
        return cls(tiling, ctx, budgets, network, tiled, constants)

    # -- the target ---------------------------------------------------------------------------

    @property
    def alignment(self) -> int:
        """Blocks of home start on multiples of it."""
        return level_alignment(self.ctx.memory, HOME)

    @property
    def moving(self) -> Moving:
        """How bytes move within home."""
        return Moving(self.ctx.memory.link(1), self.ctx.memory.cores)

    @property
    def link(self) -> Link | None:
        """The link between home and the level below."""
        return next((link for link in self.ctx.memory.links if link.upper == HOME), None)

    @property
    def streams(self) -> bool:
        """Whether data that home has no room for can be streamed from the level below."""
        return is_streamed(self.ctx.memory)

    @property
    def linked_elsewhere(self) -> bool:
        """Whether constants lie in a level of their own, from where they are loaded into L1."""
        return self.ctx.memory.constants_level != HOME

    @property
    def first_memory(self) -> int:
        """Bytes of the first memory of home, the one that the DMA of the level below reaches."""
        return memory_budgets(self.ctx.memory, HOME, self.budgets.bytes[HOME])[0]

    @property
    def room(self) -> int:
        """Bytes of the first memory of home for blocks of a streamed network."""
        return max(0, self.first_memory - self.linked_home)

    def bins(self, static: int) -> tuple[Bin, ...]:
        """Return the memories of home.

        Args:
            static: Bytes of constants that are linked into it.
        """
        memory = self.ctx.memory
        sizes = list(memory_budgets(memory, HOME, self.budgets.bytes[HOME]))
        sizes[0] = max(0, sizes[0] - static)
        links = max(link.alignment_bytes for link in memory.links if link.upper <= HOME)
        return tuple(
            Bin(m.name, size, max(m.alignment_bytes, links), m.holds)
            for m, size in zip(memory.level(HOME).memories, sizes, strict=True)
        )

    @property
    def switched_off(self) -> frozenset[str]:
        """Names of the moves that are switched off."""
        texts = str(self.ctx.options.get(MOVES.name, "")).split(",")
        return frozenset(text.strip().removeprefix("-") for text in texts if text.strip())

    # -- constants ----------------------------------------------------------------------------

    def constants_of(self, n: int, tiled: TiledLayer, split: Split) -> tuple[int, ...]:
        """Return the bytes of the groups of constants of a layer."""
        return chunk_sizes(self.network.layers[n], tiled, split, weight_unit(self.ctx.memory))

    def fetched(self, n: int, tiled: TiledLayer, split: Split) -> tuple[int, ...]:
        """Return those of them that pass through home when the network is streamed."""
        return () if self.linked_elsewhere else self.constants_of(n, tiled, split)

    @property
    def initial_state(self) -> tuple[bytes, ...]:
        """What each state is before the first inference, in storage form."""
        graph = self.tiling.graph
        return tuple(
            pack(state.initial.values.transpose(1, 2, 0), graph.tensors[state.read])
            for state in graph.states
        )

    @property
    def state_tables(self) -> int:
        """Bytes of the tables of initial values of state."""
        return sum(map(initial_table_bytes, self.initial_state))

    @property
    def linked_home(self) -> int:
        """Bytes of constants in home that are never fetched: the tables of state."""
        return 0 if self.linked_elsewhere else self.state_tables

    def least_static(self) -> int:
        """Return the least bytes of constants that are linked into home when all fits."""
        if self.linked_elsewhere:
            return 0
        return self.state_tables + sum(
            min(sum(self.constants_of(n, tiled, cuts.whole)) for tiled in one.tilings)
            for n, (one, cuts) in enumerate(zip(self.tiling.layers, self.network.cuts, strict=True))
        )

    def static_bytes(self, decision: Decision, residency: Residency) -> int:
        """Return the bytes of constants that a decision links into home."""
        if self.linked_elsewhere or decision.streamed:
            return self.linked_home
        numbers = range(len(residency.tiled))
        sizes = map(self.constants_of, numbers, residency.tiled, decision.splits)
        return self.linked_home + sum(map(sum, sizes))

    # -- tiles --------------------------------------------------------------------------------

    def part(self, n: int, split: Split) -> TiledLayer:
        """Return the tiling of the largest part of a layer.

        Raises:
            NotSupported: When no kernel computes it.
            DoesNotFit: When no tile of it fits L1.
        """
        if split_is_whole(split):
            return self.tiled[n]
        return self.tiling.part(n, split)

    @property
    def rough(self) -> Problem:
        """The problem with tiles of parts that take less time to find, and some more cycles."""
        return replace(self, tiling=self.tiling.rough)

    @property
    def lighter(self) -> Problem | None:
        """The problem with fewer constants of layers that have no groups; None where they have few.

        These lie in home as a whole while the layer runs.
        """
        pairs = zip(self.network.cuts, self.constants, strict=True)
        whole = (n for n, (cuts, size) in enumerate(pairs) if size and cuts.groups == 1)
        light = self.tiling.lighter(n for n in whole if not self.tiled[n].view)
        views = bool(self.network.views.layers)
        return None if light is None else Problem.of(light, self.ctx, self.budgets, views)

    def residency(self, decision: Decision) -> Residency:
        """Return the tiles and the resident tensors of a decision. Raises: as :meth:`part`."""
        if decision.residency is not None:
            return decision.residency
        return Residency.none(tuple(map(self.part, range(len(self.tiled)), decision.splits)))


#: Arguments of :class:`NetworkParts`, and the parts that were made with them.
_KNOWN = deque[tuple[tuple[object, ...], NetworkParts]](maxlen=4)


def _network(graph: Graph, flow: LayoutPlan, *rest: Any) -> NetworkParts:
    """Return the parts of a network: the same for all tilings that differ only in L1.

    A graph equals no other one: those of the same layers would have to be compared value by value.
    """
    for (other, *others), parts in _KNOWN:
        if other is graph and others == [flow, *rest]:
            return parts
    _KNOWN.append(((graph, flow, *rest), NetworkParts(graph, flow, *rest)))
    return _KNOWN[-1][1]


def _writes_over(one: TiledLayer, operand: int, unit: int) -> bool:
    """Return True when a layer may write its output over an input.

    Each element of the output is computed of that at the same place. A tile is loaded before it is
    computed, so that a tile that is stored is over what no other tile loads.

    Args:
        one: The layer.
        operand: Number of the input.
        unit: Lengths of copies are rounded up to multiples of it at the end of a tensor.
    """
    layer, x, y = one.layer, one.layer.inputs[operand], one.layer.output
    alike = (x.shape, x.bits) == (y.shape, y.bits) and not any(layer.whole_axes(operand))
    own = layer.op.sliding is None and layer.places(0) is None and layer.places(1) is None
    copied = not one.in_place and one.traits.is_hwc and y.size_bytes % unit == 0
    return alike and own and copied and layer.op.is_channelwise


def _cuts(one: TiledLayer, unit: int) -> Cuts:
    """Return the limits of how a layer may be cut.

    Args:
        one: The layer.
        unit: Granule of the start of stripes, in bytes.
    """
    layer, cuts = one.layer, Cuts.of(one.layer, one.traits, one.in_place, unit)
    if cuts.groups == 1 or not is_channelwise(layer):
        return cuts
    # Constants that all channels share do not get smaller in groups.
    part, full = largest_part(layer, cuts.whole._replace(groups=cuts.groups)), extent(layer)
    less, all_ = (
        int(one.bound.weight_bytes(make_tile(layer, channels, full.h, full.w)))
        for channels in (part.output.channels, full.c_out)
    )
    return cuts if less < all_ and one.bound.takes(part) else replace(cuts, groups=1)
