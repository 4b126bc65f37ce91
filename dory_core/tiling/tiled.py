"""A layer with its kernel and tile: what the tilers return."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from dory_core.errors import DoryError
from dory_core.ir import Layer
from dory_core.kernels.binding import BoundLayer, EngineRejection, KernelRejection
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.kernels.kernel import Kernel, Traits
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import L1Buffer, Schedule, l1_buffers
from dory_core.schedule.tiling import Tiling
from dory_core.schedule.timeline import LayerEstimate


@dataclass(frozen=True, slots=True)
class TiledLayer:
    """A layer, or the largest part of one, with its kernel and tile between two memory levels.

    Attributes:
        layer: The layer or part.
        bound: The kernel, which knows the whole layer.
        tiling: The tile, and why it was chosen.
        schedule: The tile loop.
        estimate: The cycles of the layer or part.
        costs: The costs of the whole layer on the kernel.
        rejections: Candidates that were not taken, and why.
        in_place: True for a layer that is not tiled: the kernel works on tensors and constants
            where they lie (``tiling.in_place``).
        passed_over: Engines of higher preference.
        view: True for a layer in place that computes nothing: its output lies where its inputs do.
    """

    layer: Layer
    bound: BoundKernel
    tiling: Tiling
    schedule: Schedule
    estimate: LayerEstimate
    costs: LayerCosts = field(compare=False, repr=False)
    rejections: tuple[KernelRejection, ...] = ()
    in_place: bool = False
    passed_over: tuple[EngineRejection, ...] = ()
    view: bool = False

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.bound.kernel

    @property
    def traits(self) -> Traits:
        """How the kernel handles the layer."""
        return self.bound.traits

    def explained(self, bound: BoundLayer, rejections: Iterable[KernelRejection]) -> TiledLayer:
        """Return the layer with what is said about candidates that were not taken."""
        said = bound.sorted(rejections)
        return replace(self, rejections=said, passed_over=bound.passed_over(self.kernel, said))

    def buffers(self, whole: Collection[str]) -> tuple[L1Buffer, ...]:
        """Return its buffers in L1. whole: those of x, x2 and y that hold the whole tensor."""
        tile, copies = self.tiling.tile, self.schedule.buffering
        return l1_buffers(self.layer, self.bound, tile, copies, whole)

    def costs_after(self, before: TiledLayer | None) -> LayerCosts:
        """Return the costs where another layer has run right before.

        The code of a kernel that both run is in the instruction cache then.

        Args:
            before: The other layer; None for none.
        """
        if before is None or before.bound.symbol != self.bound.symbol:
            return self.costs
        return self.costs.after(max(1, self.costs.tiles_before))

    def as_view(self) -> TiledLayer:
        """Return the layer as a view, which has no cost."""
        tiling = replace(self.tiling, buffers=())
        free = LayerEstimate(0, 0, 0, 0, 0.0, "compute")
        return replace(self, tiling=tiling, estimate=free, in_place=True, view=True)

    @property
    def l1_bytes(self) -> int:
        """Bytes of L1 that it uses."""
        return self.tiling.used_bytes


@dataclass(frozen=True, slots=True)
class LayerTilings:
    """The tilings of one layer that the planner chooses among.

    Attributes:
        layer: The layer.
        tilings: The best one for the layer by itself; then others where they fit, which let tensors
            be resident in L1: in tiles of the whole input, in one tile, in tiles of whole rows.
            Empty when no kernel computes the layer.
        problem: Why no kernel computes the layer.
    """

    layer: Layer
    tilings: tuple[TiledLayer, ...]
    problem: DoryError | None = None

    @property
    def best(self) -> TiledLayer:
        """The best one for the layer by itself. Raises ``problem``."""
        if not self.tilings:
            assert self.problem is not None
            raise self.problem
        return self.tilings[0]

    @property
    def in_one_tile(self) -> TiledLayer | None:
        """The layer in one tile; None when it does not fit or its kernel does not want it."""
        whole = (one for one in self.tilings if one.schedule.count == 1 and not one.in_place)
        return next(whole, None)
