"""Pairs of QuantizeLinear and DequantizeLinear that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from dory_qdq.importer import import_file
from dory_qdq.testing import Builder, infer, write_golden
from dory_qdq.testing.builder import Tensor

from dory_core.api import NotSupported
from dory_core.testing import make_vectors

SHAPE = (1, 2, 3, 4)
Pair = tuple[float, int]


def built(pairs: Sequence[Pair], folder: Path, *, signed: bool = False, kept: int = -1) -> Path:
    """Write pairs after the input, and a Neg. kept: the pair whose integers are an output, too."""
    b = Builder(np.random.default_rng(0), signed=signed)
    x = b.input(SHAPE)
    tensors: list[Tensor] = []
    for scale, zero in pairs:
        x = b.quantised(b.node("Identity", [x.name]), SHAPE, scale, zero)
        tensors.append(x)
    y = b.quantised(b.node("Neg", [x.name]), SHAPE, 0.01, 3)
    outputs = [(y.stored, SHAPE), *([(tensors[kept].stored, SHAPE)] if kept >= 0 else [])]
    path = folder / "net.onnx"
    path.write_bytes(b.model(outputs))
    return path


def kinds(path: Path) -> list[str]:
    return [op.kind for op in import_file(path).graph.ops]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_pairs_become_one_as_in_onnxruntime(count: int, signed: bool, tmp_path: Path) -> None:
    """Which of four become one first decides the zero point, as it is rounded each time."""
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    rng = np.random.default_rng(count)
    for seed in range(6):
        pairs = [
            (float(np.float32(s)), int(z) - 128 * signed)
            for s, z in zip(
                rng.uniform(0.004, 0.02, count), rng.integers(60, 200, count), strict=True
            )
        ]
        path = built(pairs, tmp_path, signed=signed)
        golden = write_golden(infer(path.read_bytes(), tmp_path, seed).golden, tmp_path / "g.npz")
        _, report = make_vectors(import_file(path).graph, [golden])
        assert report is not None and report.layers
        assert kinds(path) == ["Lut"]


def test_integers_that_are_an_output_stay(tmp_path: Path) -> None:
    """The first of three pairs is that of the input: none become one, or the first two."""
    pairs = [(0.01, 100), (0.02, 30)]
    assert kinds(built(pairs, tmp_path)) == ["Lut"]
    assert kinds(built(pairs, tmp_path, kept=0)) == ["Lut", "Lut", "Lut"]
    assert kinds(built(pairs, tmp_path, kept=1)) == ["Lut", "Lut"]


def test_ranges_without_a_common_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotSupported) as caught:
        import_file(built([(0.01, 0), (0.01, 255)], tmp_path))
    assert "no number in common with it but 0" in caught.value.message
