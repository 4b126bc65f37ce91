"""Nodes of a file that move elements, as layers."""

from __future__ import annotations

from collections.abc import Sequence

from dory_core.api import NotSupported, ops
from dory_onnx.chains import RESHAPES
from dory_onnx.growing import GrowingGraph
from dory_onnx.model import EXPORT_HINT, Node
from dory_onnx.movers import (
    MOVERS,
    OLD_ATTRIBUTES,
    RESIZES,
    extents_of,
    factors_of,
    gathered,
    joined_axis,
    repeated,
    taken_of,
    tensor_axes,
    turned_axes,
)
from dory_onnx.operators import check_attributes, chw_of, rows_of
from dory_onnx.shapes import Shape
from dory_onnx.values import Value


class MovingGraph(GrowingGraph):
    """A growing Graph to which nodes that move elements are appended.

    feeding: positions of nodes that are a layer wherever they stand, or lead to one.
    """

    feeding: frozenset[int]

    def moved(self, node: Node) -> bool:
        """Import what moves elements for a layer that reads them; False when ``node`` does not."""
        if node.op not in MOVERS or node.position not in self.feeding:
            return False
        count = len(node.inputs) if node.op == "Concat" else 1
        names = node.inputs[:count]
        if not names or any(name not in self.values for name in names):
            return False
        check_attributes(node, self.dialect.extra_attributes | OLD_ATTRIBUTES)
        shape = self.shapes[names[0]]
        factors = factors_of(self.model, node, shape) if node.op in RESIZES else None
        order = turned_axes(node, len(shape)) if node.op == "Transpose" else ()
        axis = joined_axis(node, len(shape)) if node.op == "Concat" else 0
        made = chw_of(self.shapes.get(node.outputs[0], ()))
        if made is None or min(made) < 1:
            raise NotSupported(
                f"{node.label}: what it makes of {list(shape)} follows from no constants, or is not"
                " one image",
                EXPORT_HINT,
            )
        by_rows = any(self.value(name).tensor in self.by_rows for name in names)
        if node.op == "Transpose":
            self._transposed(node, order, by_rows)
            return True
        by_rows = by_rows and node.op not in RESIZES
        read = self.as_rows if by_rows else self.as_read
        sources = tuple(read(node, name).tensor for name in names)
        if node.op in ("Slice", "Split", "Gather"):
            self._taken(node, sources[0], shape)
            return True
        if by_rows:
            made = rows_of(self.shapes[node.outputs[0]]) or made
        output = self.begin(node, node.outputs[0], made)
        common = self.common(node, *sources)
        if node.op == "Concat":
            along = tensor_axes(len(shape), by_rows)[axis] or 0
            self.append(ops.Concat(**common, axis=along))
        else:
            assert factors is not None  # else the shape would be unknown
            taps = [repeated(n, f) for n, f in zip(shape[2:], factors, strict=True)]
            self.append(ops.Resize(**common, rows=taps[0], columns=taps[1]))
        self._made(node.outputs[0], output, by_rows)
        return True

    def _made(self, name: str, tensor: str, by_rows: bool) -> None:
        """Register a value of the file as a tensor."""
        self.by_rows |= {tensor} if by_rows else set()
        self.values[name] = Value(tensor)

    def _transposed(self, node: Node, order: Sequence[int], from_rows: bool) -> None:
        """Append a Transpose. Where the channels of an image become the last axis, for a function
        of rows, they stay channels."""
        rank, name = len(order), node.outputs[0]
        to_rows = from_rows or (rank > 2 and order[-1] == 1 and self._leads_to_rows(name))
        before, after = tensor_axes(rank, from_rows), tensor_axes(rank, to_rows)
        perm = [0, 1, 2]
        for place, taken in enumerate(order[1:], start=1):
            perm[after[place] or 0] = before[taken] or 0
        read = self.as_rows if from_rows else self.as_read
        source = read(node, node.input(0)).tensor
        turned = (perm[0], perm[1], perm[2])
        self._made(name, self.turned(node, name, source, turned), to_rows)

    def _leads_to_rows(self, name: str) -> bool:
        """Return True when a function of rows reads a value, or what reshapes make of it."""
        for reader in self.model.readers(name):
            if reader.op in self.dialect.own_layers:
                return True
            if reader.op in RESHAPES and self._leads_to_rows(reader.outputs[0]):
                return True
            if reader.op == "MatMul" and len(self.shapes.get(name, ())) > 2:
                return True
        return False

    def _taken(self, node: Node, source: str, shape: Shape) -> None:
        """Append the layers of a Slice, Split or Gather whose results are read."""
        by_rows = source in self.by_rows
        axes = tensor_axes(len(shape), by_rows)
        takes = gathered if node.op == "Gather" else taken_of
        for name, taken in takes(self.model, node, shape).items():
            if not self.model.readers(name) and name not in self.model.outputs:
                continue
            begin, size, step = extents_of(taken, axes)
            if size == self.chw[source] and min(step) == 1:
                # Only the shape may be another one, in which the elements keep their order.
                self.values[name] = Value(source)
                continue
            output = self.begin(node, name, size)
            common = self.common(node, source)
            self.append(ops.Slice(**common, begin=begin, size=size, step=step))
            self._made(name, output, by_rows)
