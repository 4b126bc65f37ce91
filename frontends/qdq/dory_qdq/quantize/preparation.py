"""Float ONNX made ready for the quantiser: batch of one, opset, folded constants, known shapes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dory_core.api import NotSupported, UsageError
from dory_qdq.quantize.folding import fold_into_gemm
from dory_qdq.quantize.forms import rewrite_forms
from dory_qdq.quantize.group_norms import rewrite_group_norms
from dory_qdq.quantize.recurrent import unroll
from dory_qdq.runtime import quiet_session, reason_of

_QUANTISED = ("QuantizeLinear", "DequantizeLinear", "QLinear", "ConvInteger", "MatMulInteger")
_QUANTISED_DOMAINS = ("qonnx", "brevitas", "finn")
_LEAST_OPSET = 13  # a scale per channel needs DequantizeLinear with an axis
_EXPORT_HINT = "export the trained float network as ONNX"


@dataclass(frozen=True, slots=True, eq=False)
class FloatModel:
    """A model that is ready.

    Attributes:
        proto: An onnx.ModelProto.
        inputs: Shape by name, (1, ...).
    """

    proto: Any
    inputs: Mapping[str, tuple[int, ...]]


def prepare(path: Path) -> FloatModel:
    """Read a float model and make it ready.

    Batch normalisations after a Conv or Gemm are folded into it, GRU, LSTM and RNN are written as
    one cell after the other, group normalisations as instances of groups, and operators that the
    quantiser leaves in reals in forms that it takes; every node has a name.
    Raises: UsageError for a missing
    file, NotSupported for a model that is damaged, quantised already, of dynamic shapes, or
    that onnxruntime does not run.
    """
    proto = _read(path)
    _check_float(path, proto)
    _fix_batch(path, proto)
    proto = _with_opset(path, proto)
    rewrite_group_norms(path.name, proto)
    optimised = _optimised(path, proto)
    shapes = {value.name: _static_shape(path, value) for value in optimised.graph.input}
    return FloatModel(optimised, MappingProxyType(shapes))


def _read(path: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load(str(path))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror or error}", "give the path of the .onnx file"
        ) from error
    except (DecodeError, ValueError, TypeError, onnx.checker.ValidationError) as error:
        raise NotSupported(
            f"{path}: not a valid ONNX model ({reason_of(error)})", _EXPORT_HINT
        ) from error
    graph = proto.graph
    if not graph.node or not graph.output:
        raise NotSupported(f"{path}: not a valid ONNX model: it holds no graph", _EXPORT_HINT)
    texts = [
        text for n in graph.node for text in (n.op_type, n.domain, n.name, *n.input, *n.output)
    ]
    if not all(isinstance(text, str) for text in texts):
        raise NotSupported(f"{path}: not a valid ONNX model: names are damaged", _EXPORT_HINT)
    return proto


def _check_float(path: Path, proto: Any) -> None:
    for node in proto.graph.node:
        if node.op_type.startswith(_QUANTISED) or node.domain.startswith(_QUANTISED_DOMAINS):
            raise NotSupported(
                f"{path.name}: it is quantised already: it holds {node.op_type}"
                f" '{node.name or node.output[0]}'",
                "`dory check` tells who reads it; quantise the float network that it was made from",
            )


def _fix_batch(path: Path, proto: Any) -> None:
    """Set a batch that the file leaves open to 1, at inputs and outputs."""
    import onnx

    _remove_constant_inputs(proto)
    if not proto.graph.input:
        raise NotSupported(f"{path.name}: it has no input", _EXPORT_HINT)
    names = set()
    for value in proto.graph.input:
        tensor = value.type.tensor_type
        if tensor.elem_type != onnx.TensorProto.FLOAT:
            types = onnx.TensorProto.DataType
            known = tensor.elem_type in types.values()
            kind = types.Name(tensor.elem_type) if known else f"type {tensor.elem_type}"
            raise NotSupported(
                f"{path.name}: input '{value.name}' is {kind}, not FLOAT",
                "export a network whose inputs are float32",
            )
        if tensor.shape.dim and not tensor.shape.dim[0].dim_value:
            names.add(tensor.shape.dim[0].dim_param)
            tensor.shape.dim[0].dim_value = 1
        shape = _static_shape(path, value)
        if shape[0] != 1:
            raise NotSupported(
                f"{path.name}: input '{value.name}' has shape {list(shape)}, a batch of {shape[0]}",
                "export the network for a batch of 1",
            )
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param and dim.dim_param in names:
                dim.dim_value = 1


def _remove_constant_inputs(proto: Any) -> None:
    """Remove constants from the inputs, where older exporters list them: only constants fold."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    kept = [value for value in proto.graph.input if value.name not in stored]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)


def _static_shape(path: Path, value: Any) -> tuple[int, ...]:
    dims = value.type.tensor_type.shape.dim
    shape = tuple(dim.dim_value for dim in dims)
    if not shape or min(shape) < 1:
        shown = ", ".join(str(d.dim_value or d.dim_param or "?") for d in dims) or "unknown"
        raise NotSupported(
            f"{path.name}: input '{value.name}' has the dynamic shape [{shown}]",
            "export with a fixed input size; only the batch may be open",
        )
    return shape


def _with_opset(path: Path, proto: Any) -> Any:
    from onnx import shape_inference, version_converter

    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 0)
    if opset >= _LEAST_OPSET:
        return proto
    try:
        return version_converter.convert_version(proto, _LEAST_OPSET)
    except (
        RuntimeError,
        ValueError,
        shape_inference.InferenceError,
        version_converter.ConvertError,
    ) as error:
        raise NotSupported(
            f"{path.name}: opset {opset} cannot be raised to {_LEAST_OPSET} ({reason_of(error)})",
            f"export with opset_version={_LEAST_OPSET} or higher",
        ) from error


def _optimised(path: Path, proto: Any) -> Any:
    """Return the model as onnxruntime simplifies it without fusing activations, with shapes."""
    import onnx
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "simplified.onnx"
        quiet_session(proto, path.name, level="basic", optimised=target)
        simplified = onnx.load(str(target))
    fold_into_gemm(simplified)
    simplified = _with_shapes(path, simplified)
    if unroll(path.name, simplified):
        simplified = _with_shapes(path, simplified)
    rewrite_forms(simplified)
    _name_nodes(simplified)
    add_pre_process_metadata(simplified)
    return simplified


def _name_nodes(proto: Any) -> None:
    """Name nodes that have no name, in place: the quantiser is told by name what stays in reals."""
    taken = {node.name for node in proto.graph.node}
    for node in proto.graph.node:
        if not node.name:
            name = f"{node.op_type}_{node.output[0]}"
            while name in taken:
                name += "_"
            taken.add(name)
            node.name = name


def _with_shapes(path: Path, proto: Any) -> Any:
    """Return a model with the shapes of its values."""
    import onnx

    del proto.graph.value_info[:]
    try:
        return onnx.shape_inference.infer_shapes(proto)
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError) as error:
        raise NotSupported(
            f"{path.name}: its shapes do not fit together ({reason_of(error)})", _EXPORT_HINT
        ) from error
