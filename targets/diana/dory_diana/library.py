"""The header of the form without main: what each layer's function reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import OutputFile
from dory_core.tools import quoting

if TYPE_CHECKING:
    from dory_core.api import Application, ApplicationLayer, Place

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


def library_header(app: Application) -> OutputFile:
    """Return the header; it includes every other one that the layers' users need."""
    layers = "\n".join(_layer(layer) for layer in app.layers)
    text = _TEXT.format(network=app.title, layers=layers)
    return OutputFile(f"inc/{HEADER}", text)


def _layer(layer: ApplicationLayer) -> str:
    lines = [f"/* {layer.title}: {layer.kind} on the {layer.engine or 'host'}."]
    lines += [f" *   reads {_place(place)}" for place in layer.inputs]
    lines.append(f" *   writes {_place(layer.output)}")
    if layer.row is not None:
        lines.append(f" *   called with row {layer.row}")
    lines[-1] += " */"
    lines.append(layer.declaration)
    return "\n".join(lines) + "\n"


def _place(place: Place) -> str:
    tensor = place.tensor
    size = "x".join(str(n) for n in tensor.shape)
    name, layout = quoting.c_comment(tensor.name), quoting.c_comment(place.layout.name)
    return (
        f"{name}: {tensor.type_name} {size}, layout {layout}, "
        f"{place.size_bytes} bytes at {place.offset}"
    )
