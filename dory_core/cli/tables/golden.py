"""What goldens said of an import, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_core.quoting import visible_document


def golden_lines(document: Mapping[str, Any], layers: int) -> list[str]:
    """Return the lines about goldens: one for all layers, one for each that is a step away.

    document: a :class:`dory_core.golden.GoldenReport` as JSON. layers: of the network.
    """
    document = visible_document(document)
    found = document["layers"]
    apart = [layer for layer in found if layer["apart"]]
    exact = len(found) - len(apart)
    count = f"all {layers}" if exact == layers else f"{exact} of {layers}"
    absent = layers - len(found)
    rest = f"; {absent} have no integers in the golden" if absent else ""
    lines = [f"golden: {count} layers are exact{rest}"]
    for layer in apart:
        lines.append(
            f"golden: layer {layer['index']:02d} '{layer['name']}': {layer['apart']} of"
            f" {layer['elements']} elements are one step from {document['reference']}, which"
            " computes it in real numbers"
        )
    return lines
