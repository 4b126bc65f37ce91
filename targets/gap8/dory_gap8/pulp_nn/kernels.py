"""The library's functions that may compute a layer."""

from __future__ import annotations

from dory_core.api import Kernel, Layer, ops
from dory_gap8.pulp_nn.library import Library
from dory_gap8.pulp_nn.unweighted import UpstreamAdd, UpstreamAvgPool, UpstreamMaxPool
from dory_gap8.pulp_nn.upstream import UpstreamKernel
from dory_gap8.pulp_nn.weighted import (
    UpstreamConv,
    UpstreamDepthwise,
    UpstreamLinear,
    UpstreamLinear32,
    UpstreamPointwise,
)


def pulp_nn_kernels(library: Library, layer: Layer, cores: int) -> list[Kernel]:
    """Return the library's kernels for the kind of ``layer``, best first."""
    kind = layer.op
    families: tuple[type[UpstreamKernel], ...]
    if isinstance(kind, ops.Conv):
        families = (UpstreamPointwise, UpstreamConv, UpstreamDepthwise)
    elif isinstance(kind, ops.Linear):
        families = (UpstreamLinear, UpstreamLinear32)
    elif isinstance(kind, ops.Add):
        families = (UpstreamAdd,)
    else:
        families = (UpstreamAvgPool, UpstreamMaxPool)
    return [family(library, cores) for family in families]
