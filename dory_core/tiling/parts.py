"""The tilings that the planner chooses from, those of parts of layers included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from dory_core.errors import DoesNotFit, NotSupported
from dory_core.ir import Graph
from dory_core.ir.geometry import extent, make_tile
from dory_core.kernels.binding import BoundLayer
from dory_core.kernels.kernel import Traits
from dory_core.tiling.network import TiledGraph
from dory_core.tiling.outer import WHOLE, Split, stripes_of
from dory_core.tiling.part_layers import largest_part
from dory_core.tiling.tiled import LayerTilings, TiledLayer
from dory_core.tiling.tiler import Tiler


class Tilings:
    """The tilings of a network, and a tiler for the parts of layers that the planner asks for.

    Only the planner knows which splits it needs, of thousands. The tile of the whole layer, clipped
    to the part, is no substitute: with it MobileNetV1-1.0-128 in 200 kB of L2 takes 8 % more cycles
    on GAP8, ProxylessNAS 18 %. The tiling of a part depends only on the layer and the split; each
    is made once.
    """

    def __init__(self, tiled: TiledGraph, tiler: Tiler, l1_bytes: int) -> None:
        """Offer the tilings of a network.

        Args:
            tiled: The tilings of whole layers.
            tiler: Makes those of parts.
            l1_bytes: The budget of L1.
        """
        self._tiled = tiled
        self._tiler = tiler
        self._l1_bytes = l1_bytes
        self._parts: dict[tuple[int, ...], TiledLayer] = {}
        self._rough: Tilings | None = None
        self._gain = cache(self._find_gain)

    @property
    def graph(self) -> Graph:
        """The network."""
        return self._tiled.graph

    @property
    def layers(self) -> tuple[LayerTilings, ...]:
        """The tilings of whole layers."""
        return self._tiled.layers

    @property
    def best(self) -> tuple[TiledLayer, ...]:
        """The best tiling of every layer by itself; raises the problem of the first without any."""
        return self._tiled.best

    def part(self, n: int, split: Split) -> TiledLayer:
        """Return the tiling of the largest part of the n-th layer.

        Its kernel is one of the whole layer that has tensors and constants where and as the best
        tiling of the whole layer has them.

        Args:
            n: Number of the layer.
            split: How the layer is cut.

        Raises:
            NotSupported: No kernel computes the part.
            DoesNotFit: No tile of it fits.
        """
        best = self.layers[n].best
        if split_is_whole(split):
            return best
        key = self._key(n, split)
        if key not in self._parts:
            before = 0 if split.takes_turns else split.stripes * split.groups - 1
            found = self._tiler.tile(self._bound_part(n, split), self._l1_bytes, before)
            self._parts[key] = replace(found, costs=best.costs.on(found.bound))
        return self._parts[key]

    @property
    def rough(self) -> Tilings:
        """The same tilings of whole layers, with those of parts that take less time to find."""
        if self._rough is None:
            quick = self._tiler.quick
            same = quick is self._tiler
            self._rough = self if same else Tilings(self._tiled, quick, self._l1_bytes)
        return self._rough

    def rough_cycles(self, n: int, split: Split) -> float:
        """Return about the cycles of the largest part of the n-th layer.

        Tiles that take less time to find are as much slower in the part as in the whole layer.
        Arguments and errors are those of :meth:`part`.
        """
        cycles = self.rough.part(n, split).estimate.cycles
        return cycles * (1.0 if self.rough is self else self._gain(n))

    def lighter(self, numbers: Iterable[int]) -> Tilings | None:
        """Return the tilings with some layers on kernels that store them in fewer constants.

        Args:
            numbers: Of the layers.

        Returns:
            None where no layer has such a kernel.
        """
        found = {n: one for n in numbers if (one := self._lighter(n)) is not None}
        if not found:
            return None
        layers = [
            LayerTilings(one.layer, (found[n],)) if n in found else one
            for n, one in enumerate(self.layers)
        ]
        return Tilings(TiledGraph(self._tiled.bound, tuple(layers)), self._tiler, self._l1_bytes)

    def _lighter(self, n: int) -> TiledLayer | None:
        """Return a layer on the best kernel with the fewest constants; None where it has them."""
        bound, best = self._bound_part(n, WHOLE), self.layers[n].best
        full = extent(bound.layer)
        tile = make_tile(bound.layer, full.c_out, full.h, full.w)
        least = min(int(one.weight_bytes(tile)) for one in bound.kernels)
        if least >= int(best.bound.weight_bytes(tile)):
            return None
        light = tuple(one for one in bound.kernels if int(one.weight_bytes(tile)) == least)
        try:
            return self._tiler.tile(replace(bound, kernels=light), self._l1_bytes)
        except (NotSupported, DoesNotFit):
            return None

    def _find_gain(self, n: int) -> float:
        """Return the cycles of a layer by those in tiles that take less time to find."""
        found = self._tiler.quick.tile(self._bound_part(n, WHOLE), self._l1_bytes)
        return self.layers[n].best.estimate.cycles / max(1, found.estimate.cycles)

    def _key(self, n: int, split: Split) -> tuple[int, ...]:
        """Return the sizes on which the tiling of the largest part of a layer depends."""
        if not split.starts:
            return (n, split.stripes, split.groups, 0, 0)
        stripes = stripes_of(self._tiled.bound.layers[n].layer, split)
        return (n, 0, split.groups, max(s.size for s in stripes), max(s.x_size for s in stripes))

    def _bound_part(self, n: int, split: Split) -> BoundLayer:
        """Return the largest part of a layer on the kernels that may compute it."""
        bound, wanted = self._tiled.bound.layers[n], _places(self.layers[n].best.traits)
        kernels = [k for k in bound.kernels if _places(k.traits) == wanted]
        return bound.part(largest_part(bound.layer, split), kernels)


def _places(traits: Traits) -> tuple[object, ...]:
    """Return where and in which layouts a kernel has tensors and constants."""
    return (traits.inputs, traits.output, traits.in_place, traits.fetches)


def split_is_whole(split: Split) -> bool:
    """Return True when a split leaves a layer in one part."""
    return (split.stripes, split.groups) == (WHOLE.stripes, WHOLE.groups)
