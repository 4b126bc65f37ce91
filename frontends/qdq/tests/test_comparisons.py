"""Comparisons of tensors and constants, and operators of their truth values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_qdq.importer import import_file
from dory_qdq.testing import Builder, infer, write_golden
from dory_qdq.testing.builder import Tensor

from dory_core.api import NotSupported
from dory_core.testing import CompileOptions, compile_network, make_vectors
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

IMAGE = (1, 4, 16, 16)
COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")
#: Equal scales, a multiple, one whose reals are never equal but for 0, and one beyond the other.
SCALES = [(0.02, 0.02), (0.02, 0.06), (0.0625, 0.03125), (0.0173, 0.0229), (0.5, 0.001)]
Truths = Callable[[Builder, Tensor, Tensor], list[str]]


def _network(truths: Truths, second: tuple[int, ...], scales: tuple[float, float]) -> bytes:
    """Return a network that compares a tensor of all bytes with another one of some shape."""
    b = Builder(np.random.default_rng(3))
    first = b.quantised(b.input(IMAGE).name, IMAGE, scales[0], 100)
    other = b.quantised(b.input(second).name, second, scales[1], 90)
    outputs = []
    for name in truths(b, first, other):
        y = b.quantised(b.node("Cast", [name], to=1), IMAGE, 1.0, 0)
        outputs.append((y.stored, IMAGE))
    return b.model(outputs)


def _compared(data: bytes, folder: Path) -> None:
    """Compare every layer with onnxruntime's."""
    (folder / "net.onnx").write_bytes(data)
    golden = write_golden(infer(data, folder, 1, 3).golden, folder / "golden.npz")
    graph = import_file(folder / "net.onnx").graph
    _, report = make_vectors(graph, [golden])
    assert report is not None and report.apart == ()
    outputs = {op.tensor for op in graph.ops if op.output in graph.outputs}
    assert outputs <= {layer.tensor for layer in report.layers}


def _both_ways(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    return [
        b.node(op, names) for op in COMPARISONS for names in ([x.name, y.name], [y.name, x.name])
    ]


def _constants(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    """Constants that the tensor reaches, that it passes, and beyond its ends."""
    found = []
    for shape in ((4, 1, 1), (16, 1), IMAGE):
        steps = b.rng.integers(-130, 190, shape).astype(np.float32)
        for values in (
            steps * np.float32(x.scale),
            (steps + np.float32(0.5)) * np.float32(x.scale),
        ):
            other = b.constant(values)
            found += [b.node(op, [x.name, other]) for op in COMPARISONS]
            found.append(b.node("Less", [other, x.name]))
    return found


def _joined(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    one, other = (b.node("Less", [v.name, b.constant(np.float32(0.3))]) for v in (x, y))
    third = b.node("Greater", [x.name, y.name])
    found = [b.node(op, [one, other]) for op in ("And", "Or", "Xor")]
    found += [b.node(op, [third, b.node("Not", [one])]) for op in ("And", "Or", "Xor")]
    return [*found, b.node("Or", [b.truths(IMAGE), found[0]])]


@pytest.mark.sample(2)
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("second", [IMAGE, (1, 4, 1, 1), (1, 1, 16, 16)], ids=str)
def test_tensors_of_any_scales(
    second: tuple[int, ...], scales: tuple[float, float], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    _compared(_network(_both_ways, second, scales), tmp_path)


@pytest.mark.parametrize("truths", [_constants, _joined])
def test_constants_of_any_shape_and_several_comparisons(truths: Truths, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    _compared(_network(truths, IMAGE, (0.02, 0.03)), tmp_path)


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
def test_comparisons_run(target: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")

    def some(b: Builder, x: Tensor, y: Tensor) -> list[str]:
        greater, equal = (b.node(op, [x.name, y.name]) for op in ("Greater", "Equal"))
        return [
            b.node("Or", [equal, b.node("Less", [x.name, b.constant(np.float32(-1))])]),
            greater,
        ]

    data = _network(some, (1, 4, 1, 16), (0.02, 0.0137))
    (tmp_path / "net.onnx").write_bytes(data)
    golden = write_golden(infer(data, tmp_path, 1).golden, tmp_path / "golden.npz")
    options = CompileOptions(tmp_path / "net.onnx", target, "qdq", tmp_path / "a", (golden,))
    compile_network(options, load_plugins())
    assert_exact(tmp_path / "a", plugins=load_plugins())


def _not_a_number(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    return [b.node("Less", [x.name, b.constant(np.full(4, np.nan, np.float32).reshape(4, 1, 1))])]


def _too_many(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    return [b.node("Less", [x.name, b.constant(np.ones((2, *IMAGE), np.float32))])]


def _of_reals(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    return [b.node("And", [b.node("Less", [x.name, y.name]), b.constant(np.ones(IMAGE, np.bool_))])]


@pytest.mark.parametrize(
    ("truths", "words"),
    [
        (_not_a_number, "with a constant of shape [4, 1, 1], or with what is no number"),
        (_too_many, "with a constant of shape [2, 1, 4, 16, 16]"),
        (_of_reals, "is no comparison"),
    ],
)
def test_what_cannot_be_is_refused(truths: Truths, words: str, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(_network(truths, IMAGE, (0.02, 0.03)))
    with pytest.raises(NotSupported) as caught:
        import_file(tmp_path / "net.onnx")
    assert words in caught.value.message and caught.value.hint
