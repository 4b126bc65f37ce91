"""WHILE with a number of steps that the file fixes: its body is written once for each step.

Counters are constants of the file, so that conditions and places in sequences are known here. The
interpreter runs the same operators in the same order. Source: tflite-micro, ``kernels/while.cc``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported
from dory_tflite.model import FileOperator, FileTensor, Model, Subgraph

Array = npt.NDArray[Any]

_LOOP = "WHILE"
_MOST_STEPS = 1 << 10
_MOST_OPERATORS = 1 << 14
_HINT = "export the loop with a fixed number of steps, or unrolled (Keras: unroll=True)"

#: Operators of plain integers and truth values, of which counters and conditions consist.
_FOLDED: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "ADD": np.add,
        "SUB": np.subtract,
        "MUL": np.multiply,
        "MAXIMUM": np.maximum,
        "MINIMUM": np.minimum,
        "LESS": np.less,
        "LESS_EQUAL": np.less_equal,
        "GREATER": np.greater,
        "GREATER_EQUAL": np.greater_equal,
        "EQUAL": np.equal,
        "NOT_EQUAL": np.not_equal,
        "LOGICAL_AND": np.logical_and,
        "LOGICAL_OR": np.logical_or,
        "LOGICAL_NOT": np.logical_not,
        "RESHAPE": lambda x, *_: x,
        "SQUEEZE": lambda x: x,
        "EXPAND_DIMS": lambda x, _: x,
        "PACK": lambda *parts: np.stack(parts),
        "CONCATENATION": lambda *parts: np.concatenate(parts),
    }
)
_PLAIN = ("INT32", "INT64", "BOOL")


def unrolled(model: Model) -> Model:
    """Return a model whose network has no loops.

    Tensors of the network keep their numbers; those of the steps follow them.

    Raises: NotSupported for a loop whose number of steps is not known.
    """
    if not any(op.code == _LOOP for op in model.subgraphs[0].operators):
        return model
    network = _Unrolled(model, list(model.subgraphs[0].tensors)).network()
    return replace(model, subgraphs=(network, *model.subgraphs[1:]))


@dataclass(slots=True)
class _Unrolled:
    """The network while its loops are written out.

    Attributes:
        tensors: Of the network, then of the steps.
        operators: Written so far.
        same: Tensors that are another one, by number.
        position: Of the next operator of a step; those of the network keep theirs.
    """

    model: Model
    tensors: list[FileTensor]
    operators: list[FileOperator] = field(default_factory=list)
    same: dict[int, int] = field(default_factory=dict)
    position: int = 0

    def network(self) -> Subgraph:
        """Return the network without loops."""
        first = self.model.subgraphs[0]
        waiting, self.position = deque(first.operators), len(first.operators)
        while waiting:
            op = self._renamed(waiting.popleft())
            if len(self.operators) > _MOST_OPERATORS:
                raise _refused(op, f"more than {_MOST_OPERATORS} operators when it is unrolled")
            if op.code != _LOOP:
                self.operators.append(op)
            elif self._continues(op):
                waiting.extendleft(reversed(self._step(op)))
            else:
                self._end(op)
        outputs = tuple(self._of(index) for index in first.outputs)
        return Subgraph(tuple(self.tensors), tuple(self.operators), first.inputs, outputs)

    def _of(self, index: int) -> int:
        return self.same.get(index, index)

    def _renamed(self, op: FileOperator) -> FileOperator:
        return replace(op, inputs=tuple(self._of(index) for index in op.inputs))

    def _part(self, op: FileOperator, name: str) -> Subgraph:
        """Return the subgraph of a condition or of a body."""
        index, count = int(op.options[name]), len(self.model.subgraphs)
        if not 0 < index < count:
            raise _refused(op, f"it names subgraph {index} of {count}", "the file is damaged")
        part = self.model.subgraphs[index]
        results = len(part.outputs) if name == "BodySubgraphIndex" else len(op.inputs)
        if min(op.inputs, default=0) < 0 or not len(part.inputs) == results == len(
            op.inputs
        ) == len(op.outputs):
            raise _refused(op, "its subgraphs have other values than it", "the file is damaged")
        return part

    def _continues(self, op: FileOperator) -> bool:
        """Return True when the condition holds for the values of the loop."""
        part = self._part(op, "CondSubgraphIndex")
        values = {
            n: tensor.data for n, tensor in enumerate(part.tensors) if tensor.data is not None
        }
        for inside, index in zip(part.inputs, op.inputs, strict=True):
            data = self.tensors[index].data
            if data is not None:
                values[inside] = data
        for inner in part.operators:
            found = _folded(inner, part.tensors, values)
            if found is not None:
                values[inner.outputs[0]] = found
        if len(part.outputs) != 1 or part.outputs[0] not in values:
            raise _refused(op, "the number of its steps depends on values that are computed")
        return bool(values[part.outputs[0]].reshape(-1)[0])

    def _step(self, op: FileOperator) -> list[FileOperator]:
        """Return the operators of a step, and the loop after it."""
        steps = int(op.options.get("steps", 0)) + 1
        if steps > _MOST_STEPS:
            raise _refused(op, f"more than {_MOST_STEPS} steps")
        part = self._part(op, "BodySubgraphIndex")
        place = dict(zip(part.inputs, op.inputs, strict=True))
        found = []
        for tensor in part.tensors:
            if tensor.index not in place:
                place[tensor.index] = self._added(tensor)
        for inner in part.operators:
            inputs = tuple(index if index < 0 else place[index] for index in inner.inputs)
            values = {n: self.tensors[n].data for n in inputs if n >= 0}
            mapped = replace(
                inner, inputs=inputs, outputs=tuple(place[index] for index in inner.outputs)
            )
            known = {n: data for n, data in values.items() if data is not None}
            folded = _folded(mapped, self.tensors, known)
            if folded is not None:
                self.tensors[mapped.outputs[0]] = replace(
                    self.tensors[mapped.outputs[0]], data=folded
                )
            else:
                found.append(replace(mapped, position=self.position))
                self.position += 1
        results = tuple(place[index] for index in part.outputs)
        options = {**op.options, "steps": steps}
        return [*found, replace(op, inputs=results, options=options)]

    def _added(self, tensor: FileTensor) -> int:
        self.tensors.append(replace(tensor, index=len(self.tensors)))
        return len(self.tensors) - 1

    def _end(self, op: FileOperator) -> None:
        """Let the results of a loop be the values after its last step."""
        for index, value in zip(op.outputs, op.inputs, strict=True):
            self.same[index] = value


def _folded(
    op: FileOperator, tensors: Sequence[FileTensor], values: Mapping[int, Array]
) -> Array | None:
    """Return the result of an operator of plain integers that are known; None for others."""
    function, inputs = _FOLDED.get(op.code), [index for index in op.inputs if index >= 0]
    if function is None or len(op.outputs) != 1 or any(index not in values for index in inputs):
        return None
    result = tensors[op.outputs[0]]
    if any(tensors[n].type not in _PLAIN or tensors[n].scales for n in (*inputs, op.outputs[0])):
        return None
    if op.options.get("FusedActivationFunction", "NONE") != "NONE" or op.options.get("Axis", 0):
        return None
    found = np.asarray(function(*(values[index] for index in inputs)))
    if found.size != result.elements:
        return None
    kind = {"INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}[result.type]
    return found.astype(kind).reshape(result.shape)


def _refused(op: FileOperator, reason: str, hint: str = _HINT) -> NotSupported:
    return NotSupported(f"operator {op.position} {op.code}: {reason}", hint)
