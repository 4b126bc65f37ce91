"""Random files: every tensor equals TensorFlow Lite Micro's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dory_tflite.desktop import with_outputs
from dory_tflite.golden import Interpreter, computed_tensors, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.model import Model, Subgraph
from dory_tflite.places import file_values
from dory_tflite.reader import model_of
from dory_tflite.testing import MORE_OPERATIONS, OPERATIONS, OTHERS, TfliteBuilder, random_network

from dory_core.testing import run_reference
from tests.nets import converted_net

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")


Inputs = dict[int, npt.NDArray[Any]]
#: Scales of an input and an output whose quotient in binary32 is rounded over ties.
FLOATS = (0.003230855567380786, 0.011487486772239208)
#: Those whose quotient has another mantissa of 16 bits.
HALVES = (0.031148724257946014, 0.07568872720003128)


def of_micro(data: bytes, model: Model, inputs: Inputs) -> Inputs:
    """Return every computed tensor of TensorFlow Lite Micro."""
    return Interpreter(data, model).run(inputs)


def of_lite(data: bytes, model: Model, inputs: Inputs) -> Inputs:
    """Return every computed tensor of LiteRT's reference kernels."""
    lite = pytest.importorskip("ai_edge_litert.interpreter", reason="no ai-edge-litert")
    indices = computed_tensors(model.subgraphs[0])
    found = lite.Interpreter(
        model_content=with_outputs(data, indices),
        experimental_op_resolver_type=lite.OpResolverType.BUILTIN_REF,
    )
    found.allocate_tensors()
    for index, values in inputs.items():
        found.set_tensor(index, values)
    found.invoke()
    return {index: found.get_tensor(index) for index in indices}


def is_unread(subgraph: Subgraph, index: int) -> bool:
    """Return True when only tables, which are made from the bytes before, depend on a tensor."""
    readers = [op for op in subgraph.operators if index in op.inputs]
    return index not in subgraph.outputs and all(
        op.code in ("SELECT_V2", "DIV") or all(is_unread(subgraph, n) for n in op.outputs)
        for op in readers
    )


def differing(
    data: bytes,
    seed: int = 0,
    run: Callable[[bytes, Model, Inputs], Inputs] = of_micro,
    inputs: Inputs | None = None,
) -> list[str]:
    """Return the tensors that differ, by their operator. inputs: by default random ones."""
    model = model_of(data, Path(f"net_{seed}.tflite"))
    subgraph = model.subgraphs[0]
    imported = import_model(model)
    inputs = inputs or random_inputs(model, np.random.default_rng(seed))
    expected = run(data, model, inputs)
    given = {}
    for index, values in inputs.items():
        if index not in imported.tensors:
            continue
        kind = imported.graph.tensors[imported.tensors[index].name]
        shape = (kind.height, kind.width, kind.channels)
        given[kind.name] = values.astype(np.int64).reshape(shape).transpose(2, 0, 1)
    values = run_reference(imported.graph, given)
    producers = {index: op.code for op in subgraph.operators for index in op.outputs}
    found = []
    for index, wanted in expected.items():
        if index not in imported.tensors:  # batches of a dilated convolution, or nothing reads it
            batches = ("SPACE_TO_BATCH_ND", "CONV_2D", "DEPTHWISE_CONV_2D")
            assert producers[index] in batches or is_unread(subgraph, index)
            continue
        bound = imported.tensors[index]
        got = file_values(subgraph.tensors[index], bound, values[bound.name])
        # Tables of reals are exact where they become integers; the C library may round otherwise.
        near = wanted.dtype == np.float32 and np.allclose(got, wanted, rtol=2e-7, equal_nan=True)
        if not near and not np.array_equal(got, wanted):
            wrong = np.count_nonzero(got != wanted)
            found.append(f"{producers[index]} t{index}: {wrong} of {wanted.size}")
    return found


@pytest.mark.parametrize("operation", sorted(OPERATIONS | MORE_OPERATIONS))
def test_single_operators(operation: str) -> None:
    for seed in range(4):
        assert differing(random_network(seed, only=operation), seed) == [], seed


@pytest.mark.parametrize("operation", sorted(OTHERS))
def test_operators_that_only_lite_has(operation: str) -> None:
    for seed in range(6):
        assert differing(random_network(seed, only=operation), seed, of_lite) == [], seed


@pytest.mark.parametrize("seed", range(10))
def test_networks_of_several_operators(seed: int) -> None:
    assert differing(random_network(1000 + seed, operations=6), seed) == []


@pytest.mark.parametrize("seed", [5091, 5118], ids=["pads_below_the_storage", "large_scale"])
def test_networks_that_were_refused(seed: int) -> None:
    assert differing(random_network(seed, operations=3 + seed % 8), seed) == []


def test_group_normalisation_of_keras() -> None:
    """What today's converter makes of it: single operators, with a negation of reals."""
    data = converted_net("groupnorm").read_bytes()
    for seed in range(3):
        assert differing(data, seed) == [], seed


def _near_ties(code: str) -> bytes:
    """Return an operator whose factor, as a quotient of floats, is on the other side of ties."""
    b = TfliteBuilder()
    zeros, scales = (3, -10) if code == "HARD_SWISH" else (0, 0), FLOATS
    if code == "HARD_SWISH":
        scales = HALVES
    x, y = (
        add((1, 16, 16, 1), scale, zero)
        for add, scale, zero in zip((b.input, b.tensor), scales, zeros, strict=True)
    )
    b.operator(code, (x,), (y,), **({"Alpha": 0.5} if code == "LEAKY_RELU" else {}))
    return b.build((y,))


@pytest.mark.parametrize("code", ["RELU", "ABS", "LEAKY_RELU", "HARD_SWISH"])
def test_factors_are_quotients_of_doubles(code: str) -> None:
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16, 1)
    assert differing(_near_ties(code), inputs={0: values}) == []


def test_an_input_in_another_order_and_in_another_shape() -> None:
    """Two readers of one input: neither changes what the other one takes for its axes."""
    b = TfliteBuilder()
    x = b.input((1, 4, 6), 0.05, 3)
    turned, wide = b.tensor((1, 6, 4), 0.05, 3), b.tensor((1, 1, 2, 12), 0.05, 3)
    b.operator("TRANSPOSE", (x, b.constant(np.array((0, 2, 1), np.int32))), (turned,))
    shape = (1, 1, 2, 12)
    b.operator("RESHAPE", (x, b.constant(np.array(shape, np.int32))), (wide,), NewShape=shape)
    tables = [b.tensor(one, 0.08, 0) for one in (shape, (1, 6, 4))]
    b.operator("HARD_SWISH", (wide,), (tables[0],))
    b.operator("HARD_SWISH", (turned,), (tables[1],))
    assert differing(b.build(tables)) == []


@pytest.mark.slow
@pytest.mark.parametrize("operation", sorted(OPERATIONS | MORE_OPERATIONS))
def test_many_single_operators(operation: str) -> None:
    for seed in range(100, 140):
        assert differing(random_network(seed, only=operation), seed) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("block", range(30))
def test_many_networks_of_several_operators(block: int) -> None:
    for seed in range(5000 + 10 * block, 5010 + 10 * block):
        assert differing(random_network(seed, operations=3 + seed % 8), seed) == [], seed
