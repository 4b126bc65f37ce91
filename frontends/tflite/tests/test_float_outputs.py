"""Outputs of reals behind a DEQUANTIZE: goldens hold the reals, or the integers before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import Graph, VerificationFailed
from dory_core.testing import make_vectors

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")

SCALE, ZERO = 0.0164, 53


def network(before: str) -> bytes:
    """Return a file of one operator and a DEQUANTIZE; elements move for a TRANSPOSE and a PAD."""
    b = TfliteBuilder()
    x = b.input((1, 6, 30), SCALE, ZERO)
    if before == "TRANSPOSE":
        y = b.tensor((1, 30, 6), SCALE, ZERO)
        b.operator(before, (x, b.constant(np.array([0, 2, 1], np.int32))), (y,))
    elif before == "PAD":
        y = b.tensor((1, 9, 31), SCALE, ZERO)
        around = b.constant(np.array([[0, 0], [1, 2], [0, 1]], np.int32))
        b.operator(before, (x, around), (y,))
    else:
        y = b.tensor((1, 6, 30), 1 / 256, -128)
        b.operator(before, (x,), (y,))
    reals = b.plain(b.tensors[y].shape, "FLOAT32")
    b.operator("DEQUANTIZE", (y,), (reals,))
    return b.build((reals,))


def golden_of(data: bytes) -> tuple[Graph, dict[str, Any], str, str]:
    """Return the network, its golden, and the keys of integers and of reals."""
    model = model_of(data, Path("net.tflite"))
    arrays = golden_arrays(data, model, [random_inputs(model, np.random.default_rng(0))])
    last = model.subgraphs[0].operators[-1]
    return (
        import_model(model).graph,
        arrays,
        f"run0__t{last.inputs[0]}",
        f"run0__t{last.outputs[0]}",
    )


@pytest.mark.parametrize("before", ["TRANSPOSE", "PAD", "LOGISTIC"])
def test_integers_and_reals_are_compared(before: str, tmp_path: Path) -> None:
    graph, arrays, stored, reals = golden_of(network(before))
    (given,) = (key for key in arrays if key.startswith("in0__"))
    assert arrays[reals].dtype == np.float32
    step = 1 / 256 if before == "LOGISTIC" else SCALE
    for kept, change in (((stored, reals), 1), ((stored,), 1), ((reals,), np.float32(step))):
        chosen = {key: arrays[key] for key in (given, *kept)}
        np.savez(tmp_path / "golden.npz", **chosen)
        _, report = make_vectors(graph, [tmp_path / "golden.npz"])
        assert report is not None
        assert [one.elements for one in report.layers] == [arrays[stored].size]
        chosen[kept[0]] = chosen[kept[0]].copy()
        chosen[kept[0]][0, 1, 2] += change
        np.savez(tmp_path / "golden.npz", **chosen)
        with pytest.raises(VerificationFailed, match="differs in 1 values"):
            make_vectors(graph, [tmp_path / "golden.npz"])


def test_an_output_that_only_moves_the_input_has_its_scale() -> None:
    graph, *_ = golden_of(network("TRANSPOSE"))
    tensor = graph.tensors[graph.outputs[0]]
    assert tensor.scale == pytest.approx(SCALE) and tensor.zero_point == ZERO
