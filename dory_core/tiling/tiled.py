"""A layer with its kernel and tile: what the tilers return."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.estimate.timeline import LayerEstimate
from dory_core.ir import TypedLayer
from dory_core.kernel import Kernel, Rejection
from dory_core.tiling.problem import Tiling
from dory_core.tiling.schedule import Schedule


@dataclass(frozen=True, slots=True)
class KernelRejection:
    """Why a candidate kernel was not taken.

    engine: of the kernel. other_kind: it computes other kinds of layers.
    """

    kernel: str
    reason: str
    engine: str = ""
    other_kind: bool = False

    @classmethod
    def of(cls, kernel: Kernel, rejection: Rejection | str) -> KernelRejection:
        """Return the record of a kernel that was not taken."""
        if isinstance(rejection, str):
            return cls(kernel.name, rejection, kernel.engine)
        return cls(kernel.name, rejection.reason, kernel.engine, rejection.other_kind)


@dataclass(frozen=True, slots=True)
class TiledLayer:
    """A layer with its kernel, tile and schedule between two memory levels.

    rejections: candidates of higher preference and why they were not taken. in_place: not tiled,
    the kernel works on tensors and constants where they lie (``tiling.whole``).
    """

    layer: TypedLayer
    kernel: Kernel
    tiling: Tiling
    schedule: Schedule
    rejections: tuple[KernelRejection, ...]
    estimate: LayerEstimate
    in_place: bool = False
