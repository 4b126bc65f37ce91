"""A network of the plain dialect with its golden, which an evaluator of ONNX computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dory_core.testing.integer_onnx import IntegerOnnxBuilder
from tests.onnx_eval import evaluate

LAYERS = 8


def write_network(folder: Path) -> tuple[Path, Path]:
    """Write net.onnx, of eight layers with a residual, and golden.npz; return both."""
    builder = IntegerOnnxBuilder((3, 24, 24), seed=5).conv(8, 3, stride=2, pads=1)
    pooled = builder.depthwise(3, pads=1).conv(16, 1).maxpool(2).value
    builder.conv(16, 3, pads=1).add(pooled, activation=True).avgpool().linear(10, activation=False)
    return builder.save(folder / "net.onnx"), write_golden(builder, folder / "golden.npz")


def write_golden(builder: IntegerOnnxBuilder, path: Path, seed: int = 0) -> Path:
    """Evaluate the graph for a seeded random input and write the values of every layer."""
    lo, hi = builder.bounds[builder.input]
    shape = builder.shapes[builder.input]
    image = np.random.default_rng(seed).integers(lo, hi, shape, endpoint=True)
    values = evaluate(builder.model(), image, builder.layer_values)
    arrays = {f"layer_{n:02d}": _hwc(values[v]) for n, v in enumerate(builder.layer_values)}
    np.savez(path, input=_hwc(image), **arrays)
    return path


def _hwc(values: np.ndarray) -> np.ndarray:
    """Flatten (C, H, W), (C, L) or (F,) in HWC order."""
    return np.moveaxis(values, 0, -1).reshape(-1).astype(np.int64)
