"""A network as a file of the toy frontend, with its golden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dory_core.ir import Graph, Window, reference, requant
from dory_core.ir.text import graph_text
from dory_core.testing.graphs import GraphBuilder

LAYERS = 8
POINT = Window(kernel=(1, 1))
AROUND = Window(kernel=(3, 3), pads=(1, 1, 1, 1))


def write_network(folder: Path) -> tuple[Path, Path]:
    """Write net.txt, of eight layers with a residual, and golden.npz; return both."""
    builder = GraphBuilder((3, 24, 24), seed=5, name="net")
    builder.conv(8, Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    builder.conv(8, AROUND, groups=8)
    builder.conv(16, POINT)
    pooled = builder.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    convolved = builder.conv(16, AROUND)
    steps = (requant(1, 0, 128), requant(3, 1, 7, 0, 255))
    builder.add(convolved, pooled, requants=steps)
    builder.avg_pool(Window(kernel=builder.shape_of(builder.last)[1:]))
    builder.linear(10)
    graph = replace(builder.graph(), reference="toys")
    return save(graph, folder), write_golden(graph, folder / "golden.npz")


def save(graph: Graph, folder: Path) -> Path:
    """Write a network for the toy frontend and return its file."""
    path = folder / "net.txt"
    path.write_text(graph_text(graph, constants=True), encoding="utf-8")
    return path


def write_golden(graph: Graph, path: Path) -> Path:
    """Write the values of every layer for a random input."""
    inputs = reference.random_inputs(graph, seed=0)
    values = {name: _hwc(array) for name, array in reference.run(graph, inputs).items()}
    np.savez(path, **{name: values[name] for name in ("input", *(op.output for op in graph.ops))})
    return path


def _hwc(values: np.ndarray) -> np.ndarray:
    """Flatten (C, H, W) in HWC order."""
    return np.moveaxis(values, 0, -1).reshape(-1).astype(np.int64)
