"""Operators after the last integers, which are left to the application: reals, and custom ones."""

from __future__ import annotations

from dory_core.api import NotSupported
from dory_tflite.model import FileOperator, FileTensor, Subgraph
from dory_tflite.node import Node

_STATE = ("ASSIGN_VARIABLE",)
_INTEGERS = ("INT8", "UINT8", "INT16", "INT32")
HINT = "convert the network with full integer quantisation, up to its last layers"


def islands_of(subgraph: Subgraph) -> frozenset[int]:
    """Return the positions of the operators of reals that integers of the network depend on."""
    needed: set[int] = set()
    found: set[int] = set()
    for op in reversed(subgraph.operators):
        if op.code in ("DEQUANTIZE", *_STATE) or op.code.startswith("CUSTOM "):
            continue
        results = [subgraph.tensors[index] for index in op.outputs]
        if any(_is_stored(one) for one in results) or needed.intersection(op.outputs):
            sources = {subgraph.tensors[index] for index in op.inputs if index >= 0}
            reals = {one.index for one in sources if one.data is None and not _is_stored(one)}
            needed |= reals
            found |= {op.position} if reals else set()
    return frozenset(found)


def _is_stored(tensor: FileTensor) -> bool:
    return tensor.type in _INTEGERS and bool(tensor.scales)


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

        Raises: NotSupported for one that gives integers of the network again, of reals that the
        application computes.
        """
        behind = [self._first[index] for index in node.op.inputs if index in self.sources]
        is_custom = node.op.code.startswith("CUSTOM ")
        if not behind and not is_custom:
            return False
        first = next((one for one in behind if one.op.code != "DEQUANTIZE"), None)
        returns = any(_is_stored(tensor) for tensor in node.outputs)
        known = all(index in node.network.bound for index in node.op.inputs if index in self._first)
        inside = node.op.position in node.islands and known and not is_custom
        if not inside and behind and not is_custom and (returns or node.op.code in _STATE):
            raise _island(first or behind[0], node)
        found = [
            source
            for index in node.op.inputs
            if index in self.sources or index in node.network.bound
            for source in self.sources.get(index, (index,))
        ]
        if not (inside and returns):
            for output in node.op.outputs:
                self.sources[output] = tuple(dict.fromkeys(found))
                self._first[output] = first or node
        if not inside:
            self.left.append(node.op)
        return not inside

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
        return f"operator {first.position} {first.code} and all behind it are left out: {HINT}"


def _island(first: Node, node: Node) -> NotSupported:
    """Return the refusal of reals in the middle of a network; first: their first operator."""
    return first.error(
        f"not supported in the middle of a network: operator {node.op.position} {node.op.code}"
        " behind it gives integers again, or state; reals and custom operators are left to the"
        " application behind the last integers alone",
        HINT,
    )
