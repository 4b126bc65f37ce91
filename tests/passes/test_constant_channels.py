"""Channels that cannot change: what goes, what stays, and that no value changes."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from dory_core.cli.tables.check import print_check
from dory_core.driver.application import read_graph, read_plan, run_application
from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions, compile_network, make_vectors
from dory_core.errors import VerificationFailed
from dory_core.ir import Graph, Layer, ops, reference
from dory_core.ir.channels import NOT_COMPUTED, full
from dory_core.ir.intervals import channel_intervals
from dory_core.ir.parse import parse_graph
from dory_core.ir.text import graph_text
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel, Rejection
from dory_core.passes.constant_channels import remove_constant_channels
from dory_core.passes.order import numbered_order
from tests.passes.constant_networks import ConstantNetwork
from tests.toy.chip import NAME, ToyChip
from tests.toy.network import save, write_golden

# Channel 1 of layer_00 has the value 7, channel 3 the value 0, whatever the input is.
POINTWISE = """\
network pointwise
input input: u8 (1, 2, 2) [0, 255]
layer_00 = Conv(input) 1x1 w8 -> u8 (4, 2, 2) [0, 255]  # first
    weights (4, 1, 1, 1) = 1 0 2 -1
    bias (4) = 0 7 0 0
    acc clip [0, 255]
layer_01 = Conv(layer_00) 1x1 w8 -> u8 (2, 2, 2) [0, 255]  # second
    weights (2, 4, 1, 1) = 1 2 3 4 5 6 7 8
    bias (2) = 100 -100
    acc / 2^4 clip [0, 255]
output layer_01
"""

# The depthwise layer clips its channel 2, so that nothing reads channel 2 of the layer before it.
DEPTHWISE = """\
network depthwise
input input: u8 (1, 3, 3) [0, 255]
layer_00 = Conv(input) 1x1 w8 -> u8 (3, 3, 3) [0, 255]  # first
    weights (3, 1, 1, 1) = 1 2 3
    acc clip [0, 255]
layer_01 = Conv(layer_00) 3x3 pads 1,1,1,1 w8 groups 3 -> u8 (3, 3, 3) [0, 255]  # depthwise
    weights (3, 1, 3, 3) = 1
    bias (3) = 5 6 -9999
    acc clip [0, 255]
layer_02 = Linear(layer_01) w8 -> i32 (2, 1, 1) [-100000, 100000]  # end
    weights (2, 27) = random(3, -9, 9)
output layer_02
"""

# Channel 0 of layer_00 is 7; padding of layer_01 is PAD.
PADDED = """\
network padded
input input: u8 (1, SIZE, SIZE) [0, 255]
layer_00 = Conv(input) 1x1 w8 -> u8 (2, SIZE, SIZE) [0, 255]  # first
    weights (2, 1, 1, 1) = 0 1
    bias (2) = 7 0
    acc clip [0, 255]
layer_01 = Conv(layer_00) 3x3 pads 1,1,1,1 of PAD w8 -> u8 (2, SIZE, SIZE) [0, 255]  # padded
    weights (2, 2, 3, 3) = 1 1 1 1 2 1 1 1 1 1 1 1 1 3 1 1 1 1 1 1 1 1 4 1 1 1 1 1 1 1 1 5 1 1 1 1
    acc clip [0, 255]
output layer_01
"""

# layer_00 and layer_01 have a constant channel each, in different places; the sum needs both.
RESIDUAL = """\
network residual
input input: u8 (1, 2, 2) [0, 255]
layer_00 = Conv(input) 1x1 w8 -> u8 (4, 2, 2) [0, 255]  # first
    weights (4, 1, 1, 1) = 1 0 0 1
    bias (4) = 0 7 9 0
    acc clip [0, 255]
layer_01 = Conv(layer_00) 1x1 w8 -> u8 (4, 2, 2) [0, 255]  # second
    weights (4, 4, 1, 1) = 1 1 1 1 0 0 0 0 1 2 3 4 5 6 7 8
    bias (4) = 0 30 0 0
    acc clip [0, 255]
layer_02 = Add(layer_00, layer_01) -> u8 (4, 2, 2) [0, 255]  # sum
    acc / 2^1 clip [0, 255]
layer_03 = Linear(layer_02) w8 -> i32 (1, 1, 1) [-9999999, 9999999]  # end
    weights (1, 16) = random(1, 1, 9)
output layer_03
"""


def removed(graph: Graph) -> dict[str, tuple[tuple[int, int | None], ...]]:
    return {name: t.removed for name, t in graph.tensors.items() if t.removed}


def assert_same_values(before: Graph, after: Graph, seed: int = 0) -> None:
    """Assert that both networks compute the same, in all channels that either one computes."""
    inputs = reference.random_inputs(before, seed)
    expected, values = reference.run(before, inputs), reference.run(after, inputs)
    for name, wanted in expected.items():
        found = full(after.tensors[name], values[name].transpose(1, 2, 0)).transpose(2, 0, 1)
        known = found != NOT_COMPUTED
        assert (found[known] == wanted[known]).all(), name
        unread = sum(value is None for _, value in after.tensors[name].removed)
        assert (~known).sum() == unread * wanted[0].size, name


def test_a_constant_channel_becomes_part_of_the_bias() -> None:
    before = parse_graph(POINTWISE)
    after = remove_constant_channels(before, 1)
    assert removed(after) == {"layer_00": ((1, 7), (3, 0))}
    assert graph_text(after, constants=True) == (
        "network pointwise\n"
        "note 2 of 6 channels in 1 tensors are not computed, 24 of 48 MACs: 2 have the same value"
        " for every input (--set keep_constant_channels=yes computes them)\n"
        "input input: u8 (1, 2, 2) [0, 255]\n"
        "layer_00 = Conv(input) 1x1 w8 -> u8 (2, 2, 2) [0, 255] without 1=7,3=0  # first\n"
        "    weights (2, 1, 1, 1) = 1 2\n"
        "    bias (2) = 0\n"
        "    acc [0, 510]\n"
        "    acc clip [0, 255]\n"
        "    32 bit, values [0, 510]\n"
        "layer_01 = Conv(layer_00) 1x1 w8 -> u8 (2, 2, 2) [0, 255]  # second\n"
        "    weights (2, 2, 1, 1) = 1 3 5 7\n"
        "    bias (2) = 114 -58\n"
        "    acc [-58, 3060]\n"
        "    acc / 2^4 clip [0, 255]\n"
        "    32 bit, values [-58, 3002]\n"
        "output layer_01\n"
    )
    assert_same_values(before, after)


def test_a_channel_that_a_depthwise_layer_clips_is_read_by_nobody() -> None:
    before = parse_graph(DEPTHWISE)
    after = remove_constant_channels(before, 1)
    assert removed(after) == {"layer_00": ((2, None),), "layer_01": ((2, 0),)}
    assert after.layer(1).of(ops.Conv).is_depthwise and after.layer(1).of(ops.Conv).groups == 2
    assert_same_values(before, after)


@pytest.mark.parametrize(
    ("size", "pad", "gone"),
    [
        (3, 7, True),  # padding has the value of the channel
        (3, 0, False),  # at the border the sum is another one
        (1, 0, True),  # every tap but one always reads padding
    ],
)
def test_a_channel_before_padding_goes_where_its_sum_is_the_same_everywhere(
    size: int, pad: int, gone: bool
) -> None:
    before = parse_graph(PADDED.replace("SIZE", str(size)).replace("PAD", str(pad)))
    after = remove_constant_channels(before, 1)
    assert removed(after) == ({"layer_00": ((0, 7),)} if gone else {})
    assert_same_values(before, after)


def test_operands_of_a_sum_lose_the_same_channels() -> None:
    before = parse_graph(RESIDUAL)
    after = remove_constant_channels(before, 1)
    assert removed(after) == {name: ((1, value),) for name, value in SUMMED.items()}
    assert_same_values(before, after)


#: Channel 1 of the operands of the sum, and of the sum: (7 + 30) / 2.
SUMMED = {"layer_00": 7, "layer_01": 30, "layer_02": 18}


def test_tensors_keep_multiples_and_constant_channels_fill_them_up() -> None:
    text = POINTWISE.replace("u8 (4, 2, 2)", "u8 (6, 2, 2)").replace("(4)", "(6)")
    text = text.replace("(4, 1, 1, 1) = 1 0 2 -1", "(6, 1, 1, 1) = 0 1 0 0 0 0")
    text = text.replace("0 7 0 0", "3 0 1 4 1 5")
    text = text.replace("(2, 4, 1, 1) = 1 2 3 4 5 6 7 8", "(2, 6, 1, 1) = random(0, 1, 9)")
    before = parse_graph(text)
    kept = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 8: 6}
    for multiple, channels in kept.items():
        after = remove_constant_channels(before, multiple)
        assert after.tensors["layer_00"].channels == channels
        assert_same_values(before, after)


@pytest.mark.parametrize(("bits", "channels"), [(8, 2), (4, 4), (2, 8)])
def test_narrow_tensors_keep_whole_groups(bits: int, channels: int) -> None:
    top = (1 << bits) - 1
    text = f"""\
input input: u8 (1, 2, 2) [0, 255]
layer_00 = Conv(input) 1x1 w8 -> u{bits} (9, 2, 2) [0, {top}]
    weights (9, 1, 1, 1) = 1 0 0 0 0 0 0 0 0
    acc clip [0, {top}]
layer_01 = Linear(layer_00) w8
    weights (1, 36) = 1
output layer_01
"""
    after = remove_constant_channels(parse_graph(text), 2)
    assert after.tensors["layer_00"].channels == channels


def test_inputs_and_outputs_of_the_network_keep_all_channels() -> None:
    text = POINTWISE.replace("output layer_01", "output layer_00, layer_01")
    before = parse_graph(text)
    assert remove_constant_channels(before, 1) is before


def test_a_layer_keeps_channels_that_its_kernel_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    before = parse_graph(RESIDUAL)
    assert removed(remove_constant_channels(before, 1, lambda _: portable_kernels(1)))
    kernels = portable_kernels(1)
    taken = next(kernel for kernel in kernels if kernel.accepts(before.layer(1)) is None)
    accepts = type(taken).accepts

    def picky(kernel: Kernel, layer: Layer) -> Rejection | None:
        odd = layer.inputs[0].channels == 3
        return Rejection("three are a crowd") if odd else accepts(kernel, layer)

    monkeypatch.setattr(type(taken), "accepts", picky)
    assert remove_constant_channels(before, 1, lambda _: kernels) is before


@pytest.mark.parametrize("seed", range(16))
def test_random_networks_compute_the_same(seed: int) -> None:
    assert_random_network_computes_the_same(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_many_random_networks_compute_the_same(first: int) -> None:
    for seed in range(first, first + 100):
        assert_random_network_computes_the_same(seed)


def assert_random_network_computes_the_same(seed: int) -> None:
    before, multiple = ConstantNetwork(seed).graph(10), (1, 2, 4)[seed % 3]
    after = remove_constant_channels(before, multiple)
    for old, new in zip(before.layers, after.layers, strict=True):
        channels = new.output.channels
        assert channels % multiple == 0 or channels == old.output.channels
    assert parse_graph(graph_text(after, constants=True)) == after
    assert remove_constant_channels(after, multiple).tensors == after.tensors
    for inputs in (0, 1):
        assert_same_values(before, after, inputs)


@pytest.mark.parametrize("seed", range(6))
def test_values_lie_in_the_intervals_of_their_channels(seed: int) -> None:
    graph = ConstantNetwork(seed).graph(12)
    intervals = channel_intervals(graph)
    for inputs in (0, 1):
        for name, values in reference.run(graph, reference.random_inputs(graph, inputs)).items():
            rows = values.reshape(len(values), -1)
            assert (intervals[name].lo <= rows.min(axis=1)).all(), name
            assert (intervals[name].hi >= rows.max(axis=1)).all(), name


def test_random_networks_have_channels_to_remove_in_every_kind() -> None:
    found: set[str] = set()
    for seed in range(60):
        before = ConstantNetwork(seed).graph(10)
        after = remove_constant_channels(before, 1)
        found |= {old.kind for old, new in zip(before.ops, after.ops, strict=True) if old != new}
    assert found >= {"Conv", "ConvTranspose", "Linear", "Slice", "Pad", "Reshape", "Lut", "Add"}


# -- full tensors -------------------------------------------------------------------------------


def test_a_golden_confirms_removed_channels_too(tmp_path: Path) -> None:
    before = parse_graph(POINTWISE)
    golden = write_golden(before, tmp_path / "golden.npz")
    after = remove_constant_channels(before, 1)
    vectors, confirmed = make_vectors(after, [golden])
    assert confirmed and vectors[0]["layer_00"].shape == (2, 2, 2)
    arrays = dict(np.load(golden))
    arrays["layer_00"][4 * 3 + 1] = 8  # channel 1 of the last pixel, proven to be 7
    np.savez(golden, **arrays)
    with pytest.raises(VerificationFailed, match=r"\(1, 1, 1\): expected 8, got 7"):
        make_vectors(after, [golden])


def test_unread_channels_are_not_compared(tmp_path: Path) -> None:
    before = parse_graph(DEPTHWISE)
    golden = write_golden(before, tmp_path / "golden.npz")
    assert make_vectors(remove_constant_channels(before, 1), [golden])[1]


@pytest.mark.parametrize("keep", ["no", "yes"])
def test_an_application_dumps_full_tensors(tmp_path: Path, keep: str) -> None:
    graph = parse_graph(RESIDUAL)
    golden = write_golden(graph, tmp_path / "golden.npz")
    plugins = ToyChip(channel_multiple=1).plugins()
    options = CompileOptions(
        network=save(graph, tmp_path),
        target=NAME,
        frontend="plain",
        golden=(golden,),
        output=tmp_path / "app",
        settings={"keep_constant_channels": keep},
    )
    plan = compile_network(options, plugins).plan
    app, dump = tmp_path / "app", tmp_path / "dump"
    sizes = [tensor.channels for tensor in read_graph(app).tensors.values()]
    assert sizes == ([1, 4, 4, 4, 1] if keep == "yes" else [1, 3, 3, 3, 1])
    document = read_plan(app)
    outputs = [layer["output"]["removed"] for layer in document["layers"]]
    assert outputs == (["", "", "", ""] if keep == "yes" else ["1=7", "1=30", "1=18", ""])
    assert bool(re.search("3 of 13 channels", " ".join(plan.notes))) == (keep == "no")
    result = run_application(app, plugins=plugins, golden=[golden], dump=dump)
    assert result.exact
    arrays = np.load(golden)
    for layer in numbered_order(graph).ops:
        values = np.load(dump / f"layer_{layer.index:02d}.npy")
        assert (values.reshape(-1) == arrays[layer.output]).all()


def test_check_names_what_is_removed(tmp_path: Path) -> None:
    path = save(parse_graph(RESIDUAL), tmp_path)
    plugins = ToyChip(channel_multiple=1).plugins()
    options = CompileOptions(network=path, target=NAME, frontend="plain")
    document = check_network(options, plugins).to_json()
    assert [layer["removed"] for layer in document["layers"]] == ["1=7", "1=30", "1=18", ""]
    shown = StringIO()
    print_check(document, Console(file=shown, width=200), details=True)
    assert "without channels 1=30" in shown.getvalue()
    assert "3 of 13 channels in 3 tensors are not computed" in shown.getvalue()


def test_a_layer_of_its_own_keeps_its_channels(tmp_path: Path) -> None:
    path = save(parse_graph(RESIDUAL), tmp_path)
    plugins = ToyChip(channel_multiple=1).plugins()
    options = CompileOptions(network=path, target=NAME, frontend="plain", layer=2)
    graph = compile_network(options, plugins).graph
    assert [tensor.channels for tensor in graph.tensors.values()] == [4, 4, 4]
