"""Operators after the last integers, which are left to the application: reals, and custom ones."""

from __future__ import annotations

from dory_core.api import NotSupported
from dory_tflite.model import FileOperator
from dory_tflite.node import Node

_STATE = ("ASSIGN_VARIABLE",)
_INTEGERS = ("INT8", "UINT8", "INT16", "INT32")
_HINT = "convert the network with full integer quantisation, up to its last layers"


class Host:
    """What the application computes of a file.

    sources: by tensor that it computes or dequantises, the integers that this takes, by their
    indices. left: operators that are left out.
    """

    def __init__(self) -> None:
        self.sources: dict[int, tuple[int, ...]] = {}
        self.left: list[FileOperator] = []
        self._first: dict[int, Node] = {}  # what made integers reals, or is custom, by tensor

    def dequantised(self, node: Node) -> None:
        """Note that a DEQUANTIZE gives reals."""
        source, output = node.input(), node.output().index
        self.sources[output] = () if source.data is not None else (source.index,)
        self._first[output] = node

    def takes(self, node: Node) -> bool:
        """Return True when an operator is left out: it reads reals, or is a custom one.

        Raises: NotSupported for one that gives integers of the network again.
        """
        behind = [self._first[index] for index in node.op.inputs if index in self.sources]
        is_custom = node.op.code.startswith("CUSTOM ")
        if not behind and not is_custom:
            return False
        first = next((one for one in behind if one.op.code != "DEQUANTIZE"), None)
        returns = any(tensor.type in _INTEGERS and tensor.scales for tensor in node.outputs)
        if behind and not is_custom and (returns or node.op.code in _STATE):
            raise _island(first or behind[0], node)
        found = [
            source
            for index in node.op.inputs
            if index in self.sources or index in node.network.bound
            for source in self.sources.get(index, (index,))
        ]
        for output in node.op.outputs:
            self.sources[output] = tuple(dict.fromkeys(found))
            self._first[output] = first or node
        self.left.append(node.op)
        return True

    def results(self, index: int) -> tuple[int, ...]:
        """Return the integers of the network that an output of the file takes."""
        return self.sources.get(index, (index,))

    def note(self) -> tuple[str, ...]:
        """Return a note about the operators that are left out."""
        if not self.left:
            return ()
        names = dict.fromkeys(op.code for op in self.left)
        return (f"host post-processing left out: {', '.join(names)}",)

    def hint(self) -> str:
        """Return why a network has no layer."""
        if not self.left:
            return ""
        first = self.left[0]
        return f"operator {first.position} {first.code} and all behind it are left out: {_HINT}"


def _island(first: Node, node: Node) -> NotSupported:
    """Return the refusal of reals in the middle of a network; first: their first operator."""
    return first.error(
        f"not supported in the middle of a network: operator {node.op.position} {node.op.code}"
        " behind it gives integers again, or state; reals and custom operators are left to the"
        " application behind the last integers alone",
        _HINT,
    )
