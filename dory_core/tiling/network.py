"""Tilings of all layers of a network between L2 and L1: BoundGraph -> TiledGraph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dory_core.errors import DoesNotFit, DoryError, NotSupported
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Graph
from dory_core.ir.geometry import Span
from dory_core.kernels.binding import BoundGraph
from dory_core.kernels.kernel import Traits
from dory_core.tiling.outer import WHOLE, Split, largest_part
from dory_core.tiling.tiled import LayerTilings, TiledLayer
from dory_core.tiling.tiler import TermsHook, Tiler

Progress = Callable[[str, int, int], None]


class PartTilings:
    """The best tiling of the largest part of each layer, by its split: a table filled lazily.

    Only the planner knows which splits it needs, and there are thousands. The tile of the whole
    layer clipped to the part is no substitute: with it MobileNetV1-1.0-128 in 200 kB of L2 takes
    8 % more cycles on GAP8, ProxylessNAS 18 %. An entry depends on the layer and the split alone.
    """

    def __init__(self, bound: BoundGraph, tiler: Tiler, l1_bytes: int) -> None:
        self._bound = bound
        self._tiler = tiler
        self._l1_bytes = l1_bytes
        self._known: dict[tuple[int, ...], TiledLayer] = {}

    def tiling(
        self, n: int, split: Split, whole: TiledLayer, given: Sequence[Span] | None
    ) -> TiledLayer:
        """Return the tiling of the largest part of the n-th layer on a kernel of the whole layer
        that has tensors where and as ``whole`` has them. given: see ``outer.parts``.

        Raises: NotSupported or DoesNotFit when no kernel computes it.
        """
        key = (n, split.stripes, split.groups, split.chain - split.place)
        if key not in self._known:
            bound = self._bound.layers[n]
            wanted = _places(whole.traits)
            kernels = [one for one in bound.kernels if _places(one.traits) == wanted]
            part = bound.part(largest_part(bound.layer, split, given), kernels)
            found = self._tiler.tile(part, self._l1_bytes)
            self._known[key] = replace(found, costs=whole.costs.on(found.bound))
        return self._known[key]

    def smaller(self, tiled: TiledLayer, budget_bytes: int) -> TiledLayer | None:
        """Return a layer in the best tiles within fewer bytes of L1; None when nothing fits."""
        return self._tiler.smaller(tiled, budget_bytes)


@dataclass(frozen=True, slots=True)
class TiledGraph:
    """A network with the tilings of its layers, in the order of execution.

    parts: tilings of parts of layers, for networks that do not fit as a whole.
    """

    bound: BoundGraph
    layers: tuple[LayerTilings, ...]
    parts: PartTilings = field(compare=False)

    @property
    def graph(self) -> Graph:
        """The network."""
        return self.bound.graph

    @property
    def best(self) -> tuple[TiledLayer, ...]:
        """The best tiling of every layer alone; raises the problem of the first without any."""
        return tuple(one.best for one in self.layers)

    @property
    def problems(self) -> tuple[DoryError, ...]:
        """Why layers cannot be computed, NotSupported or DoesNotFit."""
        return tuple(one.problem for one in self.layers if one.problem is not None)

    def part(self, n: int, split: Split, given: Sequence[Span] | None = None) -> TiledLayer:
        """Return the tiling of the largest part of the n-th layer; raises as PartTilings does.

        given: see ``outer.parts``.
        """
        best = self.layers[n].best
        return best if split_is_whole(split) else self.parts.tiling(n, split, best, given)

    def in_one_tile(self, n: int) -> TiledLayer | None:
        """Return the n-th layer in one tile; None when that cannot be."""
        return self.layers[n].in_one_tile


def _places(traits: Traits) -> tuple[object, ...]:
    """Return where and in which layouts a kernel has tensors and constants."""
    return (traits.inputs, traits.output, traits.in_place, traits.fetches)


def split_is_whole(split: Split) -> bool:
    """Return whether a split leaves a layer in one part."""
    return (split.stripes, split.groups) == (WHOLE.stripes, WHOLE.groups)


def tile_graph(
    bound: BoundGraph,
    hierarchy: MemoryHierarchy,
    l1_bytes: int,
    terms: TermsHook,
    objective: str = "heuristic",
    progress: Progress | None = None,
) -> TiledGraph:
    """Return the network with the tilings of its layers within ``l1_bytes`` of L1.

    terms: objective terms of the target. A layer that no kernel computes has its problem in place
    of tilings: nothing is raised for it here.
    """
    tiler = Tiler(hierarchy, terms, objective)
    layers = []
    for n, one in enumerate(bound.layers):
        if progress is not None:
            progress("tiling", n, len(bound.layers))
        try:
            best = tiler.tile(one, l1_bytes)
        except (NotSupported, DoesNotFit) as error:
            layers.append(LayerTilings(one.layer, (), error))
            continue
        whole = tiler.in_one_tile(best, l1_bytes) if best.schedule.count > 1 else None
        layers.append(LayerTilings(one.layer, (best,) if whole is None else (best, whole)))
    return TiledGraph(bound, tuple(layers), PartTilings(bound, tiler, l1_bytes))


def tiled_text(tiled: TiledGraph) -> str:
    """Return the network as text: per layer its tilings, the best one first."""
    lines = [f"network {tiled.graph.name}"]
    for layer in tiled.layers:
        op = layer.layer.op
        lines.append(f"{op.output} = {op.kind}  # {op.name}")
        if layer.problem is not None:
            lines.append(f"    {type(layer.problem).__name__}: {layer.problem.message}")
        lines += [f"    {tiling_text(one)}" for one in layer.tilings]
    return "\n".join(lines) + "\n"


def tiling_text(tiled: TiledLayer) -> str:
    """Return a tiling as one line: kernel, tile, copies, loop order, L1, cycles."""
    tile, cost = tiled.tiling.tile, tiled.estimate
    count = tiled.schedule.count
    where = "in place, tile" if tiled.in_place else "1 tile" if count == 1 else f"{count} tiles"
    return (
        f"{tiled.kernel.name}: {where} of c_out {tile.c_out}, h {tile.h}, w {tile.w}, "
        f"c_in {tile.c_in}; copies {tiled.schedule.buffering.text}; order {tiled.schedule.order}; "
        f"{tiled.l1_bytes} B of L1, {cost.cycles} cycles, {cost.dma_cycles} of transfers"
    )
