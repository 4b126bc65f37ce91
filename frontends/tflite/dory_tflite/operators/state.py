"""State between inferences: CALL_ONCE, VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE.

A variable becomes state of the network: the tensor that an inference finds, and the one that it
leaves for the next inference.
"""

from __future__ import annotations

from dory_tflite.model import FileOperator, Subgraph
from dory_tflite.node import ACTIVATIONS, Constraint, Node, Operator
from dory_tflite.places import Bound

_RESOURCE = Constraint(
    "the first input is a variable",
    lambda node: node.has(0) and node.input().index in node.network.variables.handles,
)


def _name(op: FileOperator) -> str:
    return f"{op.options['Container']}/{op.options['SharedName']}"


def _handle(node: Node) -> None:
    node.network.variables.handles[node.output().index] = _name(node.op)


def _read(node: Node) -> None:
    variables, output = node.network.variables, node.output()
    name = variables.handles[node.input().index]
    if name not in variables.values:
        node.network.add_state(output, *node.quantisation(output).bounds)
        variables.values[name] = node.network.place(output)
        variables.read[name] = output
    node.network.bind(output, variables.values[name])


def _assign(node: Node) -> None:
    variables, value = node.network.variables, node.input(1)
    name = variables.handles[node.input().index]
    variables.values[name] = Bound(node.network.value(value))
    variables.assigned[name] = value


def _call_once(node: Node) -> None:
    """Note the initial values that the called subgraph assigns."""
    subgraph = node.model.subgraphs[node.option("InitSubgraphIndex")]
    handles = {op.outputs[0]: _name(op) for op in subgraph.operators if op.code == "VAR_HANDLE"}
    for op in subgraph.operators:
        if op.code == "ASSIGN_VARIABLE":
            value = subgraph.tensors[op.inputs[1]].data
            assert value is not None
            node.network.variables.initial[handles[op.inputs[0]]] = value


def _assigns_constants(node: Node) -> bool:
    index = node.option("InitSubgraphIndex")
    return 0 < index < len(node.model.subgraphs) and _is_initialiser(node.model.subgraphs[index])


def _is_initialiser(subgraph: Subgraph) -> bool:
    handles = set()
    for op in subgraph.operators:
        if op.code == "VAR_HANDLE" and len(op.outputs) == 1:
            handles.add(op.outputs[0])
        elif op.code == "ASSIGN_VARIABLE" and len(op.inputs) == 2:
            handle, value = op.inputs
            if handle not in handles or value < 0 or subgraph.tensors[value].data is None:
                return False
        else:
            return False
    return True


OPERATORS = (
    Operator(
        "CALL_ONCE",
        "initial values of state",
        _call_once,
        (Constraint("the called subgraph assigns constants to variables", _assigns_constants),),
    ),
    Operator("VAR_HANDLE", "state", _handle),
    Operator(
        "READ_VARIABLE",
        "state",
        _read,
        (
            _RESOURCE,
            Constraint(
                "the output is INT8, UINT8 or INT16", lambda node: node.output().type in ACTIVATIONS
            ),
        ),
    ),
    Operator(
        "ASSIGN_VARIABLE",
        "state",
        _assign,
        (
            _RESOURCE,
            Constraint(
                "the value is INT8, UINT8 or INT16 and no constant",
                lambda node: node.input(1).type in ACTIVATIONS and node.input(1).data is None,
            ),
        ),
    ),
)
