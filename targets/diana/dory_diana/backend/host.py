"""The host: portable C on tensors in L2 where they lie; it does not reach L1."""

from __future__ import annotations

from dory_core.api import Kernel, Layer, portable_kernels

ENGINE = "host"


def host_kernels(layer: Layer) -> list[Kernel]:
    """Return the kernel for the kind of a layer."""
    kernels = portable_kernels(1, in_place=True, engine=ENGINE)
    reasons = [kernel.accepts(layer) for kernel in kernels]
    return [k for k, r in zip(kernels, reasons, strict=True) if r is None or not r.other_kind]
