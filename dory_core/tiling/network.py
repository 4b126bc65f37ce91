"""Tiling of the layers of a network between L2 and L1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dory_core.hardware import TargetContext
from dory_core.ir import Graph, Layer
from dory_core.kernel import Kernel, Term, rejection_of
from dory_core.plugins import Plugins
from dory_core.tiling.geometry import Tile
from dory_core.tiling.in_place import tile_whole
from dory_core.tiling.outer import WHOLE, Split, largest_part
from dory_core.tiling.tiled import KernelRejection, TiledLayer, passed_over
from dory_core.tiling.tiler import Tiler

Progress = Callable[[str, int, int], None]


class NetworkTiler:
    """Tiles the layers of one network for one target, whole or in parts; each part once."""

    def __init__(
        self,
        graph: Graph,
        ctx: TargetContext,
        l1_bytes: int,
        plugins: Plugins,
        objective: str = "heuristic",
        progress: Progress | None = None,
    ) -> None:
        def terms(layer: Layer, kernel: Kernel, tile: Tile) -> Sequence[Term]:
            return plugins.objective_terms(ctx, layer, kernel, tile)

        self.graph = graph
        self._layers = graph.layers
        self._kernels = [plugins.kernels(ctx, layer) for layer in self._layers]
        self._l1_bytes = l1_bytes
        self._hierarchy = ctx.memory
        self._tiler = Tiler(ctx.memory, terms, objective)
        self._progress = progress
        self._known: dict[tuple[int, int, int], TiledLayer] = {}

    def kernels(self, n: int) -> tuple[Kernel, ...]:
        """Return the candidate kernels of the n-th layer."""
        return self._kernels[n]

    def tile(self, n: int, split: Split = WHOLE) -> TiledLayer:
        """Return the n-th layer, or its largest part, with kernel, tile and schedule.

        Raises: NotSupported or DoesNotFit when no kernel computes it.
        """
        key = (n, split.stripes, split.groups)
        if key not in self._known:
            self._known[key] = self._tile_part(n, split)
        return self._known[key]

    def _tile_part(self, n: int, split: Split) -> TiledLayer:
        """Return the largest part on a kernel that accepts the whole layer as well."""
        tiled = self._on_best_kernel(n, split)
        engines = passed_over(self._kernels[n], tiled.kernel, tiled.rejections)
        return replace(tiled, passed_over=engines)

    def _on_best_kernel(self, n: int, split: Split) -> TiledLayer:
        layer = self._layers[n]
        if self._hierarchy.in_place:
            return tile_whole(layer, self._kernels[n], self._l1_bytes, self._hierarchy)
        answers = [(kernel, rejection_of(kernel, layer)) for kernel in self._kernels[n]]
        accepting = [kernel for kernel, rejection in answers if rejection is None]
        tiled = self._tiler.tile(
            largest_part(layer, split), accepting or self._kernels[n], self._l1_bytes
        )
        others = [KernelRejection.of(k, r) for k, r in answers if r is not None]
        if not accepting or not others:
            return tiled
        order = [kernel.name for kernel in self._kernels[n]]
        rejections = sorted((*others, *tiled.rejections), key=lambda r: order.index(r.kernel))
        return replace(tiled, rejections=tuple(rejections))

    def in_one_tile(self, n: int) -> TiledLayer | None:
        """Return the n-th layer in one tile on its kernel; None when that cannot be."""
        tiled = self.tile(n)
        if tiled.in_place:
            return None
        whole = self._tiler.in_one_tile(tiled.layer, tiled.kernel, self._l1_bytes)
        if whole is None:
            return None
        return replace(whole, rejections=tiled.rejections, passed_over=tiled.passed_over)

    def tile_all(self) -> tuple[TiledLayer, ...]:
        """Return every whole layer, in the order of the layers; raises for the first that fails."""
        tiled = []
        for n in range(len(self._layers)):
            if self._progress is not None:
                self._progress("tiling", n, len(self._layers))
            tiled.append(self.tile(n))
        return tuple(tiled)
