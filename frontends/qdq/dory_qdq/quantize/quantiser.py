"""The run of onnxruntime's static quantiser."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from dory_core.api import NotSupported
from dory_qdq.quantize.choices import UINT8, Choices
from dory_qdq.quantize.editor import Editor
from dory_qdq.quantize.norms import axes_of
from dory_qdq.quantize.preparation import FloatModel
from dory_qdq.quantize.samples import Samples
from dory_qdq.runtime import reason_of, runtime_errors, silent

_QUANTISER_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

#: Operators that onnxruntime's quantiser leaves in reals by itself. Where one reads another, no
#: scale would stand between them.
_MORE_OPERATORS = (
    "Abs",
    "Celu",
    "DepthToSpace",
    "Elu",
    "Gelu",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "LpNormalization",
    "Mish",
    "Neg",
    "PRelu",
    "ReduceMean",
    "Selu",
    "SimplifiedLayerNormalization",
    "Softplus",
    "SpaceToDepth",
    "Sub",
    "Tanh",
)

#: Operators that choose or mix elements of the input, which onnxruntime's quantiser gives a scale
#: only where the input has one.
_CHOOSING = ("DepthToSpace", "GlobalMaxPool", "MaxPool", "Pad", "Resize", "Slice", "SpaceToDepth")

#: How ranges follow from samples: names of onnxruntime by ours.
METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}


def quantise(model: FloatModel, samples: Samples, choices: Choices, method: str) -> Any:
    """Return the QDQ model (an onnx.ModelProto) of a float model that is ready.

    method: how ranges follow from the samples, of ``METHODS``. Raises: NotSupported when the
    quantiser gives up.
    """
    import onnx
    from onnxruntime import quantization

    signed = {UINT8: quantization.QuantType.QUInt8}.get(
        choices.activations, quantization.QuantType.QInt8
    )
    proto = onnx.ModelProto()  # the quantiser changes the one that it is given
    proto.CopyFrom(model.proto)
    with tempfile.TemporaryDirectory() as folder, silent():
        target = Path(folder) / "quantised.onnx"
        try:
            quantization.quantize_static(
                proto,
                target,
                _reader(samples),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=choices.per_channel,
                activation_type=signed,
                weight_type=quantization.QuantType.QInt8,
                op_types_to_quantize=quantised_operators(),
                nodes_to_exclude=_norms(proto),
                calibrate_method=quantization.CalibrationMethod[METHODS[method]],
                extra_options={
                    "ActivationSymmetric": choices.symmetric,
                    "WeightSymmetric": True,
                    "ForceQuantizeNoInputCheck": _begins_with_a_choice(proto),
                },
            )
        except (*_QUANTISER_ERRORS, *runtime_errors()) as error:
            raise NotSupported(
                f"onnxruntime's quantiser gave up ({reason_of(error)})",
                "take --method minmax, or another version of onnxruntime",
            ) from error
        return onnx.load(str(target))


def quantised_operators() -> list[str]:
    """Return the operators that are quantised: those that onnxruntime registers, and more."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return sorted({*QLinearOpsRegistry, *QDQRegistry, *_MORE_OPERATORS})


def _begins_with_a_choice(proto: Any) -> bool:
    """Return True when an input of the network goes to one of ``_CHOOSING``."""
    inputs = {value.name for value in proto.graph.input}
    return any(n.op_type in _CHOOSING and n.input[0] in inputs for n in proto.graph.node)


def _norms(proto: Any) -> list[str]:
    """Return the names of nodes of norms that are written out: means, and what they are taken from.

    A mean along one axis belongs to a norm when a difference reads it, or when it is of squares.
    """
    editor = Editor(proto.graph)
    found = []
    for node in proto.graph.node:
        if node.op_type != "ReduceMean" or len(axes_of(editor, node)) != 1:
            continue
        differences = [n for n in editor.readers(node.output[0]) if n.op_type == "Sub"]
        square = editor.maker(node.input[0], "Pow", "Mul")
        if square is not None and square.op_type == "Mul" and len({*square.input}) > 1:
            square = None
        if differences or square is not None:
            found += [one.name for one in (node, *differences)]
    return found


def _reader(samples: Samples) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Hands out the samples, once."""

        def __init__(self) -> None:
            self.feeds = samples.feeds()

        def get_next(self) -> Any:
            return next(self.feeds, None)

    return Reader()
