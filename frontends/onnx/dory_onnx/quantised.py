"""Are the weights of a file integers, or those of a float network?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from dory_core.api import DoryError, NotSupported
from dory_onnx.marks import FLOAT_HINT
from dory_onnx.model import Node, OnnxModel, load

_WEIGHTED = ("Conv", "Gemm", "MatMul")


def check_quantised(model: OnnxModel) -> None:
    """Raise NotSupported, naming the layer and its tensor, when the weights are those of floats.

    A single fraction among integers is an error of that weight, and is told later.
    """
    for node, fraction in _fractions(model):
        if fraction is not None:
            raise NotSupported(
                f"{model.path.name}: the network is not quantised: weight tensor"
                f" '{node.input(1)}' of {node.label} holds {fraction:g}",
                FLOAT_HINT,
            )


def is_float(path: Path) -> bool:
    """Return True when an ONNX file is a float network, by the weights of its first layer.

    It is for ``Frontend.recognises``. False when the file cannot be read.
    """
    found: list[bool] = []

    def look(model: OnnxModel) -> None:
        _, fraction = next(_fractions(model), (None, None))
        found.append(fraction is not None)

    if path.suffix.lower() == ".onnx":
        with suppress(DoryError):
            load(path, look)
    return any(found)


def _fractions(model: OnnxModel) -> Iterator[tuple[Node, float | None]]:
    """Yield the layers with weights in float types, and a fraction where most weights are some."""
    for node in model.nodes:
        content = model.constant(node.input(1)) if node.op in _WEIGHTED else None
        if content is None or content.dtype.kind != "f" or not content.size:
            continue
        finite = content[np.isfinite(content)]
        fractions = finite[np.rint(finite) != finite]
        yield node, float(fractions[0]) if 2 * fractions.size > content.size else None
