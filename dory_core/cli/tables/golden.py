"""The report of goldens, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dory_core.quoting import visible, visible_document

#: Most layers that a line names.
_MOST = 6


def golden_lines(document: Mapping[str, Any], layers: Mapping[int, str]) -> list[str]:
    """Return the lines about goldens: one for all layers, one for each that is a step away.

    Args:
        document: A :class:`dory_core.golden.layers.GoldenReport` as JSON.
        layers: Names of the network's layers by index.
    """
    document = visible_document(document)
    found = document["layers"]
    apart = [layer for layer in found if layer["apart"]]
    exact = len(found) - len(apart)
    every = len(layers.keys() | {layer["index"] for layer in found})  # joined layers as well
    count = f"all {every}" if exact == every else f"{exact} of {every}"
    lines = [f"golden: {count} layers are exact{_absent(found, layers)}"]
    for layer in apart:
        lines.append(
            f"golden: layer {layer['index']:02d} '{layer['name']}': {layer['apart']} of"
            f" {layer['elements']} elements are one step from {document['reference']}, which"
            " computes it in real numbers"
        )
    return lines


def _absent(found: Sequence[Mapping[str, Any]], layers: Mapping[int, str]) -> str:
    """Return a text about the layers that a golden does not have."""
    absent = sorted(layers.keys() - {layer["index"] for layer in found})
    if not absent:
        return ""
    names = ", ".join(f"{index:02d} '{visible(layers[index])}'" for index in absent[:_MOST])
    more = f" and {len(absent) - _MOST} more" if len(absent) > _MOST else ""
    return f"; the golden has no values of {len(absent)}: {names}{more}"
