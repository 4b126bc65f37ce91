"""The call of a layer's kernel with the operands and sizes of a tile."""

from __future__ import annotations

from collections.abc import Mapping

from dory_core.errors import PluginError
from dory_core.kernels.call import names_of
from dory_core.plan import LayerStep
from dory_core.plan.operations import Argument, Call


def checked_call(step: LayerStep, known: Mapping[str, Argument]) -> Call:
    """Return the call of a layer's kernel.

    Args:
        step: The layer.
        known: Operands and sizes of the tile by their names.

    Raises:
        PluginError: The kernel names one that the layer does not have.
    """
    call, layer = step.kernel.call, step.layer.op
    for path, value in call.leaves:
        for name in names_of(value):
            if name not in known:
                raise PluginError(
                    f"{layer.kind} '{layer.name}': kernel {step.kernel.name} gives argument "
                    f"{path!r} {name!r}, which the layer does not have; it has "
                    f"{', '.join(sorted(known))}",
                    "report this to the authors of the kernel; docs/plugins.md says what each "
                    "name is",
                )
    return Call(call, dict(known))
