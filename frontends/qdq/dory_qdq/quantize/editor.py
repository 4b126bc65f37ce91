"""An ONNX graph that is rewritten in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Editor:
    """A graph with known shapes.

    Attributes:
        graph: An onnx.GraphProto.
    """

    graph: Any

    def constant(self, name: str) -> npt.NDArray[Any] | None:
        """Return the values of a stored tensor; None for a computed one."""
        from onnx import numpy_helper

        found = (t for t in self.graph.initializer if t.name == name)
        return next((np.asarray(numpy_helper.to_array(t)) for t in found), None)

    def scalar(self, name: str) -> float | None:
        """Return the value of a stored tensor of one element; None for another one."""
        values = self.constant(name)
        return float(values.reshape(())) if values is not None and values.size == 1 else None

    def maker(self, name: str, *kinds: str) -> Any:
        """Return the node that computes a tensor, if it is of one of some kinds; otherwise None."""
        return next((n for n in self.graph.node if name in n.output and n.op_type in kinds), None)

    def readers(self, name: str) -> list[Any]:
        """Return the nodes that read a tensor."""
        return [node for node in self.graph.node if name in node.input]

    def reader(self, name: str, *kinds: str) -> Any:
        """Return the only reader of a tensor, if it is of one of some kinds; otherwise None."""
        readers = self.readers(name)
        is_output = name in {value.name for value in self.graph.output}
        fits = len(readers) == 1 and readers[0].op_type in kinds and not is_output
        return readers[0] if fits else None

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor; () where it is not known."""
        for value in (*self.graph.value_info, *self.graph.input, *self.graph.output):
            if value.name == name:
                return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        return ()

    def store(self, name: str, values: npt.NDArray[Any]) -> str:
        """Add a constant; returns its name."""
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def describe(self, name: str, shape: Sequence[int]) -> None:
        """Give a computed tensor of float32 a shape."""
        from onnx import TensorProto, helper

        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self.graph.value_info.append(value)

    def replace(self, old: Sequence[Any], new: Sequence[Any], at: Any = None) -> None:
        """Put nodes in the place of one, the last one if not given, of others that are removed.

        The graph has copies of its nodes afterwards.
        """
        gone = {name for node in old for name in node.output}
        place = (old[-1] if at is None else at).output[0]
        nodes: list[Any] = []
        for node in self.graph.node:
            nodes += new if node.output[0] == place else []
            nodes += [] if node.output[0] in gone else [node]
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del self.graph.node[:]
        self.graph.node.extend(copies)


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes of a node by name."""
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def made(op: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    """Return a node of one output, with a name."""
    from onnx import helper

    return helper.make_node(op, inputs, [output], f"{output}_{op}", **attributes)
