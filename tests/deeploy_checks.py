"""Checks of networks of Deeploy that tests build."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_deeploy.dialect import parse
from dory_deeploy.testing import DeeployBuilder, values_of

from dory_core.api import Graph, NotSupported
from dory_core.importing import FrontendOptions
from dory_core.testing import random_inputs, run_reference


def check(b: DeeployBuilder, folder: Path, signed: bool = True) -> Graph:
    """Import, and compare every layer that the file names for two inputs."""
    graph = parse(b.save(folder / "net.onnx"), FrontendOptions(8, signed))
    named = [op for op in graph.ops if op.tensor]
    assert b.value in {op.tensor for op in named}
    for seed in (1, 2):
        values = random_inputs(graph, seed)
        got = run_reference(graph, values)
        image = in_file_order(graph, "input", values["input"]).reshape(b.shapes[b.input])
        expected = values_of(b, image, [op.tensor for op in named])
        for op in named:
            found = in_file_order(graph, op.output, got[op.output])
            np.testing.assert_array_equal(found, expected[op.tensor].reshape(-1), op.tensor)
    return graph


def in_file_order(graph: Graph, name: str, values: np.ndarray) -> np.ndarray:
    """Return the elements of a tensor, shape (C, H, W), in the order of the file."""
    form = graph.forms.get(name)
    return values.transpose((1, 2, 0) if form is None else form.order).reshape(-1)


def as_given(graph: Graph, name: str, values: np.ndarray) -> np.ndarray:
    """Return the values of an input, in the order of the file, as (C, H, W)."""
    shape, order = graph.tensors[name].shape, graph.forms[name].order
    turned = values.reshape([shape[axis] for axis in order])
    return turned.transpose([order.index(axis) for axis in range(3)])


def refused(b: DeeployBuilder, folder: Path, reason: str) -> None:
    """Assert that an import is refused for a reason, with a hint."""
    with pytest.raises(NotSupported, match=reason) as caught:
        parse(b.save(folder / "net.onnx"), FrontendOptions(8, True))
    assert caught.value.hint
