"""The content of a .tflite file that the frontend uses, as plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.tools import quoting

#: numpy types of the elements that are read; others have no constants.
ELEMENT_TYPES: Mapping[str, type[np.generic]] = {
    "FLOAT32": np.float32,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
    "INT4": np.int8,  # two in a byte of the file
}


@dataclass(frozen=True, slots=True, eq=False)
class FileTensor:
    """A tensor of a subgraph.

    Attributes:
        index: Position in the subgraph; goldens call it ``t{index}``.
        shape: Shape in the file, () for a scalar.
        type: Name of the element type.
        data: Values of a constant, of this shape, else None.
        scales, zero_points: Empty when it is not quantised, one each, or one per slice of ``axis``.
        variable: The values live from one inference to the next.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    type: str
    data: npt.NDArray[Any] | None
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0
    variable: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    @property
    def label(self) -> str:
        """How messages call the tensor: in one line, whatever its name holds."""
        return f"tensor {self.index} '{quoting.shortened(quoting.visible(self.name))}'"


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An operator of a subgraph.

    Attributes:
        code: Name of the builtin operator, or ``CUSTOM name``.
        inputs, outputs: Indices of tensors, -1 for one that is left out.
        options: Attributes by the names of the schema.
    """

    position: int
    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Tensors, and operators in order of execution."""

    tensors: tuple[FileTensor, ...]
    operators: tuple[FileOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A file: the first subgraph is the network."""

    name: str
    subgraphs: tuple[Subgraph, ...]
