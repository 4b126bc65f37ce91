"""Tilings of all layers of a network between L2 and L1: BoundGraph -> TiledGraph."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from dory_core.errors import DoesNotFit, DoryError, NotSupported
from dory_core.ir import Graph
from dory_core.kernels.binding import BoundGraph
from dory_core.tiling.tiled import LayerTilings, TiledLayer
from dory_core.tiling.tiler import Tiler

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class TiledGraph:
    """A network with the tilings of its layers.

    Attributes:
        bound: The network with its kernels.
        layers: In the order of execution.
    """

    bound: BoundGraph
    layers: tuple[LayerTilings, ...]

    @property
    def graph(self) -> Graph:
        """The network."""
        return self.bound.graph

    @property
    def best(self) -> tuple[TiledLayer, ...]:
        """The best tiling of every layer by itself; raises the first of the problems."""
        if self.problems:
            raise self.problems[0]
        return tuple(one.best for one in self.layers)

    @property
    def problems(self) -> tuple[DoryError, ...]:
        """Why layers cannot be computed: NotSupported first, then DoesNotFit.

        Of the latter, the layer that needs the most bytes is first: a budget that it fits does for
        all of them.
        """
        found = [one.problem for one in self.layers if one.problem is not None]
        return tuple(sorted(found, key=_order))


def tile_graph(
    bound: BoundGraph, tiler: Tiler, l1_bytes: int, progress: Progress | None = None
) -> TiledGraph:
    """Return the network with the tilings of its layers.

    A layer that no kernel computes has its problem in place of tilings: nothing is raised for it
    here.

    Args:
        bound: The network with the kernels of its layers.
        tiler: Tiles one layer.
        l1_bytes: The budget of L1.
        progress: Told which layer is tiled.
    """
    layers = []
    for n, one in enumerate(bound.layers):
        if progress is not None:
            progress("tiling", n, len(bound.layers))
        try:
            best = tiler.tile(one, l1_bytes)
        except (NotSupported, DoesNotFit) as error:
            layers.append(LayerTilings(one.layer, (), error))
            continue
        others = (tiler.with_whole_input(best, l1_bytes), tiler.in_one_tile(best, l1_bytes))
        found = [other for other in others if other is not None]
        if best.schedule.count > 1 and others[1] is None:
            found += tiler.in_rows(best, l1_bytes)
        layers.append(LayerTilings(one.layer, (best, *found)))
    return TiledGraph(bound, tuple(layers))


def in_smaller_tiles(tiled: TiledGraph, tiler: Tiler, sizes: Collection[int]) -> TiledGraph:
    """Return the network with fully connected layers in the best tiles within fewer bytes of L1.

    A layer takes the bytes with which it is fastest by itself. One that has no tiles within them
    keeps its own, and the layer in one tile stays as it is.

    Args:
        tiled: The network with its tilings.
        tiler: Tiles one layer.
        sizes: Numbers of bytes to choose from.
    """
    layers = []
    for one in tiled.layers:
        best, whole = one.best, one.in_one_tile
        if not best.in_place and one.layer.op.reads_vector:
            found = (tiler.smaller(best, size) for size in sizes)
            small = min((o for o in found if o), key=lambda o: o.estimate.cycles, default=best)
            known = () if whole is None or whole.schedule == small.schedule else (whole,)
            one = LayerTilings(one.layer, (small, *known))
        layers.append(one)
    return TiledGraph(tiled.bound, tuple(layers))


def _order(problem: DoryError) -> tuple[bool, float]:
    """Return the key by which problems are sorted."""
    if not isinstance(problem, DoesNotFit):
        return False, 0
    return True, -float("inf") if problem.needed_bytes is None else -problem.needed_bytes


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
    tile, cost, order = tiled.tiling.tile, tiled.estimate, ",".join(tiled.schedule.order.axes)
    count = tiled.schedule.count
    where = "in place, tile" if tiled.in_place else "1 tile" if count == 1 else f"{count} tiles"
    return (
        f"{tiled.kernel.name}: {where} of c_out {tile.c_out}, h {tile.h}, w {tile.w}, "
        f"c_in {tile.c_in}; copies {tiled.schedule.buffering.text}; order {order}; "
        f"{tiled.l1_bytes} B of L1, {cost.cycles} cycles, {cost.dma_cycles} of transfers"
    )
