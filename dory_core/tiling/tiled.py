"""A layer with its kernel and tile: what the tilers return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dory_core.estimate.timeline import LayerEstimate
from dory_core.ir import Layer
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


#: What stands for the empty name of an engine.
CORES = "cores"


@dataclass(frozen=True, slots=True)
class EngineRejection:
    """An engine that was preferred and does not compute a layer, and why, in a sentence."""

    engine: str
    reason: str


def passed_over(
    kernels: Sequence[Kernel], chosen: Kernel | None, rejections: Iterable[KernelRejection]
) -> tuple[EngineRejection, ...]:
    """Return each engine that was asked before the chosen kernel and is not that kernel's.

    kernels: candidates, best first. chosen: None when none computes the layer, and all were asked.
    The reason is that of the first kernel of the engine which computes layers of this kind.
    """
    asked = list(kernels)
    if chosen is not None:
        asked = asked[: [kernel.name for kernel in asked].index(chosen.name)]
    engines = dict.fromkeys(kernel.engine for kernel in asked)
    found = []
    for engine in engines:
        mine = [r for r in rejections if r.engine == engine]
        if mine and (chosen is None or engine != chosen.engine):
            best = next((r for r in mine if not r.other_kind), mine[0])
            found.append(EngineRejection(engine or CORES, best.reason))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class TiledLayer:
    """A layer with its kernel, tile and schedule between two memory levels.

    rejections: candidates of higher preference and why they were not taken. in_place: not tiled,
    the kernel works on tensors and constants where they lie (``tiling.in_place``). passed_over:
    engines of higher preference.
    """

    layer: Layer
    kernel: Kernel
    tiling: Tiling
    schedule: Schedule
    rejections: tuple[KernelRejection, ...]
    estimate: LayerEstimate
    in_place: bool = False
    passed_over: tuple[EngineRejection, ...] = ()
