"""Arithmetic of binary32: fused steps are exact, and a layer normalisation is onnxruntime's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_features__

from dory_core.ir.binary32 import (
    PACKET,
    Floats,
    fused,
    instance_norm,
    layer_norm,
    norm_in_order,
    norm_in_packets,
    single,
)


def rounded(exact: Fraction) -> np.float32:
    """The nearest number of binary32, ties to even, by comparing with its neighbours."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]

    def distance(value: np.float32) -> tuple[Fraction, int]:
        return abs(Fraction(float(value)) - exact), int(value.view(np.int32)) & 1

    return min((near, *around), key=distance)


def test_a_fused_step_is_rounded_once() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (single(rng.normal(size=3000) * 2.0 ** rng.integers(-9, 9, 3000)) for _ in range(3))
    a[:1000] = single(rng.integers(-(1 << 12), 1 << 12, 1000))
    b[:1000] = 1 + single(rng.integers(-4, 4, 1000)) / (1 << 13)
    c[:1000] = single(2.0 ** rng.integers(-60, 30, 1000)) * rng.choice([-1, 1], 1000)
    found = fused(a, b, c)
    for n in range(3000):
        x, y, z = (Fraction(float(v[n])) for v in (a, b, c))
        assert found[n] == rounded(x * y + z), n


def test_two_roundings_would_not_do() -> None:
    """A product in the middle of two numbers, and a summand below the digits of binary64."""
    a, b = single([1 + 2.0**-12]), single([1 + 2.0**-12])
    c = single([2.0**-70])
    product = a.astype(np.float64) * b
    assert fused(a, b, c) != single(product + c)
    assert fused(a, b, -c) == single(product - c)


@pytest.mark.skipif(not __cpu_features__["AVX2"], reason="onnxruntime adds up in another order")
@pytest.mark.parametrize("length", [*range(8, 28), 32, 100, 257, 768])
def test_layer_norm_is_that_of_onnxruntime(length: int) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    rng = np.random.default_rng(length)
    for epsilon in (1e-5, 1e-12):
        for _ in range(3):
            zero, scale = rng.integers(-128, 128), np.float32(rng.uniform(0.001, 0.2))
            x = single((rng.integers(-128, 128, (200, length)) - zero) * scale)
            weights = single(rng.normal(1, 0.3, length))
            bias = single(rng.normal(0, 0.3, length)) if rng.random() < 0.7 else None
            expected = normalised(x, weights, bias, epsilon)
            found = layer_norm(x.T[..., None], weights, bias, epsilon)[..., 0].T
            np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(not __cpu_features__["AVX2"], reason="onnxruntime adds up in another order")
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 31, 100, 257])
def test_norms_without_a_mean_are_those_of_onnxruntime(length: int) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    rng = np.random.default_rng(length)
    weights = single(rng.normal(1, 0.3, length))
    x = single(
        (rng.integers(-128, 128, (300, length)) - rng.integers(-128, 128)) * np.float32(0.07)
    )
    x[0] = 0
    columns, epsilon = x.T[..., None], 1e-5
    given = {"x": x, "weights": weights}
    expected = computed("SimplifiedLayerNormalization", given, axis=-1, epsilon=epsilon)
    if length < 16:
        found = norm_in_order(columns, weights, epsilon, of_mean=True)
    else:
        found = layer_norm(columns, weights, None, epsilon, centred=False)
    np.testing.assert_array_equal(found[..., 0].T, expected)
    if length % PACKET == 0:
        for by in ("Div", "Mul"):
            found = norm_in_packets(columns, weights, epsilon, by_inverse=by == "Mul")
            np.testing.assert_array_equal(found[..., 0].T, written_out(x, weights, by))
    found = norm_in_order(columns, np.ones(length, np.float32), 0.0, of_mean=False)
    np.testing.assert_array_equal(found[..., 0].T, computed("LpNormalization", {"x": x}, axis=-1))


@pytest.mark.skipif(not __cpu_features__["AVX2"], reason="onnxruntime adds up in another order")
@pytest.mark.parametrize("length", [*range(1, 27), 100, 131, 1003])
def test_instance_norm_is_that_of_onnxruntime(length: int) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    rng, channels = np.random.default_rng(length), 60
    stored = rng.integers(-128, 128, (1, channels, length)) - rng.integers(-128, 128)
    given = {
        "x": single(stored * np.float32(0.0371)),
        "weights": single(rng.normal(1, 0.3, channels)),
        "bias": single(rng.normal(0, 0.3, channels)),
    }
    starts = -np.arange(channels) * length % PACKET
    x, weights, bias = given.values()
    found = instance_norm(x[0], weights, bias, 1e-5, starts)
    expected = computed("InstanceNormalization", given, epsilon=1e-5)[0]
    np.testing.assert_array_equal(found, expected)


def normalised(x: Floats, weights: Floats, bias: Floats | None, epsilon: float) -> Floats:
    """What onnxruntime computes of rows."""
    given = {"x": x, "weights": weights} | ({} if bias is None else {"bias": bias})
    return computed("LayerNormalization", given, axis=-1, epsilon=epsilon)


def written_out(x: Floats, weights: Floats, by: str) -> Floats:
    """What onnxruntime computes of an RMS normalisation in operators of their own."""
    mean = computed("ReduceMean", {"x": x * x}, axes=[-1], keepdims=1)
    root = np.sqrt(mean + single(1e-5))
    return np.asarray((x / root if by == "Div" else x * (single(1) / root)) * weights)


def computed(op: str, given: dict[str, Floats], **attributes: object) -> Floats:
    """What onnxruntime computes of an operator."""
    import onnxruntime
    from onnx import TensorProto, helper

    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, v.shape) for name, v in given.items()
    ]
    node = helper.make_node(op, list(given), ["y"], **attributes)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, given["x"].shape)
    graph = helper.make_graph([node], "norm", infos, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    [found] = session.run(None, given)
    return np.asarray(found)
