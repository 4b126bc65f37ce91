"""Tiling of a whole network between L2 and L1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dory_core.hardware import TargetContext
from dory_core.ir import Graph, TypedLayer
from dory_core.kernel import Kernel, Term
from dory_core.plugins import Plugins
from dory_core.tiling.geometry import Tile
from dory_core.tiling.tiler import TiledLayer, Tiler


def network_tiler(ctx: TargetContext, plugins: Plugins, objective: str = "heuristic") -> Tiler:
    """Return the Tiler for a target with the objective terms of its plugins."""

    def terms(layer: TypedLayer, kernel: Kernel, tile: Tile) -> Sequence[Term]:
        return plugins.objective_terms(ctx, layer, kernel, 1, tile)

    return Tiler(ctx.memory, terms, objective)


def tile_network(
    graph: Graph,
    ctx: TargetContext,
    l1_bytes: int,
    plugins: Plugins,
    objective: str = "heuristic",
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[TiledLayer, ...]:
    """Return every layer of ``graph`` with kernel, tile and schedule, in the order of its layers.

    Raises: NotSupported or DoesNotFit for the first layer that no kernel computes.
    """
    tiler = network_tiler(ctx, plugins, objective)
    tiled = []
    for position, layer in enumerate(graph.typed_layers):
        if progress is not None:
            progress("tiling", position, len(graph.layers))
        tiled.append(tiler.tile(layer, plugins.kernels(ctx, layer), l1_bytes))
    return tuple(tiled)
