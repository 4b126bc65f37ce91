"""onnxruntime as the reference: what it computes of a file, as a golden, and in which form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from dory_core.api import Graph
from dory_qdq.fusion import are_narrow
from dory_qdq.golden import fuse, golden_arrays
from dory_qdq.importer import import_file
from dory_qdq.operators.comparisons import TRUTHS
from dory_qdq.runtime import need_onnxruntime

#: Operators of a fused network that compute no reals ...
_EXACT = ("QLinear", "QGemm", "QuantizeLinear", "DequantizeLinear")
#: ... and that move elements.
_MOVES = frozenset(
    [
        *("MaxPool", "Reshape", "Transpose", "Slice", "Resize", "Pad", "Flatten", "Squeeze"),
        *("DepthToSpace", "SpaceToDepth", "Tile", "Expand", "Gather", "ReduceMax", "ReduceMin"),
    ]
)
#: Operators whose names do not tell it.
_SAME_IN_REALS = ("Clip", "HardSwish", "GlobalMaxPool", "Where", "Cast", *TRUTHS)
#: End of the names of int8 constants that onnxruntime turned into uint8.
_TURNED = "_s8_2_u8"

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Inference:
    """What onnxruntime made of a network at ORT_ENABLE_EXTENDED.

    Attributes:
        golden: Its inputs and stored tensors, named as in a golden.
        reals: Names of the operators that it computed in reals.
        either: Names of those that it computed in integers and would in reals on other processors.
    """

    golden: Arrays
    reals: frozenset[str]
    either: frozenset[str] = frozenset()

    def unexpected(self, graph: Graph) -> frozenset[str]:
        """Return the layers of which the import is wrong about who computes them in reals."""
        apart = {op.name for op in graph.ops if graph.form(op.output).apart}
        found = (apart ^ (self.reals & {op.name for op in graph.ops})) - self.either
        return frozenset(name for name in found if not _is_no_answer(name, graph))


def _is_no_answer(name: str, graph: Graph) -> bool:
    """Return True when the names of fused operators do not tell who computed a layer in reals.

    HardSwish is split into others there, a Clip may be one of stored integers, the maximum of an
    image is the same in reals, and layers that no integers reproduce have a note.
    """
    return name.startswith(_SAME_IN_REALS) or any(f"'{name}'" in note for note in graph.notes)


def infer(model: bytes, folder: Path, seed: int = 0, inferences: int = 1) -> Inference:
    """Run a file with onnxruntime on random inputs. folder: for the file."""
    path = folder / "inferred.onnx"
    path.write_bytes(model)
    need_onnxruntime()
    fused = fuse(path, import_file(path))
    rng = np.random.default_rng(seed)
    truths = fused.truths
    given = (
        {name: random_input(rng, shape, name in truths) for name, shape in fused.shapes.items()}
        for _ in range(inferences)
    )
    return Inference(golden_arrays(fused, given), _reals(fused.made), _either(fused.made))


def random_input(rng: np.random.Generator, shape: tuple[int, ...], is_truth: bool) -> Any:
    """Return reals, or truth values."""
    if is_truth:
        return rng.random(shape) < 0.5
    return rng.uniform(-1.5, 1.5, shape).astype(np.float32)


def _either(made: Any) -> frozenset[str]:
    """Return operators in integers with int8 constants that some processors turn into uint8."""
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in made.graph.initializer}

    def is_wide(name: str) -> bool:
        values = constants.get(name)
        return values is not None and values.dtype == np.int8 and not are_narrow(values)

    found = set()
    for node in made.graph.node:
        if node.op_type == "QGemm":
            depends = constants[node.input[2]].dtype == np.int8 and is_wide(node.input[3])
        elif node.op_type in ("QLinearAdd", "QLinearMul"):
            operands = (node.input[0], node.input[3])
            depends = any(is_wide(name) or name.endswith(_TURNED) for name in operands)
        else:
            continue
        if depends:
            found.add(node.name.removeprefix("fused "))
    return frozenset(found)


def _reals(made: Any) -> frozenset[str]:
    return frozenset(
        node.name.removeprefix("fused ")
        for node in made.graph.node
        if not node.op_type.startswith(_EXACT)
        and (node.op_type not in _MOVES or any(a.s == b"linear" for a in node.attribute))
    )


def write_golden(golden: Mapping[str, npt.NDArray[Any]], path: Path) -> Path:
    """Write a golden and return its path."""
    np.savez(path, **dict(golden))
    return path
