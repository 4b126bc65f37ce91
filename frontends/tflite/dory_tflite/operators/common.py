"""Constraints that several operators share."""

from __future__ import annotations

from dory_tflite.node import BYTES, Constraint, Node

_CONVERT = "convert the network with full integer quantisation"
_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def byte_tensors(inputs: int | None = 1) -> Constraint:
    """Inputs and outputs of 8 bits. inputs: how many, None for all."""

    def holds(node: Node) -> bool:
        tensors = (*node.inputs[:inputs], *node.outputs)
        return bool(node.outputs) and all(tensor.type in BYTES for tensor in tensors)

    return Constraint("input and output are INT8 or UINT8", holds, _CONVERT)


def _same_type(node: Node) -> bool:
    return len({tensor.type for tensor in (node.input(), *node.outputs)}) == 1


SAME_TYPE = Constraint("input and output have the same element type", _same_type)

ACTIVATION = Constraint(
    f"the fused activation is one of {', '.join(_ACTIVATIONS)}",
    lambda node: node.op.options.get("FusedActivationFunction", "NONE") in _ACTIVATIONS,
    "write the activation as an operator of its own",
)


def _same_quantisation(node: Node) -> bool:
    first = node.quantisation(node.output())
    return all(node.quantisation(tensor) == first for tensor in node.inputs if tensor.type in BYTES)


SAME_QUANTISATION = Constraint(
    "inputs and output have the same scale and zero point", _same_quantisation
)


def constant(position: int, what: str) -> Constraint:
    """An input that must be a constant."""
    return Constraint(
        f"{what} is a constant",
        lambda node: node.has(position) and node.input(position).data is not None,
        "export the network with fixed shapes and parameters",
    )


def option_is(name: str, values: tuple[object, ...], sentence: str) -> Constraint:
    """An attribute that must have one of some values."""
    return Constraint(sentence, lambda node: node.option(name) in values)
