"""DIV of bytes: every quotient, tables of them, products, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import NotSupported
from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins
from frontends.tflite.tests.test_against_tflite_micro import differing

SHAPE = (1, 4, 4, 3)
FILE = Path("net.tflite")
BYTES = np.arange(-128, 128, dtype=np.int8)


def softsign(b: TfliteBuilder, x: int) -> int:
    """Append x / (1 + |x|) as Keras' converter writes it."""
    one = b.constant(np.array(127, np.int8), [1 / 255], [-128])
    size, below, y = (b.tensor(SHAPE, *q) for q in ((0.03, -128), (0.034, -128), (1 / 128, 0)))
    b.operator("ABS", [x], [size])
    b.operator("ADD", [size, one], [below])
    b.operator("DIV", [x, below], [y])
    return y


@pytest.mark.parametrize("zeros", [(3, -20, 5), (-128, -128, -128), (127, 0, -7)])
@pytest.mark.parametrize("scales", [(0.05, 0.02, 0.01), (0.01, 0.01, 2.0**-7), (0.3, 0.003, 0.1)])
def test_every_quotient_of_two_bytes_is_that_of_the_interpreter(
    scales: tuple[float, float, float], zeros: tuple[int, int, int]
) -> None:
    """Also those over 0."""
    b = TfliteBuilder()
    first, second, third = ((float(np.float32(s)), z) for s, z in zip(scales, zeros, strict=True))
    above, below = (b.input((1, 256, 256, 1), *q) for q in (first, second))
    y = b.tensor((1, 256, 256, 1), *third)
    b.operator("DIV", [above, below], [y])
    data = b.build([y])
    pairs = np.meshgrid(BYTES, BYTES, indexing="ij")
    given = {n: values.reshape(1, 256, 256, 1) for n, values in enumerate(pairs)}
    assert differing(data, inputs=given) == []


def test_softsign_is_one_table() -> None:
    b = TfliteBuilder()
    data = b.build([softsign(b, b.input(SHAPE, 0.03, 5))])
    graph = import_model(model_of(data, FILE)).graph
    assert [(op.kind, op.index) for op in graph.ops] == [("Lut", 0)]


Operands = Callable[[TfliteBuilder, int], list[int]]


def _two_tensors(b: TfliteBuilder, x: int) -> list[int]:
    return [x, b.input(SHAPE, 0.02, 4)]


def _repeated(b: TfliteBuilder, x: int) -> list[int]:
    return [b.input((1, 1, 1, 3), 0.02, 4), x]


def _repeated_divisor(b: TfliteBuilder, x: int) -> list[int]:
    return [x, b.input((1, 4, 1, 3), 0.02, 4)]


def _constant_of_channels(b: TfliteBuilder, x: int) -> list[int]:
    return [x, b.constant(np.array([5, -6, 100], np.int8), [0.02])]


def _constant_dividend(b: TfliteBuilder, x: int) -> list[int]:
    values = np.arange(-24, 24).reshape(SHAPE) * 5
    return [b.constant(values.astype(np.int8), [0.02], [-3]), x]


def _repeated_by_a_constant(b: TfliteBuilder, x: int) -> list[int]:
    return [b.input((1, 1, 4, 3), 0.02, 4), b.constant(np.full((1, 4, 1, 1), 5, np.int8), [0.02])]


def _network(operands: Operands, factor: float) -> tuple[bytes, int]:
    """Return a network with a DIV whose scales have this factor, and its output."""
    b = TfliteBuilder()
    inputs = operands(b, b.input(SHAPE, 0.01, 3))
    first, second = (b.tensors[n].scales[0] for n in inputs)
    y = b.tensor(SHAPE, first / second / factor, -7)
    b.operator("DIV", inputs, [y])
    return b.build([y]), y


OPERANDS = (
    *(_two_tensors, _repeated, _repeated_divisor, _constant_of_channels, _constant_dividend),
    _repeated_by_a_constant,
)


@pytest.mark.parametrize("operands", OPERANDS)
def test_a_quotient_of_two_tensors_is_a_product_with_a_table(operands: Operands) -> None:
    data, _ = _network(operands, 100.0)
    graph = import_model(model_of(data, FILE)).graph
    assert graph.ops[-1].kind == "Mul"
    for seed in range(5):
        assert differing(data, seed) == []


@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
def test_a_quotient_of_two_tensors_runs(target: str, tmp_path: Path) -> None:
    data, _ = _network(_repeated_divisor, 100.0)
    model, golden = model_of(data, FILE), tmp_path / "golden.npz"
    (tmp_path / "net.tflite").write_bytes(data)
    given = [random_inputs(model, np.random.default_rng(seed)) for seed in (1, 2)]
    np.savez(golden, **golden_arrays(data, model, given))
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "a", (golden,))
    assert compile_network(options, load_plugins()).golden_exact
    assert_exact(tmp_path / "a", plugins=load_plugins())


def _large_dividend(b: TfliteBuilder, x: int) -> list[int]:
    return [b.input(SHAPE, 0.02, -128), b.input(SHAPE, 0.02, -128)]


def _other_constant(b: TfliteBuilder, x: int) -> list[int]:
    return [x, b.constant(np.full((1, 4, 4, 2), 5, np.int8), [0.02])]


@pytest.mark.parametrize(
    ("operands", "factor", "words"),
    [
        (_two_tensors, 25.0, "scales that bring quotients to a factor of 25"),
        # Of the dividend 0 as well the interpreter shifts by 32 bits.
        (_large_dividend, 63.999, "scales that bring quotients to a factor of 64"),
        (_large_dividend, 135.9, "no products of 32 bits with a table of the divisor"),
        (_other_constant, 100.0, "a constant of shape [1, 4, 4, 2] for [1, 4, 4, 3]"),
    ],
)
def test_other_quotients_are_refused(operands: Operands, factor: float, words: str) -> None:
    with pytest.raises(NotSupported) as caught:
        import_model(model_of(_network(operands, factor)[0], FILE))
    assert words in caught.value.message
    assert "constant" in words or "multiply by the inverse of the divisor" in caught.value.hint
