"""Reductions over any dimensions, of tensors of any rank."""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest
from dory_qdq.importer import import_file
from dory_qdq.testing import Builder, infer, write_golden

from dory_core.testing import make_vectors

#: The last two have dimensions that lie across those of the image that they are made of.
SHAPES = [(1, 6, 4, 5), (1, 2, 3, 4, 5), (1, 2, 2, 3, 2, 5), (1, 5, 4, 3, 2), (1, 3, 2, 5, 2, 2)]


@pytest.mark.sample(7)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_choice_of_dimensions(
    shape: tuple[int, ...], op: str, keepdims: int, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    b = Builder(np.random.default_rng(3))
    x = b.input((1, 6, 4, 5))
    wide = b.node("Reshape", [x.name, b.constant(np.array(shape, np.int64))])
    dimensions = range(1, len(shape))
    outputs = []
    for axes in chain.from_iterable(combinations(dimensions, n) for n in dimensions):
        given = np.array(axes, np.int64)
        if op == "ReduceSum":  # an input since opset 13
            name = b.node(op, [wide, b.constant(given)], keepdims=keepdims)
        else:
            name = b.node(op, [wide], axes=given.tolist(), keepdims=keepdims)
        left = [1 if n in axes else size for n, size in enumerate(shape)]
        if not keepdims:
            left = [size for n, size in enumerate(left) if n not in axes]
        is_extreme = op in ("ReduceMax", "ReduceMin")
        y = b.quantised(name, left, x.scale if is_extreme else 0.03, x.zero if is_extreme else None)
        outputs.append((y.stored, y.shape))
    path = tmp_path / "net.onnx"
    path.write_bytes(b.model(outputs))
    graph = import_file(path).graph
    golden = write_golden(infer(path.read_bytes(), tmp_path, 1).golden, tmp_path / "golden.npz")
    _, report = make_vectors(graph, [golden])
    assert report is not None
    kinds = [op.kind for op in graph.ops]
    assert len(report.layers) >= len(outputs) == kinds.count("AvgPool") + kinds.count("MaxPool")
