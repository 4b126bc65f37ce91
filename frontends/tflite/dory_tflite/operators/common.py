"""Constraints that several operators share."""

from __future__ import annotations

from dory_tflite.model import ELEMENT_TYPES, FileTensor
from dory_tflite.node import ACTIVATIONS, BYTES, CONVERT, Constraint, Node, roles

_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def byte_tensors(inputs: int | None = 1) -> Constraint:
    """Inputs and outputs of 8 bits. inputs: how many, None for all."""

    def holds(node: Node) -> bool:
        tensors = (*node.inputs[:inputs], *node.outputs)
        return bool(node.outputs) and all(tensor.type in BYTES for tensor in tensors)

    def found(node: Node) -> str:
        wrong = [(role, t) for role, t in roles(node) if t.type not in BYTES]
        data = {id(t) for t in (*node.inputs[:inputs], *node.outputs)}
        return ", ".join(f"{role} is {t.type}" for role, t in wrong if id(t) in data)

    return Constraint("input and output are INT8 or UINT8", holds, CONVERT, found)


def activations(inputs: int | None = 1) -> Constraint:
    """Inputs and outputs of 8 or of 16 bits. inputs: how many, None for all."""

    def fits(tensor: FileTensor) -> bool:
        return tensor.type in BYTES or (tensor.type == "INT16" and not any(tensor.zero_points))

    def holds(node: Node) -> bool:
        tensors = (*node.inputs[:inputs], *node.outputs)
        return bool(node.outputs) and all(fits(tensor) for tensor in tensors)

    def found(node: Node) -> str:
        data = {id(t) for t in (*node.inputs[:inputs], *node.outputs)}
        wrong = [(role, t) for role, t in roles(node) if id(t) in data and not fits(t)]
        zeros = {
            id(t): f" with zero point {max(t.zero_points)}" for _, t in wrong if any(t.zero_points)
        }
        return ", ".join(f"{role} is {t.type}{zeros.get(id(t), '')}" for role, t in wrong)

    return Constraint(
        "input and output are INT8 or UINT8, or INT16 with the zero point 0",
        holds,
        CONVERT,
        found,
    )


def _same_type(node: Node) -> bool:
    return len({tensor.type for tensor in (node.input(), *node.outputs)}) == 1


def _shapes(node: Node) -> str:
    return ", ".join(f"{role} has the shape {list(t.shape)}" for role, t in roles(node))


IMAGE = Constraint(
    "tensors have four dimensions at most",
    lambda node: all(len(tensor.shape) <= 4 for tensor in (*node.inputs, *node.outputs)),
    found=_shapes,
)

SAME_TYPE = Constraint("input and output have the same element type", _same_type)

ACTIVATION = Constraint(
    f"the fused activation is one of {', '.join(_ACTIVATIONS)}",
    lambda node: node.op.options.get("FusedActivationFunction", "NONE") in _ACTIVATIONS,
    "write the activation as an operator of its own",
    lambda node: f"the fused activation is {node.op.options['FusedActivationFunction']}",
)


def _same_quantisation(node: Node) -> bool:
    first = node.quantisation(node.output())
    quantised = (tensor for tensor in node.inputs if tensor.type in ACTIVATIONS)
    return all(node.quantisation(tensor) == first for tensor in quantised)


def _scales(node: Node) -> str:
    known = [(role, t) for role, t in roles(node) if t.type in ACTIVATIONS and t.scales]
    return ", ".join(
        f"{role} has scale {t.scales[0]:.6g} and zero point {t.zero_points[0]}" for role, t in known
    )


SAME_QUANTISATION = Constraint(
    "inputs and output have the same scale and zero point", _same_quantisation, found=_scales
)


def _has_dimensions(node: Node) -> bool:
    rank = len(node.input().shape)
    return all(-rank <= given < rank for given in node.integers(1))


#: Those of a constant that names dimensions, which may count from the end.
DIMENSIONS = Constraint("the dimensions are those of the input", _has_dimensions)


def _axis_in_range(node: Node) -> bool:
    longest = node.output() if node.op.code == "PACK" else node.input()
    rank = len(longest.shape)
    return bool(-rank <= node.option("Axis") < rank)


#: The option that names a dimension; of PACK, one of the output.
AXIS = Constraint("the axis is a dimension", _axis_in_range)


def constant(position: int, what: str) -> Constraint:
    """An input that must be a constant."""

    def found(node: Node) -> str:
        if not node.has(position):
            return f"input {position} is missing"
        tensor = node.input(position)
        if tensor.type not in ELEMENT_TYPES:
            return f"{tensor.label} is {tensor.type}, which is not read"
        return f"{tensor.label} is {tensor.type} that the network computes"

    return Constraint(
        f"{what} is a constant",
        lambda node: node.has(position) and node.input(position).data is not None,
        "export the network with fixed shapes and parameters; constants have"
        f" {', '.join(sorted(ELEMENT_TYPES))}",
        found,
    )


def option_is(name: str, values: tuple[object, ...], sentence: str) -> Constraint:
    """An attribute that must have one of some values."""
    return Constraint(
        sentence,
        lambda node: node.option(name) in values,
        found=lambda node: f"{name} is {node.option(name)}",
    )
