"""A read-only view of an ONNX file: nodes, who produces and reads a value, constants and shapes.

This module knows the file format only. What the nodes mean as integer layers is decided in
``onnx_import``. ``onnx`` is imported when a file is loaded, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, UsageError
from dory_core.tools import quoting

_EXTERNAL_HINT = "put the file with the external data beside the network, or save it as one file"
EXPORT_HINT = "export the integer network from the quantiser again, as a static ONNX file"


@dataclass(frozen=True, slots=True)
class Node:
    """One ONNX node. Absent optional inputs are empty strings; attributes are Python values."""

    position: int
    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(compare=False)

    @property
    def title(self) -> str:
        """Name of the node, or of its first output when the exporter gave none."""
        return self.name or (self.outputs[0] if self.outputs else f"#{self.position}")

    @property
    def label(self) -> str:
        """Operator and name in one line, as every message starts: ``Conv 'stem'``."""
        return f"{self.op} '{quoting.visible(self.title)}'"

    def input(self, position: int) -> str:
        """Return the name of an input value; empty when it is absent."""
        return self.inputs[position] if position < len(self.inputs) else ""


@dataclass(frozen=True)
class OnnxModel:
    """Nodes in file order (unused ones removed), inputs with static shapes, outputs, constants.

    Attributes:
        inputs: Shape by name of each network input, initialisers excluded.
        opsets: Version by domain.
        unused: Nodes that no output depends on, which other readers of the file may count.
    """

    path: Path
    nodes: tuple[Node, ...]
    inputs: Mapping[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    _stored: Mapping[str, Any]
    _constants: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    unused: tuple[Node, ...] = ()
    _readers: dict[str, list[Node]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                self._readers.setdefault(value, []).append(node)

    def is_constant(self, value: str) -> bool:
        """True for an initialiser, a Constant node or a value computed from such ones."""
        return value in self._constants or value in self._stored

    def constant(self, value: str) -> npt.NDArray[Any] | None:
        """Return the content of a constant, or None when ``value`` is not one.

        Raises: NotSupported when the file does not hold what it says.
        """
        if value not in self._constants and value in self._stored:
            from onnx import numpy_helper

            try:
                self._constants[value] = numpy_helper.to_array(self._stored[value])
            except (TypeError, ValueError, KeyError) as error:
                raise NotSupported(
                    f"{self.path}: constant '{value}' is damaged ({error})", EXPORT_HINT
                ) from error
        return self._constants.get(value)

    def define_constant(self, value: str, content: npt.NDArray[Any]) -> None:
        """Record a value that constant folding computed."""
        self._constants[value] = content

    def readers(self, value: str) -> tuple[Node, ...]:
        """Return the nodes that read ``value`` as data, each once.

        A node whose results are all constants (Shape of a static tensor) reads no data.
        """
        nodes = self._readers.get(value, ())
        return tuple(n for n in nodes if not all(self.is_constant(o) for o in n.outputs))


def whole_numbers(content: Any) -> tuple[int, ...] | None:
    """Return the numbers of a constant or attribute; None where these are no integers."""
    values = np.reshape(content, -1)
    if values.size and values.dtype.kind not in "iu":
        return None
    return tuple(int(v) for v in values)


def load(path: Path, check: Callable[[OnnxModel], None] | None = None) -> OnnxModel:
    """Read an ONNX file.

    check: raises for what is more to the point than shapes that are open; the model that it is
    given has no inputs yet. Raises: UsageError when there is no such file, NotSupported when it is
    not a valid ONNX model or has dynamic shapes.
    """
    path = Path(path)
    graph, opsets = _read(path)
    stored: dict[str, Any] = {}
    for tensor in graph.initializer:
        _store(path, stored, tensor.name, tensor)
    nodes = [_node(path, position, proto, stored) for position, proto in enumerate(graph.node)]
    outputs = tuple(o.name for o in graph.output)
    used = _used(nodes, outputs)
    _check_order(path, used, stored, {i.name for i in graph.input})
    read = {name for node in used for name in node.inputs} | set(outputs)
    constants = {
        node.outputs[0]: np.asarray(node.attributes[key])
        for node in used
        if node.op == "Constant"
        for key in ("value_int", "value_ints", "value_float", "value_floats")
        if key in node.attributes
    }
    versions = MappingProxyType(opsets)
    if check is not None:
        check(OnnxModel(path, used, {}, outputs, stored, constants, versions))
    inputs = {
        i.name: _static_shape(path, i)
        for i in graph.input
        if i.name not in stored and i.name in read
    }
    kept = {node.position for node in used}
    unused = tuple(node for node in nodes if node.position not in kept)
    shapes = MappingProxyType(inputs)
    return OnnxModel(path, used, shapes, outputs, stored, constants, versions, unused)


def _read(path: Path) -> tuple[Any, dict[str, int]]:
    """Return the GraphProto of a file and its opsets by domain. Raises like :func:`load`."""
    if not path.is_file():
        what = "is a directory, not an ONNX file" if path.is_dir() else "does not exist"
        raise UsageError(f"{path}: {what}", "give the path of the .onnx file")
    if path.stat().st_size == 0:
        raise NotSupported(f"{path}: the file is empty", EXPORT_HINT)
    import onnx

    try:
        model = onnx.load(str(path))
    except (MemoryError, KeyboardInterrupt):
        raise
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror or error}", "give a file that you may read"
        ) from error
    except Exception as error:  # protobuf and onnx have several unrelated error types
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = _EXTERNAL_HINT if "should be stored in" in reason else EXPORT_HINT
        raise NotSupported(
            f"{path}: not a valid ONNX model, or truncated ({reason})", hint
        ) from error
    if not model.HasField("graph") or not model.graph.node or not model.graph.output:
        raise _invalid(path, "it holds no graph")
    return model.graph, {opset.domain: opset.version for opset in model.opset_import}


def _invalid(path: Path, reason: str) -> NotSupported:
    text = f"{path}: not a valid ONNX model: {quoting.visible(reason)}"
    return NotSupported(text, EXPORT_HINT)


def _node(path: Path, position: int, proto: Any, stored: dict[str, Any]) -> Node:
    """Return a node; a tensor that it holds as a constant is recorded in ``stored``."""
    from onnx import TensorProto

    texts = (proto.op_type, proto.name, *proto.input, *proto.output)
    if not all(isinstance(text, str) for text in texts) or not proto.output:
        raise _invalid(path, f"node {position} is damaged")
    attributes = {quoting.visible(str(a.name)): _attribute(path, proto, a) for a in proto.attribute}
    node = Node(
        position,
        _operator(proto),
        proto.name,
        tuple(proto.input),
        tuple(proto.output),
        MappingProxyType(attributes),
    )
    if node.op == "Constant" and isinstance(attributes.get("value"), TensorProto):
        _store(path, stored, node.outputs[0], attributes["value"])
    return node


def _store(path: Path, stored: dict[str, Any], name: str, tensor: Any) -> None:
    """Record a stored constant; NotSupported when another one has its name."""
    if name in stored:
        raise _invalid(path, f"it holds two constants of the name '{name}'")
    stored[name] = tensor


def _operator(proto: Any) -> str:
    """Return the operator of a node, with its domain in front unless that is the standard."""
    standard = proto.domain in ("", "ai.onnx")
    name = str(proto.op_type) if standard else f"{proto.domain}.{proto.op_type}"
    return quoting.visible(name)


_INTEGER_LISTS = frozenset(["axes", "dilations", "kernel_shape", "pads", "perm", "strides"])
_INTEGERS = frozenset(
    ["axis", "ceil_mode", "count_include_pad", "group", "storage_order", "to", "transA", "transB"]
)
_FLOATS = frozenset(["alpha", "beta", "max", "min"])


def _attribute(path: Path, node: Any, proto: Any) -> Any:
    """Return the value of an attribute: text as str, lists as tuples."""
    import onnx

    kinds = onnx.AttributeProto
    known = ((_INTEGER_LISTS, kinds.INTS), (_INTEGERS, kinds.INT), (_FLOATS, kinds.FLOAT))
    expected = next((kind for names, kind in known if proto.name in names), proto.type)
    try:
        value = onnx.helper.get_attribute_value(proto)
    except ValueError:
        value = None
    if value is None or proto.type != expected:
        raise NotSupported(
            f"{path}: {node.op_type} '{node.name or node.output[0]}': attribute '{proto.name}' has"
            " the wrong type",
            EXPORT_HINT,
        )
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    is_list = proto.type in (kinds.INTS, kinds.FLOATS, kinds.STRINGS)
    return tuple(value) if is_list else value


def _used(nodes: list[Node], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """Return the nodes that an output depends on, in file order."""
    wanted = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(filter(None, node.inputs))
    return tuple(reversed(kept))


def _check_order(
    path: Path, nodes: tuple[Node, ...], stored: Mapping[str, Any], inputs: set[str]
) -> None:
    known = {"", *stored, *inputs}
    for node in nodes:
        for value in node.inputs:
            if value not in known:
                raise _invalid(
                    path, f"{node.label} reads value '{value}', which no node before it produces"
                )
        for value in node.outputs:
            if value and value in known and node.op != "Constant":
                raise _invalid(path, f"{node.label} produces value '{value}', which exists already")
        known.update(node.outputs)


def _static_shape(path: Path, value: Any) -> tuple[int, ...]:
    tensor = value.type.tensor_type
    dims = [(d.dim_value if d.HasField("dim_value") else d.dim_param) for d in tensor.shape.dim]
    if not dims or any(not isinstance(d, int) or d <= 0 for d in dims):
        shown = ", ".join(str(d) if d else "?" for d in dims) or "unknown"
        raise NotSupported(
            f"input '{value.name}' of {path.name} has the dynamic shape [{shown}]: sizes must be"
            " known to place tiles in memory",
            "export with a fixed input size and batch 1 (no dynamic_axes)",
        )
    return tuple(dims)
