"""State of files: sequences of inferences equal TensorFlow Lite Micro's, in applications too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import Graph, NotSupported
from dory_core.testing import CompileOptions, compile_network, run_application, run_reference
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")

INFERENCES = 6
SCALE = 0.05


def ring(initial: str = "constant") -> bytes:
    """The last four rows of the inputs, a depthwise layer over them, and a sum that runs on."""
    random = np.random.default_rng(5)
    b = TfliteBuilder()
    x = b.input((1, 2, 1, 8), SCALE, -3)
    rows, sums = b.handle("rows"), b.handle("sums")
    old, total = b.tensor((1, 4, 1, 8), SCALE, -3), b.tensor((1, 1, 1, 8), SCALE, 4)
    b.operator("READ_VARIABLE", (rows,), (old,))
    seen = b.tensor((1, 6, 1, 8), SCALE, -3)
    b.operator("CONCATENATION", (old, x), (seen,), Axis=1)
    kept = b.tensor((1, 4, 1, 8), SCALE, -3)
    ends = [b.constant(np.array(v, np.int32)) for v in ((0, 2, 0, 0), (1, 6, 1, 8), (1, 1, 1, 1))]
    b.operator("STRIDED_SLICE", (seen, *ends), (kept,))
    b.operator("ASSIGN_VARIABLE", (rows, kept), ())
    weights = b.constant(random.integers(-127, 128, (1, 6, 1, 8)).astype(np.int8), (0.01,))
    bias = b.constant(random.integers(-500, 500, 8).astype(np.int32), (0.01 * SCALE,))
    y = b.tensor((1, 1, 1, 8), 0.08, 4)
    b.operator(
        "DEPTHWISE_CONV_2D",
        (seen, weights, bias),
        (y,),
        Padding="VALID",
        StrideH=1,
        StrideW=1,
        DepthMultiplier=1,
    )
    b.operator("READ_VARIABLE", (sums,), (total,))
    after = b.tensor((1, 1, 1, 8), SCALE, 4)
    b.operator("ADD", (y, total), (after,))
    b.operator("ASSIGN_VARIABLE", (sums, after), ())
    if initial == "constant":
        b.initial("rows", b.constant(np.full((1, 4, 1, 8), 7, np.int8), (SCALE,), (-3,)))
    elif initial == "table":
        values = random.integers(-128, 128, (1, 4, 1, 8)).astype(np.int8)
        b.initial("rows", b.constant(values, (SCALE,), (-3,)))
    return b.build((after,))


def golden(data: bytes, file: Path) -> Path:
    model = model_of(data, Path("net.tflite"))
    random = np.random.default_rng(1)
    inferences = [random_inputs(model, random) for _ in range(INFERENCES)]
    np.savez(file, **golden_arrays(data, model, inferences))
    return file


def imported(data: bytes) -> Graph:
    return import_model(model_of(data, Path("net.tflite"))).graph


def test_variables_begin_with_what_is_assigned_once_else_with_the_zero_point() -> None:
    states = {s.name: s.initial.values for s in imported(ring()).states}
    assert {name: set(values.flat) for name, values in states.items()} == {
        "/rows": {7},
        "/sums": {4},
    }


@pytest.mark.parametrize(
    ("target", "initial"),
    [
        ("gap8", "table"),
        ("stm32h7", "constant"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("gap8", "constant"),
                ("stm32h7", "table"),
                ("gap8", "zero point"),
                ("stm32h7", "zero point"),
            )
        ),
    ],
)
def test_sequences_are_exact_with_a_reset_between(
    target: str, initial: str, tmp_path: Path
) -> None:
    data, plugins = ring(initial), load_plugins()
    (tmp_path / "net.tflite").write_bytes(data)
    first = golden(data, tmp_path / "golden.npz")
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "app", (first,))
    assert compile_network(options, plugins).golden_exact
    assert_exact(tmp_path / "app", plugins=plugins)
    # Two sequences: the second one begins anew.
    result = run_application(
        tmp_path / "app", plugins=plugins, golden=(first, first), runner="host", dma="random"
    )
    assert result.exact and len(result.runs) == 2 * INFERENCES


def test_sequence_with_a_wrong_state_is_refused(tmp_path: Path) -> None:
    """A golden whose third inference did not find what the second one left."""
    data, plugins = ring(), load_plugins()
    (tmp_path / "net.tflite").write_bytes(data)
    with np.load(golden(data, tmp_path / "golden.npz")) as archive:
        arrays = dict(archive)
    swapped = {
        key.replace("3__", "4__") if "3__" in key else key.replace("4__", "3__"): values
        for key, values in arrays.items()
    }
    np.savez(tmp_path / "wrong.npz", **swapped)
    options = CompileOptions(
        tmp_path / "net.tflite", "gap8", "tflite", tmp_path / "app", (tmp_path / "wrong.npz",)
    )
    with pytest.raises(Exception, match="in run 3: layer"):
        compile_network(options, plugins)


def shifted(read_back: bool) -> bytes:
    """A delay of two inferences: the older variable takes what the newer one was."""
    b = TfliteBuilder()
    x = b.input((1, 1, 1, 4), SCALE, 0)
    new, old = b.handle("new"), b.handle("old")
    tensors = [b.tensor((1, 1, 1, 4), SCALE, 0) for _ in range(2)]
    b.operator("READ_VARIABLE", (new,), (tensors[0],))
    b.operator("READ_VARIABLE", (old,), (tensors[1],))
    y = b.tensor((1, 1, 1, 4), SCALE, 0)
    b.operator("ADD", (x, tensors[1]), (y,))
    b.operator("ASSIGN_VARIABLE", (old, tensors[0]), ())
    b.operator("ASSIGN_VARIABLE", (new, x), ())
    return b.build((y, tensors[1]) if read_back else (y,))


@pytest.mark.parametrize("read_back", [False, True])
def test_variables_may_be_assigned_what_others_were(read_back: bool, tmp_path: Path) -> None:
    data, plugins = shifted(read_back), load_plugins()
    (tmp_path / "net.tflite").write_bytes(data)
    first = golden(data, tmp_path / "golden.npz")
    options = CompileOptions(tmp_path / "net.tflite", "gap8", "tflite", tmp_path / "app", (first,))
    assert compile_network(options, plugins).golden_exact
    assert_exact(tmp_path / "app", plugins=plugins)


def test_variable_of_another_type_than_its_value_is_refused() -> None:
    b = TfliteBuilder()
    x, handle = b.input((1, 1, 1, 4), SCALE, 0), b.handle("v")
    read = b.tensor((1, 1, 1, 2), SCALE, 0)
    b.operator("READ_VARIABLE", (handle,), (read,))
    y = b.tensor((1, 1, 1, 4), SCALE, 0)
    b.operator("ADD", (x, x), (y,))
    b.operator("ASSIGN_VARIABLE", (handle, y), ())
    with pytest.raises(NotSupported, match=r"variable '/v'.*of 4 INT8 is assigned"):
        imported(b.build((y,)))


def reader(assigned: bool) -> bytes:
    """A variable that is read and maybe not assigned, and one that is assigned and not read."""
    b = TfliteBuilder()
    x, seen, unread = b.input((1, 1, 1, 4), SCALE, 0), b.handle("seen"), b.handle("unread")
    old, y = (b.tensor((1, 1, 1, 4), SCALE, 0) for _ in range(2))
    b.operator("READ_VARIABLE", (seen,), (old,))
    b.operator("ADD", (x, old), (y,))
    b.operator("ASSIGN_VARIABLE", (unread, y), ())
    if assigned:
        b.operator("ASSIGN_VARIABLE", (seen, y), ())
    b.initial("seen", b.constant(np.full((1, 1, 1, 4), 3, np.int8), (SCALE,)))
    return b.build((y,))


def test_variable_that_nobody_reads_is_left_out() -> None:
    assert [state.name for state in imported(reader(assigned=True)).states] == ["/seen"]


def test_variable_that_nobody_assigns_keeps_its_value(tmp_path: Path) -> None:
    graph = imported(reader(assigned=False))
    (state,) = graph.states
    values = {name: np.ones(graph.tensors[name].shape, np.int64) for name in graph.inputs}
    assert np.array_equal(run_reference(graph, values)[state.written], state.initial.values)


@pytest.mark.parametrize(
    "first", [np.full((1, 1, 1, 4), 0.5, np.float32), np.full((1, 1, 1, 4), 300, np.int32)]
)
def test_first_values_of_another_type_are_refused(first: np.ndarray) -> None:
    b = TfliteBuilder()
    x, seen = b.input((1, 1, 1, 4), SCALE, 0), b.handle("seen")
    old, y = (b.tensor((1, 1, 1, 4), SCALE, 0) for _ in range(2))
    b.operator("READ_VARIABLE", (seen,), (old,))
    b.operator("ADD", (x, old), (y,))
    b.operator("ASSIGN_VARIABLE", (seen, y), ())
    b.initial("seen", b.constant(first))
    with pytest.raises(NotSupported, match=r"at first|first values"):
        imported(b.build((y,)))
