"""Activations and weights of 2, 4 and 8 bits, signed or not, in every combination and packed.

Each network of ``dory_core.testing.precisions`` has all pairs of input and output types of one
layer kind, with channel counts that do not fill the last byte of a pixel. L1 is the least with
which every layer has a tile, so that tiles split every axis.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dory_core.driver.application import run_application
from dory_core.errors import DoesNotFit, VerificationFailed
from dory_core.hardware.links import Link
from dory_core.hardware.memories import STORAGE_BITS, Memory
from dory_core.ir import Graph, Linear, Window
from dory_core.ir.reference import random_inputs, run
from dory_core.plan import Plan
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import Case
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.precisions import TYPES, WEIGHTS, precision_cases, type_name
from tests.toy.chip import ToyChip

CASES = precision_cases(WEIGHTS[:2], TYPES[:1])
UNSIGNED = tuple(values for values in TYPES if values[0] == 0)
MORE_CASES = precision_cases((*WEIGHTS, *UNSIGNED), TYPES)
PORTABLE = {"kernels": "portable"}


def smallest_app(
    graph: Graph,
    target: str,
    directory: Path,
    plugins: Plugins,
    settings: Mapping[str, str] | None = None,
) -> Plan:
    """Build the application with the least L1 that holds a tile of every layer."""
    l1_bytes = 64
    while True:
        try:
            return build_app(
                graph,
                target,
                directory,
                budgets={1: l1_bytes},
                plugins=plugins,
                settings=settings,
            )
        except DoesNotFit as error:
            assert error.needed_bytes is not None and error.needed_bytes > l1_bytes
            l1_bytes = error.needed_bytes


def check_case(
    case: Case,
    target: str,
    directory: Path,
    plugins: Plugins,
    dma: tuple[str, ...],
    settings: Mapping[str, str] | None = None,
) -> None:
    plan = smallest_app(case.build(), target, directory, plugins, settings)
    pairs = {(step.layer.inputs[0].type_name, step.layer.output.type_name) for step in plan.steps}
    assert len(pairs) == len(TYPES) ** 2
    assert {name for pair in pairs for name in pair} == {type_name(values) for values in TYPES}
    largest = [max(sizes) for sizes in zip(*(s.schedule.counts for s in plan.steps), strict=True)]
    c_out, h, w, c_in = (count > 1 for count in largest)
    if "linear" in case.tags:
        assert c_out and c_in
    else:
        assert h and w
    if "conv" in case.tags:
        assert c_out and c_in
    assert_exact(directory, plugins=plugins, dma=dma)


@pytest.mark.sample(24)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_pairs_of_types_are_exact_in_smallest_tiles(case: Case, tmp_path: Path) -> None:
    check_case(case, "toy", tmp_path / "app", ToyChip().plugins(), ("random",))


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE_CASES, ids=str)
def test_all_combinations_are_exact_in_all_dma_modes(case: Case, tmp_path: Path) -> None:
    modes = ("early", "late", "random")
    check_case(case, "toy", tmp_path / "app", ToyChip().plugins(), modes)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE_CASES, ids=str)
def test_all_combinations_are_exact_on_eight_cores(case: Case, tmp_path: Path) -> None:
    modes = ("early", "late", "random")
    check_case(case, "toy", tmp_path / "app", ToyChip(cores=8, any_core=True).plugins(), modes)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_networks_of_all_pairs_show_wrong_values(case: Case) -> None:
    """No output is constant, else a wrong input would not be seen behind it."""
    graph = case.build()
    values = run(graph, random_inputs(graph, 0))
    for layer in graph.layers:
        assert len(np.unique(values[layer.output.name])) > 1, layer.op.name
    if "linear" in case.tags:
        ends = [t for t in graph.layers if t.inputs[0].channels * t.inputs[0].bits % 8]
        assert all(isinstance(layer.op, Linear) for layer in ends)
        assert len(ends) == 24, "pixels of 2 and 4 bits end inside a byte"


# -- what leaves and enters the program -----------------------------------------------------------


def _signed_4_bits(directory: Path, channels: int) -> Graph:
    """Build an application with activations of 4 bits, signed, for the small chip."""
    builder = GraphBuilder((channels, 3, 2), values=(-8, 7), seed=7)
    builder.conv(channels, Window(kernel=(1, 1)), output=(-8, 7), weights=(-8, 7))
    graph = builder.graph()
    build_app(graph, "toy", directory, plugins=ToyChip().plugins(), seeds=(0, 1))
    return graph


def test_vectors_are_packed_and_dumps_have_true_integers(tmp_path: Path) -> None:
    graph = _signed_4_bits(tmp_path / "app", 5)
    plugins = ToyChip().plugins()
    for name in ("input.bin", "layer_00.bin"):  # two vectors of 3 x 2 pixels of 3 bytes
        assert (tmp_path / "app" / "vectors" / name).stat().st_size == 2 * 3 * 2 * 3
    image = np.arange(-15, 15).reshape(3, 2, 5) % 16 - 8
    np.save(tmp_path / "image.npy", image)
    result = run_application(
        tmp_path / "app",
        plugins=plugins,
        inputs=[tmp_path / "image.npy"],
        dump=tmp_path / "dump",
        dma="random",
    )
    assert result.first_difference is None
    expected = run(graph, {"input": image.transpose(2, 0, 1)})["layer_00"].transpose(1, 2, 0)
    dumped = np.load(tmp_path / "dump" / "layer_00.npy")
    assert dumped.shape == (3, 2, 5) and dumped.min() < 0
    np.testing.assert_array_equal(dumped, expected)


def test_plan_and_code_name_the_storage(tmp_path: Path) -> None:
    _signed_4_bits(tmp_path / "app", 5)
    plan = json.loads((tmp_path / "app" / "plan.json").read_text())
    (source,) = plan["network"]["inputs"]
    assert source["type"] == "i4"
    assert "input i4 5 x 3 x 2" in (tmp_path / "app" / "src" / "dory_layer_00.c").read_text()
    header = (tmp_path / "app" / "src" / "network.h").read_text()
    assert "DORY_NETWORK_INPUT_BYTES 18" in header
    assert "i4, H x W x C = 3 x 2 x 5" in header


def test_kernel_that_leaves_rubbish_in_padding_bits_is_found(tmp_path: Path) -> None:
    _signed_4_bits(tmp_path / "app", 1)
    source = tmp_path / "app" / "kernels" / "dory_portable_elements.h"
    text = source.read_text()
    cleared = "const uint32_t kept = bit % 8 == 0 ? 0u"
    assert cleared in text
    source.write_text(text.replace(cleared, cleared.replace("0u", "0x80u")))
    with pytest.raises(VerificationFailed, match=r"layer 0 'Conv_0': padding bits .* not zero"):
        run_application(tmp_path / "app", plugins=ToyChip().plugins())


@pytest.mark.slow
def test_4_bits_take_half_of_the_memory_at_every_level(tmp_path: Path) -> None:
    """The same network, streamed, on a chip that stores narrow tensors and on one with bytes."""
    builder = GraphBuilder((32, 24, 24), values=(0, 15), seed=3)
    for _ in range(3):
        window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
        builder.conv(32, window, output=(0, 15), weights=(-8, 7))
    whole = ToyChip()
    three_levels = replace(
        whole,
        memories=(*whole.memories, Memory("PSRAM", 1 << 20)),
        links=(*whole.links, Link(upper=2, lower=3, setup_cycles=300, bytes_per_cycle=0.5)),
    )
    plans = []
    for widths in (STORAGE_BITS, (8, 16, 32)):
        plugins = replace(three_levels, storage_bits=widths).plugins()
        directory = tmp_path / str(widths[0])
        budgets = {1: 12_000, 2: 22_000}
        plans.append(build_app(builder.graph(), "toy", directory, budgets=budgets, plugins=plugins))
        assert_exact(directory, plugins=plugins, dma=("random",))
    packed, loose = plans
    tensors = [(p.steps[0].layer.inputs[0], p.steps[0].layer.output) for p in plans]
    assert [{t.bits for t in pair} for pair in tensors] == [{4}, {8}]
    assert 2 * packed.inputs[0].tensor.size_bytes == loose.inputs[0].tensor.size_bytes

    def streamed(plan: Plan) -> int:
        names = {f"layer_{n:02d}" for n in range(3)} | {"input"}
        return sum(t.size for t in plan.transfers if t.block.tensor in names)

    assert streamed(loose) > 0 and 2 * streamed(packed) <= streamed(loose)
    for plan, bits in ((packed, 4), (loose, 8)):
        for step in plan.steps:
            tile, buffer = step.tiling.tile, step.block("x")
            assert buffer is not None
            assert 0 <= buffer.bytes - tile.x_h * tile.x_w * tile.c_in * bits // 8 < 8
