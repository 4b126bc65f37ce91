"""Are the weights of a file integers, or those of a float network?"""

from __future__ import annotations

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
    found = _float_weights(model)
    if found is not None:
        node, fraction = found
        raise NotSupported(
            f"{model.path.name}: the network is not quantised: weight tensor"
            f" '{node.input(1)}' of {node.label} holds {fraction:g}",
            FLOAT_HINT,
        )


def is_float(path: Path) -> bool:
    """Return whether an ONNX file has the weights of a float network.

    It is for ``Frontend.recognises``. False when the file cannot be read.
    """
    found: list[bool] = []
    if path.suffix.lower() == ".onnx":
        with suppress(DoryError):
            load(path, lambda model: found.append(_float_weights(model) is not None))
    return any(found)


def _float_weights(model: OnnxModel) -> tuple[Node, float] | None:
    """Return the first layer most of whose weights are fractions, and one of these."""
    for node in model.nodes:
        content = model.constant(node.input(1)) if node.op in _WEIGHTED else None
        if content is None or content.dtype.kind != "f" or not content.size:
            continue
        fractions = content[np.isfinite(content) & (np.rint(content) != content)]
        if 2 * fractions.size > content.size:
            return node, float(fractions[0])
    return None
