"""What torch writes and onnxruntime's quantiser leaves in reals: `dory quantize` takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_onnx.testing import OnnxBuilder
from dory_qdq.importer import parse
from dory_qdq.quantize.choices import Choices
from dory_qdq.quantize.preparation import prepare
from dory_qdq.quantize.quality import left_in_float
from dory_qdq.quantize.quantiser import quantise
from dory_qdq.quantize.samples import read_samples

from dory_core.importing import FrontendOptions

ort = pytest.importorskip("onnxruntime", reason="the extra quantize is not installed")

IMAGE, STEPS, WIDE, HEADS = (3, 8, 8), 6, 48, 2
Build = Callable[[OnnxBuilder], None]
RANDOM = np.random.default_rng(0)
STATE = RANDOM.bit_generator.state


def weights(b: OnnxBuilder, *shape: int) -> str:
    return b.constant(RANDOM.standard_normal(shape) * 0.3)


def conv(b: OnnxBuilder, channels: int = 8) -> str:
    return b.node("Conv", b.value, weights(b, channels, 3, 3, 3), pads=[1, 1, 1, 1])


def normalised_input(b: OnnxBuilder) -> None:
    b.node("Sub", b.value, b.constant(np.float32([[[0.4]], [[0.5]], [[0.6]]])))
    b.node("Div", b.value, b.constant(np.float32([[[0.2]], [[0.3]], [[0.25]]])))
    conv(b)


def norm_before_convolution(b: OnnxBuilder) -> None:
    conv(b)
    b.node("Relu", b.value)
    norm = [b.constant(RANDOM.uniform(0.5, 1.5, 8)) for _ in range(4)]
    b.node("BatchNormalization", b.value, *norm, epsilon=0.01)
    b.node("Relu", b.value)


def root_mean_square(b: OnnxBuilder) -> None:
    x = b.node("MatMul", b.value, weights(b, 16, 16))
    square = b.node("Pow", x, b.constant(np.float32(2)))
    mean = b.node("ReduceMean", square, axes=[2], keepdims=1)
    root = b.node("Sqrt", b.node("Add", mean, b.constant(np.float32([1e-5]))))
    normal = b.node("Mul", x, b.node("Reciprocal", root))
    b.node("Mul", normal, weights(b, 16))
    b.node("MatMul", b.value, weights(b, 16, 4))


def layer_norm(axis: int, weights_first: bool = False) -> Build:
    def build(b: OnnxBuilder) -> None:
        if axis == 1:
            x, size = conv(b), 8
        else:
            x, size = b.node("MatMul", b.value, weights(b, 16, 16)), 16
        spread = (size, *([1, 1] if axis == 1 else []))
        scale, bias = weights(b, *spread), weights(b, *spread)
        centred = b.node("Sub", x, b.node("ReduceMean", x, axes=[axis], keepdims=1))
        square = b.node("Mul", centred, centred)
        variance = b.node("ReduceMean", square, axes=[axis], keepdims=1)
        root = b.node("Sqrt", b.node("Add", variance, b.constant(np.float32(1e-3))))
        if weights_first:
            normal = b.node("Div", b.node("Mul", scale, centred), root)
        else:
            inverse = b.node("Reciprocal", root)
            normal = b.node("Mul", b.node("Mul", centred, inverse), scale)
        b.node("Relu", b.node("Add", normal, bias))

    return build


def unit_length(b: OnnxBuilder) -> None:
    x = b.node("MatMul", b.value, weights(b, 16, 8))
    length = b.node("ReduceL2", x, axes=[2], keepdims=1)
    bounded = b.node("Clip", length, b.constant(np.float32(1e-12)))
    shape = b.constant([1, STEPS, 8], np.int64)
    b.node("Div", x, b.node("Expand", bounded, shape))


def differences(b: OnnxBuilder) -> None:
    x = conv(b)
    b.node("Sub", b.node("Abs", x), b.node("Neg", b.node("Relu", x)))


def attention(take: str, mask: float | None = None) -> Build:
    def build(b: OnnxBuilder) -> None:
        size = WIDE // 3 // HEADS
        x = b.node("MatMul", b.value, weights(b, 16, WIDE))
        whole = b.constant([1, STEPS, 3, HEADS, size], np.int64)
        turned = b.node("Transpose", b.node("Reshape", x, whole), perm=[2, 0, 3, 1, 4])
        first = b.constant([0], np.int64)
        parts = []
        for part in range(3):
            if take == "Gather":
                parts.append(b.node("Gather", turned, b.constant(np.int64(part), np.int64), axis=0))
                continue
            ends = [b.constant([n], np.int64) for n in (part, part + 1)]
            parts.append(b.node("Squeeze", b.node("Slice", turned, *ends, first), first))
        query, key, value = parts
        scores = b.node("MatMul", query, b.node("Transpose", key, perm=[0, 1, 3, 2]))
        if mask is not None:
            later = np.triu(np.full((STEPS, STEPS), mask, np.float32), 1)
            scores = b.node("Add", scores, b.constant(later))
        b.node("MatMul", b.node("Softmax", scores, axis=-1), value)

    return build


NETWORKS: dict[str, tuple[tuple[int, ...], Build]] = {
    "normalised input": (IMAGE, normalised_input),
    "norm before a convolution": (IMAGE, norm_before_convolution),
    "root mean square": ((STEPS, 16), root_mean_square),
    "layer norm, last": ((STEPS, 16), layer_norm(2)),
    "layer norm, last, weights first": ((STEPS, 16), layer_norm(2, weights_first=True)),
    "layer norm, channels": (IMAGE, layer_norm(1)),
    "layer norm, channels, weights first": (IMAGE, layer_norm(1, weights_first=True)),
    "unit length": ((STEPS, 16), unit_length),
    "differences": (IMAGE, differences),
    "attention, slices": ((STEPS, 16), attention("Slice")),
    "attention, gathers": ((STEPS, 16), attention("Gather")),
    "causal attention": ((STEPS, 16), attention("Slice", float(np.finfo(np.float32).min))),
    "masked attention": ((STEPS, 16), attention("Gather", -np.inf)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_quantised_as_a_whole(name: str, opset: int, tmp_path: Path) -> None:
    shape, build = NETWORKS[name]
    RANDOM.bit_generator.state = STATE
    builder = OnnxBuilder(shape, opset=opset)
    build(builder)
    path = tmp_path / "float.onnx"
    onnx.save(builder.model(), str(path))
    model = prepare(path)
    samples = np.random.default_rng(1).standard_normal((8, *shape)).astype(np.float32)
    np.savez(tmp_path / "data.npz", image=samples)
    read = read_samples(tmp_path / "data.npz", model.inputs)

    def results(data: bytes) -> Any:
        session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
        return [session.run(None, feed)[0] for feed in read.feeds()]

    before = results(path.read_bytes())
    after = results(model.proto.SerializeToString())
    assert np.allclose(before, after, atol=1e-4)
    proto = quantise(model, read, Choices(), "minmax")
    assert left_in_float(proto) == ()
    onnx.save(proto, str(tmp_path / "net.onnx"))
    assert parse(tmp_path / "net.onnx", FrontendOptions()).ops
    error = np.abs(np.array(results(proto.SerializeToString())) - before)
    assert error.mean() < 0.1 * np.abs(before).max(), "masks leave the scale room for the scores"
