"""Outputs of the file, and operators after the last integers, left to the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dory_onnx import Node

from dory_core.api import NotSupported
from dory_qdq.call import QUANTISE_HINT
from dory_qdq.network import Network
from dory_qdq.qlinear import FORMS
from dory_qdq.values import Pending, Place, Real, Stored, Sums, Value

#: Sums of products: where nothing rounds them, they are outputs of 32 bits.
SUMS = frozenset(["Conv", "Gemm", "MatMul"])
#: Operators with weights, which are never left to the application.
_WEIGHTED = SUMS | {"ConvTranspose"}
#: Names that a note shows.
_MOST_NAMES = 12


def after_integers(nodes: Sequence[Node]) -> frozenset[Node]:
    """Return the operators on which no integers of the network depend; nodes: in order."""
    needed: set[str] = set()
    found = []
    for node in reversed(nodes):
        op = node.op.removeprefix("com.microsoft.")
        if op.endswith("QuantizeLinear") or op in FORMS or needed.intersection(node.outputs):
            needed.update(node.inputs)
        else:
            found.append(node)
    return frozenset(found)


def is_plain_sum(value: Pending) -> bool:
    """Return True for sums of products without activations or moves."""
    return value.node.op in SUMS and value.lo is None and value.hi is None and not value.moves


class Outputs:
    """What the network computes of the outputs of a file.

    Attributes:
        left: Operators that are left to the application.
    """

    def __init__(
        self,
        network: Network,
        values: Mapping[str, Value],
        lowered: Callable[[Pending, str], Place],
    ) -> None:
        """Take the values of a file; lowered: appends the layer of sums that nothing rounds."""
        self.left: dict[Node, None] = {}
        self._network = network
        self._values = values
        self._lowered = lowered
        self._sums: dict[str, str] = {}

    def tensors(self, output: str) -> tuple[str, ...]:
        """Return the tensor with an output, or those from which the application computes it.

        Raises: NotSupported for an operator that nothing rounds and that has weights, or reads no
        integers.
        """
        if not isinstance(self._values.get(output), Real | Stored | Sums | Pending):
            raise NotSupported(
                f"network output '{output}' is computed by no quantised layer", QUANTISE_HINT
            )
        waiting, seen, found = [output], {output}, dict[str, None]()
        while waiting:
            name = waiting.pop()
            value = self._values[name]
            if isinstance(value, Pending) and not is_plain_sum(value):
                read = self._read(value)
                waiting.extend(source for source in reversed(read) if source not in seen)
                seen.update(read)
            elif isinstance(value, Pending):
                found[self._of_sums(value, name)] = None
            elif isinstance(value, Real | Stored | Sums):
                found[self._network.settled(value.place, name).tensor] = None
        return tuple(found)

    def note(self) -> tuple[str, ...]:
        """Return a note about the operators that are left out."""
        names = list(dict.fromkeys(node.op for node in self.left))
        if not names:
            return ()
        more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
        return (f"host post-processing left out: {', '.join(names[:_MOST_NAMES] + more)}",)

    def _read(self, value: Pending) -> list[str]:
        """Leave an operator to the application, and return the computed values that it reads."""
        node = value.node
        read = [
            name
            for name, one in zip(node.inputs, value.inputs, strict=True)
            if isinstance(one, Real | Stored | Pending)
        ]
        changed = value.lo is not None or value.hi is not None or value.moves
        if not read or changed or node.op in _WEIGHTED:
            raise _refusal(node)
        self.left[node] = None
        return read

    def _of_sums(self, value: Pending, name: str) -> str:
        if any(isinstance(one, Pending) for one in value.inputs):
            raise _refusal(value.node)
        if name not in self._sums:
            place = self._lowered(value, name)
            self._network.named(place, name)
            self._network.stands_for(place, name)
            self._sums[name] = place.tensor
        return self._sums[name]


def _refusal(node: Node) -> NotSupported:
    result = node.outputs[0]
    return NotSupported(
        f"{node.label}: no QuantizeLinear rounds its result '{result}', which has no scale",
        f"{QUANTISE_HINT}; or let the file end before it (onnx.utils.extract_model), and compute it"
        " in the application",
    )
