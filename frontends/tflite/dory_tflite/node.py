"""An operator of the file while it is converted to layers, and constraints of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, ops
from dory_tflite.byte_functions import Quantisation
from dory_tflite.grids import canonical_shape
from dory_tflite.model import FileOperator, FileTensor, Model
from dory_tflite.network import Network
from dory_tflite.preparation import activation_range

#: Element types of activations, and whether they are signed.
BYTES = {"INT8": True, "UINT8": False}
#: Element types of activations; those of INT16 have weights of 8 bits.
ACTIVATIONS = (*BYTES, "INT16")
#: Element types of more bits than a byte.
WIDE = {"INT16": 16, "INT32": 32}
CONVERT = "convert the network with full integer quantisation"
_MOST = 6  # tensors that a message describes


@dataclass(frozen=True, slots=True)
class Node:
    """One operator with the file's tensors and the Graph that is built.

    readers: how many operators read each tensor of the file, network outputs included. islands:
    positions of the operators whose reals become integers again.
    """

    model: Model
    op: FileOperator
    network: Network
    readers: dict[int, int]
    islands: frozenset[int] = frozenset()

    @property
    def label(self) -> str:
        """How layers and messages call the operator."""
        return f"{self.op.code}_{self.op.position:02d}"

    def error(self, reason: str, hint: str = "") -> NotSupported:
        """Return the refusal of this operator."""
        where = f" ({self.output().label})" if self.op.outputs else ""
        return NotSupported(f"operator {self.op.position} {self.op.code}{where}: {reason}", hint)

    def has(self, position: int) -> bool:
        """True when the operator has this input."""
        return position < len(self.op.inputs) and self.op.inputs[position] >= 0

    def input(self, position: int = 0) -> FileTensor:
        """Return an input tensor; raises NotSupported when it is missing."""
        if not self.has(position):
            raise self.error(f"input {position} is missing")
        return self.network.file[self.op.inputs[position]]

    @property
    def inputs(self) -> tuple[FileTensor, ...]:
        """All inputs that are there."""
        return tuple(self.network.file[index] for index in self.op.inputs if index >= 0)

    def output(self, position: int = 0) -> FileTensor:
        """Return an output tensor; raises NotSupported when it is missing."""
        if position >= len(self.op.outputs):
            raise NotSupported(
                f"operator {self.op.position} {self.op.code}: output {position} is missing"
            )
        return self.network.file[self.op.outputs[position]]

    @property
    def outputs(self) -> tuple[FileTensor, ...]:
        """All outputs."""
        return tuple(self.network.file[index] for index in self.op.outputs)

    def option(self, name: str) -> Any:
        """Return an attribute."""
        return self.op.options[name]

    def constant(self, position: int) -> npt.NDArray[Any]:
        """Return the values of a constant input; raises NotSupported when it is none."""
        tensor = self.input(position)
        if tensor.data is None:
            raise self.error(f"{tensor.label} is no constant", "fix it in the exported network")
        return tensor.data

    def integers(self, position: int) -> list[int]:
        """Return a constant input as a flat list of integers."""
        values = self.constant(position)
        if values.dtype.kind not in "iu":
            raise self.error(f"{self.input(position).label} holds no integers")
        return [int(value) for value in values.reshape(-1)]

    def quantisation(self, tensor: FileTensor, wide: bool = False) -> Quantisation:
        """Return the one scale and zero point of a tensor; raises NotSupported.

        wide: whether it may be INT32.
        """
        if tensor.type not in (*ACTIVATIONS, *(WIDE if wide else ())):
            raise self.error(f"{tensor.label} is {tensor.type}, not INT8, UINT8 or INT16", CONVERT)
        if len(tensor.scales) != 1:
            raise self.error(f"{tensor.label} has {len(tensor.scales)} scales, expected one")
        if tensor.scales[0] <= 0:
            raise self.error(f"{tensor.label} has the scale {tensor.scales[0]}")
        signed, bits = BYTES.get(tensor.type, True), WIDE.get(tensor.type, 8)
        found = Quantisation(tensor.scales[0], tensor.zero_points[0], signed, bits)
        if not found.bounds[0] <= found.zero_point <= found.bounds[1]:
            raise self.error(f"{tensor.label} has the zero point {tensor.zero_points[0]}")
        return found

    def clip(self, tensor: FileTensor) -> tuple[int, int]:
        """Return the clip bounds of the fused activation for an output."""
        y = self.quantisation(tensor)
        activation = self.op.options.get("FusedActivationFunction", "NONE")
        return activation_range(activation, y.scale, y.zero_point, y.bounds)

    def stored_constant(self, tensor: FileTensor) -> npt.NDArray[np.int64]:
        """Return the stored values of a constant as (C, H, W), int64."""
        if tensor.data is None:
            raise self.error(f"{tensor.label} is no constant")
        channels, height, width = canonical_shape(tensor)
        values = tensor.data.astype(np.int64).reshape(height, width, channels)
        return values.transpose(2, 0, 1)

    def emit(
        self, kind: type[ops.Operator], tensor: FileTensor, *inputs: str, **fields: Any
    ) -> str:
        """Append a layer whose output is a tensor of the file; returns its name."""
        return self.network.emit(kind, self.label, tensor, inputs, **fields)


def roles(node: Node) -> list[tuple[str, FileTensor]]:
    """Return the tensors of an operator with their names in messages."""
    outputs = node.outputs
    return [
        *(
            (f"input {position}", node.input(position))
            for position in range(len(node.op.inputs))
            if node.has(position)
        ),
        *((f"output {n}" if len(outputs) > 1 else "output", t) for n, t in enumerate(outputs)),
    ]


def tensors_text(node: Node) -> str:
    """Return a description of the tensors of an operator."""
    texts = [f"{role} is {_tensor_text(tensor)}" for role, tensor in roles(node)]
    more = [f"{len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return ", ".join(texts[:_MOST] + more)


def _tensor_text(tensor: FileTensor) -> str:
    words = [tensor.type, str(list(tensor.shape))]
    if tensor.variable:
        words.append("variable")
    if tensor.data is not None:
        words.append("constant")
    if len(tensor.scales) == 1:
        words.append(f"scale {tensor.scales[0]:.6g} zero {tensor.zero_points[0]}")
    elif tensor.scales:
        words.append(f"{len(tensor.scales)} scales")
    return " ".join(words)


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an operator must be like.

    Attributes:
        sentence: Sentence for `dory --list-operators` and for the refusal.
        holds: Function that returns True when an operator fulfils the constraint.
        hint: What the user can change.
        found: Function that describes an operator that does not fulfil it.
    """

    sentence: str
    holds: Callable[[Node], bool]
    hint: str = ""
    found: Callable[[Node], str] = tensors_text


@dataclass(frozen=True, slots=True)
class Operator:
    """How an operator becomes layers.

    Attributes:
        code: Name in the schema.
        becomes: Kinds of layers.
        lower: Appends them.
    """

    code: str
    becomes: str
    lower: Callable[[Node], None]
    constraints: tuple[Constraint, ...] = ()

    def check(self, node: Node) -> None:
        """Raise NotSupported with the first constraint that does not hold."""
        for constraint in self.constraints:
            if not constraint.holds(node):
                tensors = (*node.inputs, *node.outputs)
                reals = any(tensor.type.startswith("FLOAT") for tensor in tensors)
                raise node.error(
                    f"not supported: {constraint.found(node)};"
                    f" supported only if {constraint.sentence}",
                    constraint.hint or (CONVERT if reals else ""),
                )
