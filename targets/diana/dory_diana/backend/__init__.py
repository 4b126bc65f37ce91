"""Candidates of a layer: where the engine of each layer is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dory_core.api import Kernel, Layer, TargetContext


def candidates(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the kernels of the engines that were asked for: the arrays, then the host."""
    from dory_diana.backend import host
    from dory_diana.options import engines_of

    found = array_kernels(ctx, layer)
    if host.ENGINE in engines_of(ctx):
        found += host.host_kernels(layer)
    return found


def array_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the kernels of the arrays that were asked for, the analog one first.

    It takes only ternary layers, which were trained for it.
    """
    from dory_core.api import ops
    from dory_diana.backend import analog, digital
    from dory_diana.options import adc_scale, engines_of

    kind, engines = layer.op, engines_of(ctx)
    found: list[Kernel] = []
    if analog.ENGINE in engines:
        linear = isinstance(kind, ops.Linear)
        found.append((analog.AnalogLinear if linear else analog.AnalogConv)(adc_scale(ctx)))
    if digital.ENGINE in engines:
        if isinstance(kind, ops.Linear):
            found.append(digital.DigitalLinear())
        elif isinstance(kind, ops.Add):
            found.append(digital.DigitalSum())
        elif isinstance(kind, ops.Conv) and kind.is_depthwise:
            found.append(digital.DigitalDepthwise())
        else:
            found.append(digital.DigitalConv())
    return found
