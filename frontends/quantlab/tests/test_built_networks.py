"""Networks built here, compared element by element with the reference evaluator of onnx."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from dory_onnx.testing import evaluate
from dory_quantlab.dialect import parse
from dory_quantlab.testing import QuantlabBuilder

from dory_core.api import Graph, ops
from dory_core.importing import FrontendOptions, requant
from dory_core.testing import random_inputs
from dory_core.testing import run_reference as run
from frontends.quantlab.tests.standard_onnx import Signs, standard

ROUND = 1 << 9  # half of the divisor of a shift by 10


def imported(
    builder: QuantlabBuilder, folder: Path, options: FrontendOptions | None = None
) -> Graph:
    return parse(builder.save(folder / "net.onnx"), options or FrontendOptions())


def check(
    builder: QuantlabBuilder,
    folder: Path,
    options: FrontendOptions | None = None,
    signs: Sequence[Signs] = (),
) -> Graph:
    """Import and compare every layer for two inputs; no layer may be constant."""
    graph = imported(builder, folder, options)
    assert len(graph.ops) == len(builder.layer_values)
    model = standard(builder.model(), signs)
    for seed in (1, 2):
        values = random_inputs(graph, seed)
        got = run(graph, values)
        image = values["input"].reshape(builder.shapes[builder.input])
        expected = evaluate(model, image, builder.layer_values)
        for layer, value in zip(graph.ops, builder.layer_values, strict=True):
            tensor = graph.tensors[layer.output]
            np.testing.assert_array_equal(
                got[layer.output], expected[value].reshape(tensor.shape), f"{layer.output} {value}"
            )
            assert tensor.lo <= got[layer.output].min() and got[layer.output].max() <= tensor.hi
            if tensor.elements > 8:
                least = 1 if tensor.hi - tensor.lo < 4 else 2
                assert len(np.unique(got[layer.output])) > least, f"{value} shows nothing"
    return graph


def branched(channels: int = 8, *, lo: int = 0, hi: int = 255) -> tuple[QuantlabBuilder, str]:
    """Two Convs on one tensor; the current value and the returned one can be added."""
    builder = QuantlabBuilder((3, 6, 6), seed=4).conv(channels, 1, lo=lo, hi=hi)
    branch = builder.value
    return builder.conv(channels, 3, pads=1, lo=lo, hi=hi), branch


@pytest.mark.parametrize("numbered", [False, True], ids=["new-names", "old-names"])
@pytest.mark.parametrize("opset", [9, 13], ids=["clip-attributes", "clip-inputs"])
@pytest.mark.parametrize("constant_nodes", [False, True], ids=["initialisers", "constants"])
def test_spellings_of_one_network(
    numbered: bool, opset: int, constant_nodes: bool, tmp_path: Path
) -> None:
    def build(**options: object) -> QuantlabBuilder:
        builder = QuantlabBuilder((3, 12, 10), seed=1, **options)  # type: ignore[arg-type]
        builder.pad(1, 1, 0, 0).conv(8, 3, stride=2).maxpool(2).conv(6, 1, bias=True)
        branch = builder.value
        builder.conv(6, 3, pads=1).add(branch, in2=(700, ROUND, 10), out=(900, ROUND, 10))
        return builder.avgpool().linear(5, activation=False)

    plain = imported(build(), tmp_path)
    spelled = build(numbered=numbered, opset=opset, constant_nodes=constant_nodes)
    unsigned = [(False, False, False)]
    if opset == 9:
        assert check(spelled, tmp_path, signs=unsigned) == plain
    else:  # the Clips of expanded residuals have attributes
        assert imported(spelled, tmp_path) == plain


@pytest.mark.parametrize("weight_bits", [2, 4, 8])
@pytest.mark.parametrize(("lo", "hi"), [(0, 3), (0, 15), (0, 255), (-2, 1), (-8, 7), (-128, 127)])
def test_every_precision_of_weights_and_activations(
    weight_bits: int, lo: int, hi: int, tmp_path: Path
) -> None:
    builder = QuantlabBuilder((3, 8, 8), seed=weight_bits)
    builder.conv(8, 3, pads=1, weight_bits=weight_bits, lo=lo, hi=hi)
    builder.depthwise(3, weight_bits=weight_bits, lo=lo, hi=hi).maxpool(2)
    builder.linear(64, weight_bits=weight_bits, lo=lo, hi=hi, bias=True)
    graph = check(builder.linear(4, weight_bits=weight_bits, activation=False), tmp_path)
    for layer in graph.ops:
        if isinstance(layer, ops.Conv | ops.Linear):
            assert layer.weight_bits == weight_bits
    for index in range(4):
        tensor = graph.tensors[f"layer_{index:02d}"]
        assert (tensor.lo, tensor.hi, tensor.signed) == (lo, hi, lo < 0)


def test_clip_and_not_out_bits_gives_the_range(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 6, 6)).conv(4, 1, hi=15)
    (bits,) = (a for a in builder.nodes[-1].attribute if a.name == "out_bits")
    bits.i = 2
    assert check(builder, tmp_path).tensors["layer_00"].hi == 15


@pytest.mark.parametrize(("bits", "signed"), [(8, True), (4, False), (4, True), (2, False)])
def test_input_type_comes_from_the_options(bits: int, signed: bool, tmp_path: Path) -> None:
    lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    builder = QuantlabBuilder((3, 6, 6), input_lo=lo, input_hi=hi).conv(8, 3, pads=1)
    graph = check(builder, tmp_path, FrontendOptions(input_bits=bits, input_signed=signed))
    assert (graph.tensors["input"].lo, graph.tensors["input"].hi) == (lo, hi)


def test_rounding_node_is_the_same_as_half_of_the_divisor_in_add(tmp_path: Path) -> None:
    def build(rounding_nodes: bool, shift: int, add: int) -> Graph:
        builder = QuantlabBuilder((3, 6, 6), seed=2, rounding_nodes=rounding_nodes)
        mul = [37, -21, 50, 3]
        builder.conv(4, 3, scale=(mul, [add + n for n in range(4)], shift))
        builder.avgpool(2, mul=4 * 300, add=add, shift=shift)
        return imported(builder, tmp_path)

    assert build(True, 10, 1000) == build(False, 10, 1000 + ROUND)
    value = run(build(True, 10, 1000), {"input": np.full((3, 6, 6), 200)})
    other = run(build(False, 10, 1000 + ROUND), {"input": np.full((3, 6, 6), 200)})
    np.testing.assert_array_equal(value["layer_01"], other["layer_01"])


def test_rounding_node_behind_a_divisor_of_one_changes_nothing(tmp_path: Path) -> None:
    builder = QuantlabBuilder((1, 4, 4), rounding_nodes=True)
    builder.conv(1, 1, weights=np.ones((1, 1, 1, 1)), scale=([1], [-7], 0))
    image = np.arange(16).reshape(1, 4, 4) * 5
    got = run(imported(builder, tmp_path), {"input": image})["layer_00"]
    np.testing.assert_array_equal(got, np.clip(image - 7, 0, 255))


def test_average_factor_that_is_a_multiple_of_the_window(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 8, 8)).avgpool(4, stride=2, mul=16 * 77, add=-5000, shift=10)
    graph = check(builder, tmp_path)
    assert graph.ops[0].requants == (requant(77, -5000, 1 << 10, 0, 255),)


def test_average_factor_that_is_no_multiple_stays_exact(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 9, 9)).avgpool(3, mul=1001, add=ROUND, shift=10)
    graph = check(builder, tmp_path)
    assert graph.ops[0].requants == (requant(1001, 9 * ROUND, 9 << 10, 0, 255),)


def test_average_comes_from_the_sum_not_from_a_rounded_mean(tmp_path: Path) -> None:
    builder = QuantlabBuilder((1, 2, 2)).avgpool(2, mul=4 * 1024, add=0, shift=10)
    image = np.array([[[1, 0], [0, 0]]])
    value = run(imported(builder, tmp_path), {"input": image})["layer_00"]
    assert value.item() == 1  # the mean 1/4, rounded down, would give 0


def test_padded_and_signed_average(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 7, 7)).conv(6, 1, lo=-128, hi=127)
    builder.avgpool(3, stride=2, pads=1, mul=9 * 150, add=ROUND, shift=10, lo=-128, hi=127)
    assert check(builder, tmp_path).tensors["layer_01"].type_name == "i8"


@pytest.mark.parametrize("gemm", [False, True], ids=["MatMul", "Gemm"])
def test_hidden_linear_with_bias_and_square_weights(gemm: bool, tmp_path: Path) -> None:
    builder = QuantlabBuilder((2, 2, 4)).linear(16, gemm=gemm, bias=True)
    builder.linear(16, gemm=gemm, bias=True)
    graph = check(builder.linear(16, gemm=gemm, bias=True, activation=False), tmp_path)
    assert [layer.kind for layer in graph.ops] == ["Linear"] * 3
    assert [layer.bias is not None for layer in graph.ops] == [gemm] * 3  # type: ignore[attr-defined]
    assert graph.tensors["layer_02"].type_name == "i32"


def test_one_dimensional_network_with_pad_nodes_and_inner_padding(tmp_path: Path) -> None:
    builder = QuantlabBuilder((4, 40)).pad(4, 0).pad(2, 0).conv(6, 4, dilation=2)
    branch = builder.value
    builder.conv(6, 3, pads=(4, 0), dilation=2, lo=-128, hi=127)
    builder.add(branch, in1=(600, ROUND, 10), signed=True).maxpool(2)
    builder.conv(6, 3, stride=2, pads=(0, 1), groups=2).avgpool(2, stride=2)
    graph = check(builder.linear(3, activation=False), tmp_path, signs=[(True, False, True)])
    windows = [layer.window for layer in graph.ops if isinstance(layer, ops.Conv)]
    assert [w.pads for w in windows] == [(0, 6, 0, 0), (0, 4, 0, 0), (0, 0, 0, 1)]
    assert [w.dilations for w in windows] == [(1, 2), (1, 2), (1, 1)]


def test_dilation_anisotropic_stride_and_asymmetric_pads(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 15, 21)).conv(8, (3, 5), stride=(2, 1), dilation=(2, 3), pads=2)
    check(builder.conv(4, 3, stride=(1, 3), pads=(0, 1, 2, 0)), tmp_path)


# --- residuals --------------------------------------------------------------------------------

STEPS = {"in1": (700, 100, 10), "in2": (333, ROUND, 9), "out": (1500, -777, 11)}


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_each_step_of_a_residual(
    signed: bool, first: bool, second: bool, last: bool, tmp_path: Path
) -> None:
    builder, branch = branched(lo=-128 if signed else 0, hi=127 if signed else 255)
    builder.add(
        branch,
        in1=STEPS["in1"] if first else None,
        in2=STEPS["in2"] if second else None,
        out=STEPS["out"] if last else None,
        signed=signed,
    )
    graph = check(builder.conv(4, 1), tmp_path, signs=[(signed, signed, signed)])
    add = graph.ops[2]
    assert isinstance(add, ops.Add)
    assert add.inputs == ("layer_01", "layer_00")
    assert add.operand_requants == (
        requant(700, 100, 1024) if first else None,
        requant(333, ROUND, 512) if second else None,
    )
    assert graph.tensors["layer_02"].type_name == ("i8" if signed else "u8")
    assert graph.notes == ()


def test_operand_steps_stay_with_their_operand(tmp_path: Path) -> None:
    builder = QuantlabBuilder((8, 6, 6)).conv(8, 3, pads=1)
    conv = builder.value
    builder.at(builder.input).add(conv, in1=(100, 0, 8), in2=(300, 0, 10))
    graph = check(builder, tmp_path, signs=[(False, False, False)])
    add = graph.ops[1]
    assert isinstance(add, ops.Add)
    assert add.inputs == ("input", "layer_00")
    assert add.operand_requants == (requant(100, 0, 256), requant(300, 0, 1024))


def test_levels_beyond_an_operand_are_only_a_bound(tmp_path: Path) -> None:
    builder, branch = branched()
    steps = {"in1": (500, 0, 10), "in2": (400, 0, 10)}
    builder.add(branch, **steps, levels=(1 << 16, 1 << 40, 256))
    wide = check(builder, tmp_path, signs=[(False, False, False)])
    builder, branch = branched()
    assert wide == imported(builder.add(branch, **steps), tmp_path)
    assert wide.ops[2].operand_requants[0].lo is None  # type: ignore[attr-defined]


def test_levels_of_the_result_beyond_its_values_do_not_widen_its_storage(tmp_path: Path) -> None:
    builder, branch = branched()
    builder.add(branch, in1=(300, 0, 10), in2=(300, 0, 10), levels=(256, 256, 1 << 40))
    graph = check(builder, tmp_path, signs=[(False, False, False)])
    assert (graph.tensors["layer_02"].hi, graph.tensors["layer_02"].bits) == (148, 8)


def test_result_with_more_levels_is_stored_in_16_bits(tmp_path: Path) -> None:
    builder, branch = branched()
    builder.add(branch, levels=(256, 256, 512))
    graph = check(builder.conv(4, 1), tmp_path, signs=[(False, False, False)])
    assert graph.tensors["layer_02"].type_name == "u16"


@pytest.mark.parametrize("signed", [False, True])
def test_levels_that_bind_an_operand_take_its_sign_and_say_so(signed: bool, tmp_path: Path) -> None:
    builder, branch = branched(lo=-128 if signed else 0, hi=127 if signed else 255)
    builder.add(branch, in1=(900, 0, 10), levels=(64, 256, 256), signed=signed)
    graph = check(builder, tmp_path, signs=[(signed, signed, signed)])
    step = graph.ops[2].operand_requants[0]  # type: ignore[attr-defined]
    assert (step.lo, step.hi) == ((-32, 31) if signed else (0, 63))
    (note,) = graph.notes
    assert "in1_n_levels = 64" in note
    assert ("assumed signed" if signed else "assumed unsigned") in note


@pytest.mark.parametrize("narrow_first", [False, True])
def test_levels_bind_only_the_operand_that_exceeds_them(narrow_first: bool, tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1, hi=15 if not narrow_first else 255)
    branch = builder.value
    builder.conv(8, 3, pads=1, hi=15 if narrow_first else 255)
    builder.add(branch, in1=(900, 0, 10), in2=(800, 0, 10), levels=(64, 64, 256))
    graph = check(builder, tmp_path, signs=[(False, False, False)])
    steps = graph.ops[2].operand_requants  # type: ignore[attr-defined]
    assert [step.hi for step in steps] == ([None, 63] if narrow_first else [63, None])


def test_operands_of_different_sign(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1)
    branch = builder.value
    builder.conv(8, 3, pads=1, lo=-128, hi=127).add(branch, out=(700, ROUND, 10), signed=True)
    graph = check(builder.conv(4, 1), tmp_path, signs=[(True, False, True)])
    assert graph.tensors["layer_02"].type_name == "i8"
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1, lo=-128, hi=127)
    branch = builder.value
    builder.conv(8, 3, pads=1, lo=-128, hi=127).add(branch, out=(700, ROUND, 10), signed=False)
    graph = check(builder.conv(4, 1), tmp_path, signs=[(True, True, False)])
    assert graph.tensors["layer_02"].type_name == "u8"


@pytest.mark.parametrize("signed", [False, True])
def test_missing_out_signed_is_taken_from_the_operands(signed: bool, tmp_path: Path) -> None:
    lo, hi = (-128, 127) if signed else (0, 255)
    builder, branch = branched(lo=lo, hi=hi)
    graph = check(
        builder.add(branch, out=(700, ROUND, 10), signed=None),
        tmp_path,
        signs=[(signed, signed, signed)],
    )
    assert (graph.tensors["layer_02"].lo, graph.tensors["layer_02"].hi) == (lo, hi)
    (note,) = graph.notes
    assert note.startswith("Add '") and "attribute out_signed is missing" in note
    kind = "signed" if signed else "unsigned"
    assert f"assumed {kind}, like its operands 'layer_01' and 'layer_00'" in note


def test_missing_out_signed_is_taken_from_a_clip_behind(tmp_path: Path) -> None:
    builder, branch = branched(lo=-128, hi=127)
    builder.add(branch, out=(700, ROUND, 10), signed=None)
    builder.layer_values.pop()
    builder.clip(0, 100)
    builder.end_layer()
    graph = check(builder, tmp_path, signs=[(True, True, False)])
    assert (graph.tensors["layer_02"].lo, graph.tensors["layer_02"].hi) == (0, 100)
    assert "assumed unsigned, like the Clip behind it" in graph.notes[0]


def test_tensor_with_several_readers_feeds_two_adds_and_a_conv(tmp_path: Path) -> None:
    builder, shared = branched()
    builder.add(shared, out=(600, ROUND, 10)).conv(8, 1).add(shared, in2=(600, 3, 10)).linear(4)
    graph = check(builder, tmp_path, signs=[(False, False, False)] * 2)
    assert [layer.index for layer in graph.consumers("layer_00")] == [1, 2, 4]


def test_a_tensor_may_be_added_to_itself(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1)
    builder.add(builder.value, in1=(300, 0, 10), in2=(600, 0, 10))
    check(builder, tmp_path, signs=[(False, False, False)])


def test_requantisation_of_a_residual_may_need_64_bits(tmp_path: Path) -> None:
    builder, branch = branched()
    builder.add(branch, in1=(500_000_003, 1 << 30, 31), in2=(700_000_001, 0, 31))
    graph = check(builder, tmp_path, signs=[(False, False, False)])
    assert graph.ranges[2].bits == 64


def test_plugin_offers_the_frontend(tmp_path: Path) -> None:
    import dory_quantlab

    (frontend,) = dory_quantlab.dory_frontends()
    path = QuantlabBuilder((3, 6, 6)).conv(8, 3).save(tmp_path / "net.onnx")
    assert frontend.name == "quantlab"
    assert len(frontend.parse(path).ops) == 1
