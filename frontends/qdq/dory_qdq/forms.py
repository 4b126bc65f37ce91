"""Which files are read here: the others are told who reads them."""

from __future__ import annotations

import numpy as np
from dory_onnx import OnnxModel

from dory_core.api import NotSupported
from dory_qdq.call import QUANTISE_HINT

#: Versions of the standard operators that are read.
OPSETS = range(10, 26)
_DOMAINS = frozenset(["", "ai.onnx", "com.microsoft"])
_DEEPLOY = "RequantShift"
_DYNAMIC = ("DynamicQuantize", "ConvInteger", "MatMulInteger")


def check_form(model: OnnxModel) -> None:
    """Raise NotSupported unless a file holds quantised operators of known versions."""
    name = model.path.name
    ops = [node.op for node in model.nodes]
    if any(_DEEPLOY in op for op in ops):
        raise NotSupported(
            f"{name}: it is a network of Deeploy ({_DEEPLOY})",
            "dory-deeploy reads it (--frontend deeploy)",
        )
    dynamic = next(
        (node for node in model.nodes if node.op.rpartition(".")[2].startswith(_DYNAMIC)), None
    )
    if dynamic is not None:
        raise NotSupported(
            f"{dynamic.label}: scales are computed while the network runs",
            "quantise it statically, with calibration data",
        )
    unknown = next((node for node in model.nodes if _domain(node.op) not in _DOMAINS), None)
    if unknown is not None:
        raise NotSupported(
            f"{unknown.label}: the domain '{_domain(unknown.op)}' is unknown",
            "export the network with standard operators, such as QuantizeLinear",
        )
    if not any("QuantizeLinear" in op or "QLinear" in op or "QGemm" in op for op in ops):
        raise _not_quantised(model)
    opset = opset_of(model)
    if opset is not None and opset not in OPSETS:
        raise NotSupported(
            f"{name}: opset {opset} is unknown; {OPSETS[0]} to {OPSETS[-1]} are known",
            "export the network with opset 17",
        )


def opset_of(model: OnnxModel) -> int | None:
    """Return the version of a file's standard operators, None where it names none."""
    return model.opsets.get("", model.opsets.get("ai.onnx"))


def _domain(op: str) -> str:
    return op.rpartition(".")[0]


def _not_quantised(model: OnnxModel) -> NotSupported:
    """Return the refusal of a network without QuantizeLinear."""
    name = model.path.name
    for node in model.nodes:
        content = model.constant(node.input(1)) if node.op in ("Conv", "Gemm", "MatMul") else None
        if content is None or content.dtype.kind not in "fiu" or not content.size:
            continue
        if bool((np.rint(content) == content).all()):
            return NotSupported(
                f"{name}: it holds no QuantizeLinear, but integer weights ('{node.input(1)}')",
                "dory-nemo or dory-quantlab reads it (--frontend nemo, --frontend quantlab)",
            )
        return NotSupported(
            f"{name}: the network is not quantised: '{node.input(1)}' of {node.label} holds reals,"
            " and there is no QuantizeLinear",
            "`dory quantize` makes an 8-bit network of it, with samples (--calibration DATA.npz);"
            " of a network that a quantiser trained, export the integers, not the reals",
        )
    return NotSupported(f"{name}: it holds no QuantizeLinear", QUANTISE_HINT)
