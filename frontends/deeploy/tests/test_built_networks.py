"""Networks built here, compared element by element with the operator's formula."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dory_deeploy.dialect import parse
from dory_deeploy.testing import DeeployBuilder, values_of

from dory_core.api import Graph, ops
from dory_core.importing import FrontendOptions, requant
from dory_core.testing import random_inputs
from dory_core.testing import run_reference as run


def imported(builder: DeeployBuilder, folder: Path, signed: bool = False) -> Graph:
    return parse(builder.save(folder / "net.onnx"), FrontendOptions(8, signed))


def check(
    builder: DeeployBuilder, folder: Path, signed: bool = False, lively: bool = True
) -> Graph:
    """Import and compare every layer for two inputs; lively: no layer may be constant."""
    graph = imported(builder, folder, signed)
    assert len(graph.ops) == len(builder.layer_values)
    for seed in (1, 2):
        values = random_inputs(graph, seed)
        got = run(graph, values)
        image = values["input"].reshape(builder.shapes[builder.input])
        expected = values_of(builder, image, [op.tensor for op in graph.ops])
        for layer in graph.ops:
            tensor = graph.tensors[layer.output]
            wanted = expected[layer.tensor].reshape(tensor.shape)
            np.testing.assert_array_equal(got[layer.output], wanted, layer.output)
            if lively and tensor.elements > 8:
                assert len(np.unique(wanted)) > 2, f"{layer.tensor} shows nothing"
    return graph


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("domain", ["", "PACTOps"])
@pytest.mark.parametrize("old", [False, True], ids=["n_levels_out", "n_levels"])
def test_spellings_of_one_network(seed: int, domain: str, old: bool, tmp_path: Path) -> None:
    builder = DeeployBuilder((3, 12, 10), seed=seed, domain=domain, old=old)
    builder.conv(8, 3, stride=2, pads=1).maxpool(2).depthwise(pads=1, signed=True).linear(5)
    check(builder, tmp_path)


@pytest.mark.parametrize("levels", [2, 4, 16, 128, 256])
@pytest.mark.parametrize("signed", [False, True])
def test_levels_and_sign_are_the_clip(levels: int, signed: bool, tmp_path: Path) -> None:
    builder = DeeployBuilder((3, 8, 8)).conv(6, 3, signed=signed, levels=levels)
    step = imported(builder, tmp_path).ops[0].requants[0]
    assert (step.lo, step.hi) == ((-levels // 2, levels // 2 - 1) if signed else (0, levels - 1))
    if levels > 2:
        check(builder.conv(4, 1, requant=False), tmp_path)


def test_each_operand_of_an_add_keeps_its_step(tmp_path: Path) -> None:
    builder = DeeployBuilder((3, 8, 8)).conv(8, 1)
    branch = builder.value
    builder.conv(8, 3, pads=1, signed=True).add(branch).conv(4, 1)
    graph = check(builder, tmp_path)
    residual = graph.ops[2]
    assert isinstance(residual, ops.Add)
    one, other = residual.operand_requants
    assert one is None, "the step of the only reader belongs to the Conv before it"
    assert other is not None and (other.lo, other.hi) == (-128, 127)
    assert len(graph.ops[1].requants) == 2


def test_residual_of_the_network_input(tmp_path: Path) -> None:
    builder = DeeployBuilder((4, 6, 6), input_lo=-128, input_hi=127)
    builder.conv(4, 3, pads=1, signed=True).add(builder.input, signed=True)
    check(builder, tmp_path, signed=True)


def test_sum_without_requantisation_has_no_bounds(tmp_path: Path) -> None:
    builder = DeeployBuilder((4, 6, 6)).conv(4, 1)
    branch = builder.value
    builder.conv(4, 1).add(branch, requants=False).conv(3, 1, requant=False)
    graph = check(builder, tmp_path)
    assert graph.tensors["layer_02"].hi > 255


def test_a_step_that_changes_nothing_is_left_out(tmp_path: Path) -> None:
    builder = DeeployBuilder((3, 4, 4)).conv(4, 1, signed=True)
    builder.requant_shift(1 << 14, 0, 1 << 14, 256, signed=True)
    assert len(imported(builder, tmp_path).ops[0].requants) == 1


@pytest.mark.parametrize(
    ("mul", "levels", "kind"),
    [(40000, 256, "Lut"), (10 << 16, 65536, "AvgPool"), ([20000, 40000, 90000], 256, "AvgPool")],
)
def test_a_requantisation_by_itself(mul: Any, levels: int, kind: str, tmp_path: Path) -> None:
    """A table of bytes; a mean of one element where outputs have 16 bits or channels differ."""
    b = DeeployBuilder((3, 5, 4), input_lo=-128, input_hi=127)
    b.requant_shift(np.reshape(mul, (-1, 1, 1)), 77, 1 << 16, levels, signed=True)
    b.layer_values.append(b.value)
    graph = check(b.conv(4, 3, signed=True), tmp_path)
    assert [op.kind for op in graph.ops] == [kind, "Conv"]


def test_halves_are_rounded_up(tmp_path: Path) -> None:
    builder = DeeployBuilder((1, 1, 1), input_lo=-128, input_hi=127)
    builder.node("Conv", builder.value, builder.constant(np.ones((1, 1, 1, 1))))
    builder.requant_shift(1, 0, 2, 256, signed=True)
    graph = imported(builder, tmp_path, signed=True)
    assert graph.ops[0].requants == (requant(1, 1, 2, -128, 127),)
    for value, rounded in [(3, 2), (-3, -1), (-1, 0), (4, 2)]:
        assert run(graph, {"input": np.full((1, 1, 1), value)})["layer_00"].item() == rounded


def test_one_dimensional_network_with_constants_of_any_shape(tmp_path: Path) -> None:
    builder = DeeployBuilder((4, 20)).conv(6, 3, pads=1, requant=False)
    mul, add = builder.weights((6, 1, 1), 1, 40), builder.weights((1, 6, 1, 1), -999, 999)
    builder.requant_shift(mul, add, 1 << 12, 256, signed=True)
    builder.layer_values[-1] = builder.value
    check(builder.linear(3, gemm=False), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    builder = DeeployBuilder((int(random.integers(1, 5)), 14, 11), seed=seed)
    for _ in range(int(random.integers(1, 6))):
        signed = bool(random.integers(2))
        kind = random.choice(["conv", "depthwise", "residual"])
        if kind == "conv":
            stride = int(random.integers(1, 3))
            builder.conv(int(random.integers(2, 9)), 3, pads=1, stride=stride, signed=signed)
        elif kind == "depthwise":
            builder.depthwise(3, pads=1, signed=signed)
        else:
            branch = builder.value
            builder.conv(builder.shape[0], 3, pads=1).add(branch, signed=signed)
    check(builder.linear(6), tmp_path, lively=False)
