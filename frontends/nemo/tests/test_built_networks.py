"""Networks built here, compared element by element with the reference evaluator of onnx."""

from pathlib import Path

import numpy as np
import pytest
from dory_nemo.dialect import parse
from dory_nemo.testing import NemoBuilder
from dory_onnx.testing import evaluate

from dory_core.api import Graph, ops
from dory_core.importing import FrontendOptions, requant
from dory_core.testing import random_inputs
from dory_core.testing import run_reference as run
from tests.cli.command_line import dory


def imported(builder: NemoBuilder, folder: Path, options: FrontendOptions | None = None) -> Graph:
    return parse(builder.save(folder / "net.onnx"), options or FrontendOptions())


def check(builder: NemoBuilder, folder: Path, options: FrontendOptions | None = None) -> Graph:
    """Import and compare every layer for two inputs; no layer may be constant."""
    graph = imported(builder, folder, options)
    assert len(graph.ops) == len(builder.layer_values)
    for seed in (1, 2):
        values = random_inputs(graph, seed)
        got = run(graph, values)
        image = values["input"].reshape(builder.shapes[builder.input])
        expected = evaluate(builder.model(), image, builder.layer_values)
        for layer, value in zip(graph.ops, builder.layer_values, strict=True):
            tensor = graph.tensors[layer.output]
            np.testing.assert_array_equal(
                got[layer.output], expected[value].reshape(tensor.shape), f"{layer.output} {value}"
            )
            assert tensor.lo <= got[layer.output].min() and got[layer.output].max() <= tensor.hi
            if tensor.elements > 8:
                assert len(np.unique(got[layer.output])) > 2, f"{value} shows nothing"
    return graph


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("numbered", [False, True], ids=["new-names", "old-names"])
@pytest.mark.parametrize("opset", [9, 13], ids=["clip-attributes", "clip-inputs"])
@pytest.mark.parametrize("constant_nodes", [False, True], ids=["initialisers", "constants"])
def test_spellings_of_one_network(
    seed: int, numbered: bool, opset: int, constant_nodes: bool, tmp_path: Path
) -> None:
    def build(**options: object) -> NemoBuilder:
        builder = NemoBuilder((3, 12, 10), seed=seed, **options)  # type: ignore[arg-type]
        builder.pad(1, 1, 0, 0).conv(8, 3, stride=2).maxpool(2).conv(6, 1, bias=True)
        return builder.avgpool().linear(5, activation=False)

    plain = imported(build(), tmp_path)
    graph = check(build(numbered=numbered, opset=opset, constant_nodes=constant_nodes), tmp_path)
    assert graph == plain


def test_dilation_and_anisotropic_stride(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 15, 21)).conv(8, (3, 5), stride=(2, 1), dilation=(2, 3), pads=(1, 2))
    graph = check(builder.conv(4, 3, stride=(1, 3)), tmp_path)
    window = graph.ops[0].window  # type: ignore[attr-defined]
    assert (window.kernel, window.strides, window.dilations) == ((3, 5), (2, 1), (2, 3))


def test_asymmetric_pads_as_attribute_and_as_several_pad_nodes(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 9, 7)).conv(4, 3, stride=2, pads=(0, 1, 2, 0))
    builder.pad(1, 0, 0, 2).pad(0, 1, 1, 0).conv(4, 3, pads=(1, 0, 0, 0)).linear(3)
    graph = check(builder, tmp_path)
    assert graph.ops[0].window.pads == (0, 1, 2, 0)  # type: ignore[attr-defined]
    assert graph.ops[1].window.pads == (2, 1, 1, 2)  # type: ignore[attr-defined]


def test_one_dimensional_network(tmp_path: Path) -> None:
    builder = NemoBuilder((4, 40)).pad(2, 0).pad(2, 0).conv(6, 3, dilation=2)
    branch = builder.value
    builder.conv(6, 5, pads=2, groups=2).add(branch).maxpool(2).conv(6, 3, stride=2, pads=(0, 1))
    graph = check(builder.avgpool(2).linear(3, activation=False), tmp_path)
    assert graph.tensors["layer_00"].shape == (6, 1, 40)


def test_grouped_conv_is_neither_depthwise_nor_dense(tmp_path: Path) -> None:
    builder = NemoBuilder((8, 6, 6)).conv(12, 3, pads=1, groups=4).depthwise(pads=1)
    graph = check(builder.conv(24, 3, groups=12), tmp_path)
    grouped, depthwise, multiplier = graph.ops
    assert isinstance(grouped, ops.Conv) and isinstance(depthwise, ops.Conv)
    assert isinstance(multiplier, ops.Conv)
    assert (grouped.groups, grouped.is_depthwise, depthwise.is_depthwise) == (4, False, True)
    assert multiplier.weights.shape == (24, 1, 3, 3)


def test_divisor_of_older_exporters(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 8, 8), exact_divisors=False).conv(8, 3).linear(4)
    assert check(builder, tmp_path).ops[0].requants[0].shift is None


@pytest.mark.parametrize("first", ["maxpool", "avgpool"])
def test_network_that_starts_with_a_pool(first: str, tmp_path: Path) -> None:
    builder = NemoBuilder((3, 8, 9))
    builder = getattr(builder, first)(2)
    check(builder.conv(5, 3, pads=1).linear(3), tmp_path)


def test_average_comes_from_the_sum_not_from_a_rounded_mean(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 8, 8)).avgpool(4, stride=2, pads=1, ratio=7, divisor=64)
    graph = check(builder, tmp_path)
    assert graph.ops[0].requants == (requant(7, 0, 64),)
    value = run(graph, {"input": np.full((3, 8, 8), 1)})["layer_00"]
    assert value[0, 1, 1] == 16 * 7 // 64  # the mean 1 would give 16 * 0


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("activation", [False, True])
def test_each_factor_of_an_add_stays_with_its_operand(
    swapped: bool, activation: bool, tmp_path: Path
) -> None:
    builder = NemoBuilder((3, 6, 6)).conv(8, 1)
    branch = builder.value
    builder.conv(8, 3, pads=1).add(
        branch, factors=(3, 11), divisor=8, swapped=swapped, activation=activation
    )
    graph = check(builder.conv(4, 1), tmp_path)
    add = graph.ops[2]
    assert isinstance(add, ops.Add)
    factors = dict(zip(add.inputs, add.operand_requants, strict=True))
    assert factors == {"layer_01": requant(3), "layer_00": requant(11)}
    assert add.requants[0] == requant(1, 0, 8)
    assert len(add.requants) == 1 + activation
    if not activation:
        assert (graph.tensors["layer_02"].hi, graph.tensors["layer_02"].bits) == (446, 16)


def test_two_roundings_of_add_and_activation_are_not_merged(tmp_path: Path) -> None:
    builder = NemoBuilder((1, 4, 4), seed=3).conv(4, 1)
    branch = builder.value
    builder.conv(4, 1).add(branch, factors=(5, 7), divisor=13, activation=True)
    assert len(check(builder, tmp_path).ops[2].requants) == 2


def test_a_common_factor_of_both_operands_moves_behind_the_sum(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 6, 6)).conv(8, 1)
    branch = builder.value
    builder.conv(8, 1).add(branch, factors=(32, 32), divisor=32)
    add = check(builder, tmp_path).ops[2]
    assert isinstance(add, ops.Add)
    assert (add.operand_requants, add.requants) == ((None, None), ())


def test_signed_activations_round_down(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 6, 6)).conv(8, 3, lo=-128, hi=127).maxpool(2).conv(4, 1, lo=-8, hi=7)
    graph = check(builder, tmp_path)
    assert graph.tensors["layer_00"].type_name == "i8"
    assert (graph.tensors["layer_02"].lo, graph.tensors["layer_02"].hi) == (-8, 7)


def test_signed_input_of_few_bits(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 6, 6), input_lo=-8, input_hi=7).conv(4, 3, pads=1)
    graph = check(builder, tmp_path, FrontendOptions(input_bits=4, input_signed=True))
    assert (graph.tensors["input"].lo, graph.tensors["input"].hi) == (-8, 7)


def test_tensor_with_several_readers_feeds_two_adds_and_a_conv(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 6, 6)).conv(8, 1)
    shared = builder.value
    builder.conv(8, 3, pads=1).add(shared)
    builder.conv(8, 1).add(shared, activation=True).linear(4)
    graph = check(builder, tmp_path)
    assert [layer.index for layer in graph.consumers("layer_00")] == [1, 2, 4]


def test_residual_from_the_network_input(tmp_path: Path) -> None:
    builder = NemoBuilder((8, 6, 6))
    builder.conv(8, 3, pads=1).add(builder.input, factors=(9, 4), divisor=16)
    graph = check(builder.conv(4, 1), tmp_path)
    assert graph.ops[1].inputs == ("layer_00", "input")


def test_a_tensor_may_be_added_to_itself(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 6, 6)).conv(8, 1)
    check(builder.add(builder.value, factors=(3, 4), divisor=4), tmp_path)


@pytest.mark.parametrize("gemm", [False, True], ids=["MatMul", "Gemm"])
@pytest.mark.parametrize("batchnorm", [False, True])
def test_hidden_linear_with_bias_and_square_weights(
    gemm: bool, batchnorm: bool, tmp_path: Path
) -> None:
    builder = NemoBuilder((2, 2, 4)).linear(16, gemm=gemm, bias=True, batchnorm=batchnorm)
    builder.linear(16, gemm=gemm, bias=True, batchnorm=batchnorm)
    graph = check(builder.linear(16, gemm=gemm, bias=True, activation=False), tmp_path)
    assert [layer.kind for layer in graph.ops] == ["Linear"] * 3
    last = graph.ops[2]
    assert isinstance(last, ops.Linear) and last.bias is not None
    assert graph.tensors["layer_02"].type_name == "i32"


def test_linear_reads_the_shape_of_its_own_producer(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 8, 8)).conv(4, 3, stride=2, pads=1)
    branch = builder.value
    builder.conv(4, 1)
    other = builder.value
    builder.at(branch).conv(4, 3, pads=1).add(other).linear(6)
    check(builder, tmp_path)


@pytest.mark.parametrize(
    "reshape", ["flatten", "reshape", "reshape-minus-one", "squeeze", "shape-group"]
)
def test_reshapes_that_keep_the_order_are_no_layers(reshape: str, tmp_path: Path) -> None:
    size = (1, 1) if reshape == "squeeze" else (3, 2)
    builder = NemoBuilder((3, *size)).conv(6, 1)
    before, total = builder.value, 6 * size[0] * size[1]
    builder.node("Identity", before)
    builder.node("Dropout", builder.value)
    source = builder.value
    if reshape == "flatten":
        builder.node("Flatten", source)
    elif reshape == "reshape":
        builder.node("Reshape", source, builder.constant([1, total], np.int64))
    elif reshape == "reshape-minus-one":
        builder.node("Reshape", source, builder.constant([0, -1], np.int64))
    elif reshape == "squeeze":
        builder.node("Squeeze", source, axes=[2, 3])
    else:
        shape = builder.node("Shape", source)
        batch = builder.node("Gather", shape, builder.constant(0, np.int64), axis=0)
        first = builder.node("Unsqueeze", batch, axes=[0])
        rest = builder.node("Unsqueeze", builder.constant(-1, np.int64), axes=[0])
        both = builder.node("Concat", first, rest, axis=0)
        builder.node("Reshape", source, both)
    builder.shapes[builder.value] = (total,)
    builder.bounds[builder.value] = (0, 255)
    check(builder.linear(5), tmp_path)


def test_heads_of_one_tensor_are_left_out(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 6, 6)).conv(6, 1).linear(4, activation=False)
    last = builder.value
    for index in range(2):
        builder.node("Gather", last, builder.constant(index, np.int64), axis=1)
        builder.node("Sigmoid", builder.value)
        builder.output()
    graph = imported(builder, tmp_path)
    assert graph.outputs == ("layer_01",)
    assert graph.notes[0].startswith("host post-processing left out: Gather, Sigmoid (behind")


def test_range_analysis_sees_64_bit_requantisation(tmp_path: Path) -> None:
    wide = NemoBuilder((3, 6, 6)).conv(8, 3)
    assert imported(wide, tmp_path).ranges[0].bits == 64
    narrow = NemoBuilder((1, 6, 6), input_hi=3).conv(8, 1, batchnorm=False)
    assert imported(narrow, tmp_path, FrontendOptions(input_bits=2)).ranges[0].bits == 32


def test_plugin_offers_the_frontend(tmp_path: Path) -> None:
    import dory_nemo

    (frontend,) = dory_nemo.dory_frontends()
    path = NemoBuilder((3, 6, 6)).conv(8, 3).save(tmp_path / "net.onnx")
    assert frontend.name == "nemo"
    assert len(frontend.parse(path).ops) == 1


def test_ceil_mode_of_a_maximum(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 8, 11)).conv(4, 3, lo=-128, hi=127)
    builder.maxpool((3, 2), stride=(2, 3), size=(3, 4)).maxpool(1, stride=2, size=(2, 2))
    check(builder.linear(5, activation=False), tmp_path)


def test_zeros_that_win_a_maximum_are_a_layer(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 8, 8)).conv(4, 3, lo=-128, hi=127).pad(1, 0, 2, 1).end_layer()
    graph = check(builder.maxpool(2).linear(5), tmp_path)
    assert [op.kind for op in graph.ops] == ["Conv", "Pad", "MaxPool", "Linear"]


def test_windows_that_see_zeros_only(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 8, 8)).conv(4, 3).pad(2, 2, 2, 2).end_layer().maxpool(2)
    assert check(builder.linear(5), tmp_path).ops[1].kind == "Pad"
    folded = NemoBuilder((3, 8, 8)).conv(4, 3).pad(1, 1, 1, 1).maxpool(2).linear(5)
    assert check(folded, tmp_path).ops[1].kind == "MaxPool"


def test_maximum_of_the_whole_image(tmp_path: Path) -> None:
    check(NemoBuilder((3, 6, 7)).conv(9, 3).global_maxpool().linear(5), tmp_path)


def test_several_integer_outputs(tmp_path: Path) -> None:
    """A detector: two heads, one of which reads the other's tensor."""
    builder = NemoBuilder((3, 9, 8)).conv(8, 3)
    trunk = builder.value
    builder.conv(4, 1).output()
    builder.at(trunk).conv(6, 3).output()
    builder.linear(5, activation=False).output()
    graph = check(builder, tmp_path)
    assert graph.outputs == ("layer_01", "layer_02", "layer_03")
    app = tmp_path / "app"
    outcome = dory("--target", "gap8", tmp_path / "net.onnx", "-o", app, "-q")
    assert outcome.status == 0, outcome.stderr
    outcome = dory("run", app)
    assert outcome.status == 0 and "4 of 4 layers exact" in outcome.stdout, outcome.stderr


def test_forms_stand_in_the_order_of_tensors(tmp_path: Path) -> None:
    """Not in that of a set, which differs from one run of Python to the next."""
    builder = NemoBuilder((3, 9, 8))
    for _ in range(12):
        builder.conv(4, 1)
    graph = imported(builder, tmp_path)
    assert list(graph.forms) == [name for name in graph.tensors if name in graph.forms]
    assert len(graph.forms) == 13
