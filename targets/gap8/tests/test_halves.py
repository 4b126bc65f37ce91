"""Sums of bytes that are stored as two bytes: kernels, networks, the program for the chip."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dory_gap8.backend import AddBytesKernel, GatherKernel, PointwiseKernel, WindowKernel
from dory_gap8.backend.block import BlockKernel
from gap8_layers import CLIPS, SPACE, make_case
from test_block import conv, whole
from test_bytes import add, every_pair

from dory_core.api import Graph, Layer, Requant, ops
from dory_core.importing import requant
from dory_core.testing import run_application
from dory_core.testing.apps import DMA_MODES, assert_exact, build_app
from dory_core.testing.compilers import host_compiler_text
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernel_cases import takes
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, typed
from dory_core.testing.random_layers import RandomLayers
from dory_core.tools import load_plugins

SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = ops.Window(kernel=(1, 1))


def halved(
    c_in: int,
    c_out: int,
    image: tuple[int, int],
    window: ops.Window,
    steps: tuple[Requant, ...] | None = None,
) -> Layer:
    """Return a convolution of sums of bytes in two halves."""
    op = conv(c_in, c_out, image, window, steps).op
    layer = typed(op, (c_in, *image, 0, 510))
    return replace(layer, inputs=(replace(layer.inputs[0], halves=True),))


def halved_sum(image: tuple[int, int, int], *operands: Requant | None) -> Layer:
    layer = add(operands or (None, None), image=image)
    return replace(layer, output=replace(layer.output, halves=True))


# --- kernels ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps", [None, (), (requant([1003] * 8, [9] * 8, (1 << 21) - 1, 0, 255),)], ids=str
)
def test_windows_of_all_shapes_read_halves_in_place(steps: tuple[Requant, ...] | None) -> None:
    """Borders on all sides, windows that are copied there, blocks of three, channels left over."""
    windows = (
        *(SAME, POINT, replace(SAME, strides=(2, 2)), replace(POINT, strides=(2, 2))),
        ops.Window(kernel=(3, 2), strides=(1, 2), dilations=(2, 3), pads=(0, 3, 4, 1)),
        ops.Window(kernel=(5, 3), pads=(4, 1, 4, 1)),
        ops.Window(kernel=(1, 5), pads=(0, 2, 0, 2)),
    )
    images: dict[int, list[tuple[int, tuple[int, int]]]] = {
        8: [(8, (9, 14)), (20, (6, 9)), (32, (5, 5))],
        3: [(12, (7, 3)), (8, (5, 14))],
    }
    symbols = ""
    for cores, shapes in images.items():
        cases = [
            whole(WindowKernel(), halved(c_in, 8, image, window, steps), cores)
            for c_in, image in shapes
            for window in (windows if steps is None else windows[2:6])
        ]
        odd = whole(WindowKernel(), halved(16, 13, (7, 9), SAME), cores)
        cases += [odd, replace(odd, tile=(5, 3, 4, 16))]
        HostLibrary(cases).check()
        symbols += "".join(case.kernel.symbol(case.layer) for case in cases)
    assert "_copied_u8x2_" in symbols
    assert "_threes_u8x2_" in symbols


def test_halves_have_weights_of_bytes_once() -> None:
    layer = halved(16, 4, (5, 5), SAME)
    bytewise = conv(16, 4, (5, 5), SAME)
    kernel = WindowKernel()
    assert kernel.row_bytes(layer) == kernel.row_bytes(bytewise) == 9 * 16
    image = [
        kernel.weight_block(one, (0, 4), (0, 16)).data[-4 * 9 * 16 :] for one in (layer, bytewise)
    ]
    assert image[0] == image[1]


def test_extreme_halves_do_not_overflow() -> None:
    layer = halved(32, 4, (3, 3), SAME, ())
    weights = np.full(layer.op.weights.shape, -128)
    op = replace(layer.op, weights=type(layer.op.weights)(weights))
    layer = replace(typed(op, (32, 3, 3, 0, 510)), inputs=layer.inputs)
    case = replace(whole(WindowKernel(), layer), inputs=(np.full((32, 3, 3), 510),))
    library = HostLibrary([case])
    library.check()
    assert library.run(0).min() == -128 * 510 * 9 * 32


@pytest.mark.parametrize("cores", [1, 3, 8])
def test_every_pair_of_bytes_is_stored_in_halves(cores: int) -> None:
    pairs = every_pair(add((None, None)))
    inputs = tuple(x.reshape(8, 32, 256) for x in pairs.inputs)
    kernel = AddBytesKernel(cores)
    case = KernelCase(kernel, halved_sum((8, 32, 256)), inputs, (8, 32, 256, 8))
    tiles = [replace(case, tile=(4, 7, 9, 4)), replace(case, tile=(8, 32, 3, 8))]
    HostLibrary([case, *tiles]).check()


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (halved(4, 8, (5, 5), SAME), "it wants 8 inputs in a pixel, if in two halves"),
        (halved_sum((8, 5, 5), requant(2), None), "only a plain sum of unsigned bytes"),
    ],
)
def test_what_is_not_computed_in_halves(layer: Layer, reason: str) -> None:
    kernel = AddBytesKernel() if isinstance(layer.op, ops.Add) else WindowKernel()
    assert reason in kernel.accepts(layer).reason


def test_other_kernels_get_no_halves() -> None:
    layer = halved(16, 8, (5, 5), POINT)
    assert takes(WindowKernel(), layer)
    assert not any(takes(kernel, layer) for kernel in (GatherKernel(), PointwiseKernel()))


def random_cases(seed: int, count: int) -> list[KernelCase]:
    """Random windows, channels and requantisations, tiles included."""
    random = RandomLayers(SPACE, seed)
    cases: list[KernelCase] = []
    while len(cases) < count:
        y = random.pick("u8", "i8", "i32", "i16")
        window = random.window(random.pick((1, 1), (3, 3), (2, 3), (5, 1), (1, 4)))
        c_in, c_out = 4 * random.integer(2, 10), random.integer(1, 40)
        weights = random.weights(c_out, c_in, *window.kernel)
        steps = () if y == "i32" else random.requants(c_out, 510 * 32 * c_in, CLIPS[y])
        layer = alone(ops.Conv, weights=weights, window=window, requants=steps)
        made = typed(layer, (c_in, *random.image(window), 0, 510))
        made = replace(made, inputs=(replace(made.inputs[0], halves=True),))
        if WindowKernel().accepts(made) is None:
            kernel = WindowKernel(random.pick(1, 3, 8))
            cases.append(make_case(kernel, made, random.numbers))
    return cases


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_layers_of_halves_equal_the_reference(seed: int) -> None:
    for case in random_cases(seed, 12):
        HostLibrary([case]).check()


# --- networks ---------------------------------------------------------------------------------


def residual(channels: int = 16, side: int = 13) -> Graph:
    """Two sums of bytes, each read by a 3x3 and a 1x1 convolution; values of the whole range."""
    builder = GraphBuilder((8, side, side), seed=7)
    x = builder.conv(channels, POINT)
    for stride in (2, 1):
        window = replace(SAME, strides=(stride, stride))
        y = builder.conv(channels, window, source=x, output=(0, 255))
        z = builder.conv(channels, replace(POINT, strides=(stride, stride)), source=x)
        x = builder.add(y, z, operands=(None, None), requants=())
    builder.conv(9, SAME, source=x)
    return builder.graph()


def types(plan: object) -> list[str]:
    return [step.layer.output.type_name for step in plan.steps]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("budgets", "cores"),
    [
        pytest.param({}, "8", id="whole_layers"),
        pytest.param({1: 6000}, "3", id="tiles"),
        pytest.param({1: 7000, 2: 9000}, "8", id="streamed"),
        pytest.param({1: 5000}, "1", id="one_core", marks=pytest.mark.slow),
    ],
)
def test_networks_with_sums_in_halves_are_exact(
    tmp_path: Path, budgets: dict[int, int], cores: str
) -> None:
    plan = build_app(
        residual(), "gap8", tmp_path, budgets=budgets, settings={"cores": cores}, seeds=(1, 2)
    )
    assert types(plan).count("u8x2") == 2
    assert bool(plan.transfers) == (2 in budgets)
    assert_exact(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", DMA_MODES)
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
def test_sanitizers_find_nothing_in_halves(tmp_path: Path, mode: str, sanitize: str) -> None:
    build_app(residual(20, 11), "gap8", tmp_path, budgets={1: 6000})
    assert_exact(tmp_path, dma=(mode,), sanitize=sanitize)


def test_networks_of_plain_c_have_no_halves(tmp_path: Path) -> None:
    plan = build_app(residual(8, 5), "gap8", tmp_path, settings={"kernels": "portable"})
    assert "u8x2" not in types(plan)
    assert_exact(tmp_path, dma=("random",), repeat=1)


def test_halves_take_fewer_cycles_and_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = residual(32, 25)
    halves = build_app(network, "gap8", tmp_path / "halves")
    monkeypatch.setattr(WindowKernel, "features", BlockKernel.features)
    words = build_app(network, "gap8", tmp_path / "words")
    assert [types(plan).count("u8x2") for plan in (halves, words)] == [2, 0]
    assert halves.cycles < 0.95 * words.cycles
    assert halves.arena_used <= words.arena_used


@pytest.mark.skipif(shutil.which("make") is None, reason="make stands for the one of the SDK")
def test_the_program_for_the_chip_compares_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULES_DIR", str(Path(__file__).parent / "sdk" / "rules"))
    monkeypatch.setenv("STUB_CC", host_compiler_text())
    plan = build_app(residual(8, 5), "gap8", tmp_path / "app", settings={"cores": "1"})
    number = types(plan).index("u8x2")
    index = plan.steps[number].layer.op.index
    plugins = load_plugins()
    (tmp_path / "app" / ".dory-application").unlink()  # which tells that vectors were edited
    file = tmp_path / "app" / "vectors" / f"layer_{index:02d}.bin"
    data = bytearray(file.read_bytes())
    data[38] ^= 1  # the first half of channel 2 and the second one of channel 3
    data[len(data) - 1] ^= 0x40
    file.write_bytes(data)
    target, host = (
        run_application(tmp_path / "app", plugins=plugins, runner=name)
        for name in ("gvsoc", "host")
    )
    mine, its = target.runs[0].layers[number], host.runs[0].layers[number]
    assert mine.mismatches == 2
    assert (mine.mismatches, mine.first) == (its.mismatches, its.first)
    others = [layer.exact for layer in target.runs[0].layers if layer.index != index]
    assert others and all(others)
