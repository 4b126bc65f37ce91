"""Damaged float networks and samples: refused by name, without a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_onnx.testing import OnnxBuilder
from dory_qdq.quantize.preparation import prepare
from dory_qdq.quantize.samples import read_samples
from dory_qdq.runtime import need_onnxruntime

from dory_core.api import DoryError

pytest.importorskip("onnxruntime", reason="the extra quantize is not installed")

FAST, SLOW = 60, 2000


def damaged(whole: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Yield copies of a file with bytes changed, removed and added, and cut."""
    draw = random.Random(seed)
    for _ in range(count):
        content = bytearray(whole)
        for _ in range(draw.choice([1, 1, 2, 5, 20])):
            kind, near_the_end = draw.random(), draw.random() < 0.5
            reach = min(len(content), 900) if near_the_end else len(content)
            at = len(content) - 1 - draw.randrange(reach)
            if kind < 0.6:
                content[at] = draw.randrange(256)
            elif kind < 0.75:
                del content[at : at + draw.randrange(1, 9)]
            elif kind < 0.9:
                content[at:at] = draw.randbytes(draw.randrange(1, 5))
            elif draw.random() < 0.3:
                del content[at:]
            content = content or bytearray(1)
        yield bytes(content)


def refusals(path: Path, whole: bytes, read: Callable[[Path], Any], count: int) -> int:
    """Read damaged files; return how many were refused. Any other error fails the test."""
    refused = 0
    for content in damaged(whole, 7, count):
        path.write_bytes(content)
        try:
            read(path)
        except DoryError as error:
            assert error.hint
            refused += 1
    return refused


def network(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    builder = OnnxBuilder((3, 6, 6), opset=12)
    builder.node("Conv", builder.value, builder.constant(draw.standard_normal((4, 3, 3, 3))))
    builder.node("Relu", builder.value)
    builder.node("GlobalAveragePool", builder.value)
    onnx.save(builder.model(("batch", 3, 6, 6)), str(folder / "net.onnx"))
    return folder / "net.onnx"


COUNTS = [FAST, pytest.param(SLOW, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_networks(count: int, tmp_path: Path) -> None:
    need_onnxruntime()
    path = network(tmp_path)
    assert refusals(path, path.read_bytes(), prepare, count) > count / 3


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_samples(count: int, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    values = np.random.default_rng(0).random((9, 2, 3, 3), dtype=np.float32)
    np.savez_compressed(path, image=values, labels=np.arange(9))
    found = refusals(
        path, path.read_bytes(), lambda p: read_samples(p, {"image": (1, 2, 3, 3)}), count
    )
    assert found > count / 3
