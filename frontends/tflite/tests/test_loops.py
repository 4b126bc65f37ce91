"""WHILE with a fixed number of steps: unrolled, and equal to TensorFlow Lite Micro."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.loops import unrolled
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import NotSupported
from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

SCALE, SHAPE = 0.05, (1, 4)


def integer(b: TfliteBuilder, value: int, *shape: int) -> int:
    return b.constant(np.full(shape, value, np.int32))


def condition(steps: int) -> tuple[TfliteBuilder, list[int]]:
    """The counter is less than a number."""
    b = TfliteBuilder()
    counter, _ = b.plain((), "INT32"), b.tensor(SHAPE, SCALE, 3)
    b.inputs += [0, 1]
    holds = b.plain((), "BOOL")
    b.operator("LESS", (counter, integer(b, steps)), (holds,))
    return b, [holds]


def body(step: int = 1) -> tuple[TfliteBuilder, list[int]]:
    """A dense layer of the value, and the counter."""
    b, random = TfliteBuilder(), np.random.default_rng(2)
    counter, x = b.plain((), "INT32"), b.tensor(SHAPE, SCALE, 3)
    b.inputs += [counter, x]
    weights = b.constant(random.integers(-90, 91, (4, 4)).astype(np.int8), [0.01], [0])
    bias = b.constant(random.integers(-900, 900, 4).astype(np.int32), [0.0005], [0])
    y, after = b.tensor(SHAPE, SCALE, 3), b.plain((), "INT32")
    b.operator("FULLY_CONNECTED", (x, weights, bias), (y,))
    b.operator("ADD", (counter, integer(b, step)), (after,))
    return b, [after, y]


def loop(steps: int = 3, start: int = 0, step: int = 1) -> bytes:
    b = TfliteBuilder()
    x = b.input(SHAPE, SCALE, 3)
    ends = b.plain((), "INT32"), b.tensor(SHAPE, SCALE, 3)
    parts = [b.part(*condition(steps)), b.part(*body(step))]
    b.operator(
        "WHILE",
        (integer(b, start), x),
        ends,
        CondSubgraphIndex=parts[0],
        BodySubgraphIndex=parts[1],
    )
    y = b.tensor(SHAPE, SCALE, 3)
    b.operator("RELU", (ends[1],), (y,))
    return b.build((y,))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("steps", "start", "step"), [(3, 0, 1), (7, 1, 2), (1, 1, 1)])
def test_a_loop_is_exact_in_applications(steps: int, start: int, step: int, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden is not installed")
    data = loop(steps, start, step)
    path, random = tmp_path / "net.tflite", np.random.default_rng(1)
    path.write_bytes(data)
    model = model_of(data, path)
    layers = [op.kind for op in import_model(model).graph.ops]
    assert layers.count("Linear") == len(range(start, steps, step))
    given = [random_inputs(model, random) for _ in range(2)]
    golden = tmp_path / "golden.npz"
    np.savez(golden, **golden_arrays(data, model, given))
    options = CompileOptions(path, "gap8", "tflite", tmp_path / "a", (golden,))
    compile_network(options, load_plugins())
    assert_exact(tmp_path / "a", plugins=load_plugins())


def refusal(data: bytes) -> NotSupported:
    with pytest.raises(NotSupported) as caught:
        unrolled(model_of(data, Path("net.tflite")))
    return caught.value


def test_operators_have_positions_of_their_own() -> None:
    network = unrolled(model_of(loop(), Path("net.tflite"))).subgraphs[0]
    positions = [op.position for op in network.operators]
    assert len({*positions}) == len(positions) == 4


def test_a_loop_that_never_ends_is_refused() -> None:
    assert "more than 1024 steps" in refusal(loop(step=0)).message


def test_a_condition_of_computed_values_is_refused() -> None:
    b = TfliteBuilder()
    counter = b.input((), SCALE, 0)
    x, ends = b.input(SHAPE, SCALE, 3), (b.tensor((), SCALE, 0), b.tensor(SHAPE, SCALE, 3))
    parts = [b.part(*condition(2)), b.part(*body())]
    options = {"CondSubgraphIndex": parts[0], "BodySubgraphIndex": parts[1]}
    b.operator("WHILE", (counter, x), ends, **options)
    error = refusal(b.build((ends[1],)))
    assert "depends on values that are computed" in error.message and "fixed number" in error.hint


@pytest.mark.parametrize("part", [0, 3, -1])
def test_a_loop_of_no_subgraph_is_refused(part: int) -> None:
    b = TfliteBuilder()
    x, ends = b.input(SHAPE, SCALE, 3), (b.plain((), "INT32"), b.tensor(SHAPE, SCALE, 3))
    options = {"CondSubgraphIndex": b.part(*condition(2)), "BodySubgraphIndex": part}
    b.operator("WHILE", (integer(b, 0), x), ends, **options)
    assert "subgraph" in refusal(b.build((ends[1],))).message


def test_a_layer_of_both_directions_names_the_way_out() -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 4, 3), SCALE, 3), b.tensor((1, 4, 10), SCALE, 3)
    b.operator("BIDIRECTIONAL_SEQUENCE_LSTM", (x,), (y,))
    with pytest.raises(NotSupported) as caught:
        import_model(model_of(b.build((y,)), Path("net.tflite")))
    assert "REVERSE_V2" in caught.value.hint
