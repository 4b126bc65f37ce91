"""What the exporter ${n.name} means by its nodes."""

from __future__ import annotations

from pathlib import Path

from dory_core.api import Graph
from dory_core.importing import FrontendOptions
from dory_onnx import Dialect, Node, import_onnx


class ${n.title}Dialect(Dialect):
    """The plain reading of the nodes, with weights of 8 bits.

    extra_attributes: attributes of layer nodes that are not ONNX's own and may be there.
    """

    extra_attributes = frozenset({"weight_bits"})

    def weight_bits(self, node: Node) -> int:
        """Return the storage bits of a layer's weights."""
        return int(node.attributes.get("weight_bits", 8))


def parse(path: Path, options: FrontendOptions) -> Graph:
    """Return the integer network of a file.

    Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
    """
    return import_onnx(path, options, ${n.title}Dialect())
