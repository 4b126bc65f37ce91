"""The header of the form without main: what each layer's function reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import OutputFile, comment, layer_parameters, layer_symbol

if TYPE_CHECKING:
    from dory_core.api import LayerStep, Place, Plan

HEADER = "dory_diana_layers.h"

_TEXT = """\
/* The layers of {network} as functions, for a runtime of your own.
 *
 * Each function computes its layer between tensors in L2 at fixed offsets from its argument l2,
 * which has DORY_L2_SIZE bytes and starts on a multiple of DORY_ARENA_ALIGN. l1 is
 * dory_diana_l1_arena(). Where a layer reads a layout that the layer before did not write, the
 * caller converts it with dory_convert_layout, as src/network.c does: dory_network_run calls the
 * functions in this order with all conversions between them, and is all that is needed to run the
 * whole network.
 *
 * Define dory_diana_fault, and link the driver library of the board. */
#ifndef DORY_DIANA_LAYERS_H
#define DORY_DIANA_LAYERS_H

#include "dory_diana_driver.h"
#include "dory_diana_hal.h"
#include "dory_hal.h"
#include "network.h"

{layers}
#endif
"""


def library_header(plan: Plan) -> OutputFile:
    """Return the header; it includes every other one that the layers' users need."""
    layers = "\n".join(_layer(step) for step in plan.steps)
    text = _TEXT.format(network=comment(plan.network), layers=layers)
    return OutputFile(f"inc/{HEADER}", text)


def _layer(step: LayerStep) -> str:
    engine = step.kernel.engine or "host"
    lines = [f"/* {comment(step.layer.op.name)}: {step.layer.op.kind} on the {engine}."]
    lines += [f" *   reads {_place(t.place)}" for t in step.inputs]
    lines += [f" *   writes {_place(step.output.place)} */"]
    lines.append(f"void {layer_symbol(step)}({layer_parameters(step)});")
    return "\n".join(lines) + "\n"


def _place(place: Place) -> str:
    tensor = place.tensor
    size = "x".join(str(n) for n in tensor.shape)
    return (
        f"{tensor.name}: {tensor.type_name} {size}, layout {place.layout.name}, "
        f"{place.size_bytes} bytes at {place.offset}"
    )
