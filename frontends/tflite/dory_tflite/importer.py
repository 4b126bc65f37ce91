"""From a .tflite file to a Graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Graph, NotSupported, ops
from dory_core.importing import Array, FrontendOptions, State, ranges
from dory_tflite.fixed_point import FactorError
from dory_tflite.grids import Triple
from dory_tflite.host import HINT, Host, islands_of
from dory_tflite.loops import unrolled
from dory_tflite.model import FileTensor, Model, Subgraph
from dory_tflite.network import Network
from dory_tflite.node import CONVERT, Node
from dory_tflite.operators import OPERATORS, choices, islands, phases
from dory_tflite.places import Bound
from dory_tflite.reader import read_model

REFERENCE = "tflm"

_AT_THE_END = "let it be the last operator, after a DEQUANTIZE: the application computes it"
#: What to do instead of operators that are not supported.
_WAYS_OUT = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": "write it as keras.layers.Bidirectional does: two layers, one of"
    " which reads the reversed sequence (REVERSE_V2), and a CONCATENATION; neither TensorFlow Lite"
    " nor Micro computes it in integers",
    **dict.fromkeys(
        ("LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"),
        "export the recurrent layer unrolled (Keras: unroll=True): the operators that it consists"
        " of are supported; keep its state in variables where inferences follow one another",
    ),
    "LOCAL_RESPONSE_NORMALIZATION": "train the network with batch normalisation, which goes into"
    " the weights: TensorFlow Lite computes this one in reals only",
    "ADD_N": "write it as one ADD after the other",
    "TOPK_V2": _AT_THE_END,
    "GATHER_ND": "take elements by constant places with GATHER, SLICE or STRIDED_SLICE",
    "ONE_HOT": _AT_THE_END,
    "L2_POOL_2D": "use AVERAGE_POOL_2D or MAX_POOL_2D",
    "CONV_3D": "write it as a sum of CONV_2D, one for each plane of the filter",
    "IF": "convert the branch that is taken as a network of its own",
    "EMBEDDING_LOOKUP": "look the rows up in the application, and let them be the network's input",
}


#: Values of network inputs and of state.
_INPUTS = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-(1 << 15), (1 << 15) - 1)}


@dataclass(frozen=True, slots=True)
class Imported:
    """A network and where its file's tensors are.

    tensors: by index of the file, where it lies in the Graph.
    """

    graph: Graph
    tensors: Mapping[int, Bound]


def parse(path: Path, options: FrontendOptions) -> Graph:
    """Return the integer network of a .tflite file.

    Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
    """
    return import_model(read_model(path)).graph


def import_model(model: Model) -> Imported:
    """Return the network of the first subgraph.

    Raises: NotSupported, naming the operator and its tensor.
    """
    model = unrolled(model)
    subgraph = model.subgraphs[0]
    network = Network(subgraph)
    for index in subgraph.inputs:
        _add_input(network, subgraph, index)
    readers = Counter(index for op in subgraph.operators for index in op.inputs)
    readers.update(subgraph.outputs)
    written, host, inside = set(subgraph.inputs), Host(), islands_of(subgraph)
    for op in subgraph.operators:
        node = Node(model, op, network, readers, inside)
        for index in op.outputs:
            if index in written or subgraph.tensors[index].data is not None:
                raise node.error(f"tensor {index} is written twice, or is a constant")
            written.add(index)
        if phases.reads_phases(node):
            phases.lower(node)
            continue
        if host.takes(node):
            continue
        _lower(node)
        if op.code == "DEQUANTIZE":
            host.dequantised(node)
    return _finish(model.name, subgraph, network, host)


def _lower(node: Node) -> None:
    """Append the layers of an operator; raises NotSupported."""
    code = node.op.code
    if choices.is_choice(node) and islands.reads_reals(node):
        choices.select(node)
        return
    if islands.reads_reals(node):
        if not islands.is_known(node):
            raise node.error(
                f"not supported in the middle of a network, where reals become integers again:"
                f" supported are {islands.SUPPORTED}",
                _WAYS_OUT.get(code, HINT),
            )
        islands.lower(node)
        return
    known = OPERATORS.get(code)
    if known is None:
        hint = _WAYS_OUT.get(code, "`dory --list-operators --frontend tflite` lists those that are")
        only = (
            f" for {node.input().type}, only for reals between a DEQUANTIZE and a QUANTIZE"
            if code in islands.FUNCTIONS
            else ""
        )
        raise node.error(f"the operator is not supported{only}", hint)
    known.check(node)
    try:
        known.lower(node)
    except FactorError as error:
        raise node.error(str(error)) from None


def _states(network: Network) -> tuple[State, ...]:
    """Return the states of operators, and the variables that are read before they are assigned."""
    variables, states = network.variables, list(network.variables.own)
    for name, read in variables.read.items():
        left = variables.assigned.get(name, read)
        place = network.place(read).name
        shape = network.tensors[place].shape
        if left.type != read.type or left.elements != read.elements:
            raise NotSupported(
                f"variable '{name}': {left.label} of {left.elements} {left.type} is assigned,"
                f" {read.label} of {read.elements} {read.type} is read",
                "the file is damaged; export it again",
            )
        written = network.computed(network.reshaped(left, shape), left)
        states.append(
            State(name, place, written, _initial(variables.initial.get(name), left, shape))
        )
    return tuple(states)


def _initial(values: npt.NDArray[Any] | None, tensor: FileTensor, shape: Triple) -> Array:
    """Return the initial value of a variable: by default the zero point of the assigned tensor."""
    channels, height, width = shape
    lo, hi = _INPUTS[tensor.type]
    if values is None:
        zero_point = tensor.zero_points[0] if tensor.zero_points else 0
        values = np.full((height, width, channels), zero_point)
    if values.size != channels * height * width or values.dtype.kind not in "iu":
        raise NotSupported(
            f"{tensor.label} has {channels * height * width} elements, {values.size} of type"
            f" {values.dtype} at first",
            "the file is damaged; export it again",
        )
    if values.min() < lo or hi < values.max():
        raise NotSupported(
            f"{tensor.label}: {tensor.type} cannot have its first values, {values.min()} to"
            f" {values.max()}",
            "the file is damaged; export it again",
        )
    return Array(values.reshape(height, width, channels).transpose(2, 0, 1))


def _add_input(network: Network, subgraph: Subgraph, index: int) -> None:
    tensor = subgraph.tensors[index]
    if tensor.type == "FLOAT32":
        return  # a QUANTIZE after it is the input
    bounds = _INPUTS.get(tensor.type)
    if bounds is None or len(tensor.scales) != 1 or tensor.scales[0] <= 0:
        raise NotSupported(
            f"network input {tensor.label} is {tensor.type} with {len(tensor.scales)} scales, not"
            " INT8, UINT8 or INT16 with one",
            CONVERT,
        )
    network.add_input(tensor, *bounds)


def _finish(name: str, subgraph: Subgraph, network: Network, host: Host) -> Imported:
    if not subgraph.outputs:
        raise NotSupported(f"{name}: it has no output")
    taken = dict.fromkeys(n for index in subgraph.outputs for n in host.results(index))
    results = [subgraph.tensors[index] for index in taken]
    if network.phases.keys() & taken.keys():
        raise NotSupported(f"{name}: an output is the result of a SPACE_TO_BATCH_ND")
    places = (network.flat(tensor) for tensor in results)
    found = [
        network.computed(place, tensor) if place in network.states else place
        for place, tensor in zip(places, results, strict=True)
    ]
    network.notes.extend(ranges.shared_outputs([f"t{one.index}" for one in results], found))
    network.notes.extend(host.note())
    outputs, states = tuple(dict.fromkeys(found)), _states(network)
    passed = all(output in network.inputs for output in outputs) and not host.left
    if not network.inputs or not outputs or not (network.ops or passed):
        raise NotSupported(f"{name}: it holds no integer layer behind a network input", host.hint())
    graph = ranges.infer_types(
        name,
        tuple(network.tensors[name] for name in (*network.inputs, *network.states)),
        _read_layers(network, {*outputs, *(state.written for state in states)}),
        outputs,
        tuple(network.notes),
        REFERENCE,
        network.scales,
        states,
    )
    forms = {name: form for name, form in network.forms().items() if name in graph.tensors}
    bound = {
        n: one
        for n, one in network.bound.items()
        if n not in network.phases and one.name in graph.tensors
    }
    return Imported(replace(graph, forms=forms), bound)


def _read_layers(network: Network, read: set[str]) -> tuple[ops.Operator, ...]:
    """Return the layers on which tensors depend; tables leave functions before them unread."""
    found = []
    for op in reversed(network.ops):
        if op.output in read:
            read |= set(op.inputs)
            found.append(op)
    return tuple(replace(op, index=index) for index, op in enumerate(reversed(found)))
