"""What the model says of loads, stores and the D-cache, against counts on the emulated chip."""

from __future__ import annotations

from pathlib import Path

import pytest
from dory_stm32h7.emulator.counter import AccessCounter, MemoryAccesses
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.emulator.system import cache_size
from dory_stm32h7.parts import CACHE_16K
from image import require_emulator, session

from dory_core.api import geometry, ops
from dory_core.testing import Plugins, make_tile, missed_lines
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = ops.Window(kernel=(1, 1))
WIDE = (-32768, 32767)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    return load_plugins()


def conv(shape: tuple[int, int, int], channels: int, window: ops.Window) -> GraphBuilder:
    net = GraphBuilder(shape, name="one", seed=3)
    net.conv(channels, window)
    return net


def depthwise(channels: int, size: int, values: tuple[int, int] = (0, 255)) -> GraphBuilder:
    net = GraphBuilder((channels, size, size), values, name="one", seed=3)
    net.conv(channels, SAME, groups=channels, output=values)
    return net


def linear(inputs: int, outputs: int) -> GraphBuilder:
    net = GraphBuilder((inputs, 1, 1), name="one", seed=3)
    net.linear(outputs)
    return net


def pool(values: tuple[int, int] = (0, 255)) -> GraphBuilder:
    net = GraphBuilder((16, 32, 32), values, name="one", seed=3)
    net.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    return net


LAYERS = {
    "3x3, weights fit the cache": conv((16, 16, 16), 16, SAME),
    "3x3, weights exceed it": conv((64, 8, 8), 64, SAME),
    "1x1": conv((64, 16, 16), 32, POINT),
    "depthwise, image fits the cache": depthwise(64, 8),
    "depthwise, image exceeds it": depthwise(32, 32),
    "fully connected": linear(1024, 64),
    "maximum": pool(),
    "16 bits, depthwise, image fits the cache": depthwise(32, 8, WIDE),
    "16 bits, depthwise, image exceeds it": depthwise(32, 24, WIDE),
    "16 bits, maximum": pool(WIDE),
}


def counted(directory: Path) -> dict[str, MemoryAccesses]:
    """Return what the core did with each memory while the only layer ran."""
    image = session(directory)
    machine = image.machine
    counter = AccessCounter(machine.memories.all, CACHE_16K)
    machine.count_accesses(counter)
    marks: list[dict[str, MemoryAccesses]] = []

    def start(_: Machine) -> None:
        counter.empty_cache()  # start-up has cleared the arenas through it
        marks.append(counter.counts())

    machine.at("dory_network_run", start)
    machine.at("board_layer", lambda _: marks.append(counter.counts()))
    image.run(60)
    start, end = marks
    return {name: end[name] - start[name] for name in end}


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", LAYERS)
def test_accesses_and_filled_lines_are_near_the_counts(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    settings = {"memory": "dcache", "vectors": "none"}
    graph = LAYERS[name].graph()
    directory = tmp_path / "app"
    plan = build_app(graph, "stm32h7", directory, plugins=plugins, settings=settings)
    step = plan.steps[0]
    candidates = plugins.kernels(plugins.context("stm32h7", settings), step.layer)
    kernel = next(k for k in candidates if k.name == step.kernel.name)
    assert kernel.name.startswith("dory_stm32h7_")
    full = geometry.extent(step.layer)
    tile = make_tile(step.layer, full.c_out, full.h, full.w, full.c_in)
    found = counted(directory)
    accesses = kernel.accesses(step.layer, tile, CACHE_16K.line_bytes)
    for memory, operands in (("AXI SRAM", "xy"), ("flash", "w")):
        own = [a for a in accesses if a.operand in operands]
        if not own:
            continue
        loads_stores = found[memory].loads + found[memory].stores
        assert sum(a.count for a in own) == pytest.approx(loads_stores, rel=0.2), memory
        lines = sum(missed_lines(a, CACHE_16K) for a in own)
        # Lines are replaced at random, and what lies beside the tensors takes part in it.
        assert lines == pytest.approx(found[memory].fills, rel=0.5, abs=200), memory


def test_emulated_core_names_the_size_of_its_data_cache() -> None:
    """CCSIDR, as the Armv7-M manual lays it out: start-up goes through all sets and ways."""
    size = cache_size(CACHE_16K)
    sets, ways, words = (size >> 13 & 0x7FFF) + 1, (size >> 3 & 0x3FF) + 1, 4 << (size & 7)
    assert (sets, ways) == (CACHE_16K.sets, CACHE_16K.ways)
    assert 4 * words == CACHE_16K.line_bytes


def test_dtcm_is_not_cached(plugins: Plugins, tmp_path: Path) -> None:
    """Scratch memory and stack are loaded and stored, and fill no line."""
    directory = tmp_path / "app"
    settings = {"memory": "dcache", "vectors": "none"}
    graph = LAYERS["3x3, weights fit the cache"].graph()
    build_app(graph, "stm32h7", directory, plugins=plugins, settings=settings)
    dtcm = counted(directory)["DTCM"]
    assert dtcm.loads > 10_000 and dtcm.stores > 1000
    assert dtcm.fills == 0


@pytest.mark.parametrize("memory", ["dtcm", "dcache", "uncached"])
def test_image_turns_the_data_cache_on_or_leaves_it_off(
    memory: str, plugins: Plugins, tmp_path: Path
) -> None:
    directory = tmp_path / "app"
    settings = {"memory": memory, "vectors": "none"}
    graph = LAYERS["1x1"].graph()
    build_app(graph, "stm32h7", directory, plugins=plugins, settings=settings)
    image = session(directory)
    caches: list[tuple[bool, bool]] = []
    core = image.machine.core
    image.machine.at(
        "dory_network_run", lambda _: caches.append((core.instruction_cache, core.data_cache))
    )
    image.run(60)
    assert caches == [(True, memory != "uncached")]
    arena = image.machine.image.symbol("dory_l2_arena").address
    flash = image.machine.memories.flash.base
    assert core.cached(arena) == (memory == "dcache")
    assert core.cached(flash) == (memory != "uncached")


def test_a_layer_takes_longest_without_the_cache(plugins: Plugins, tmp_path: Path) -> None:
    cycles = {}
    for memory in ("dcache", "uncached"):
        settings = {"memory": memory}
        plan = build_app(
            LAYERS["1x1"].graph(), "stm32h7", tmp_path / memory, plugins=plugins, settings=settings
        )
        found = plan.steps[0].estimate
        assert found.cycles == found.compute_cycles + found.stall_cycles
        cycles[memory] = found.cycles
    assert cycles["uncached"] > 1.3 * cycles["dcache"]


def test_flash_waits_longer_at_the_higher_clock(plugins: Plugins) -> None:
    waits = {}
    for point in ("400MHz", "480MHz"):
        ctx = plugins.context("stm32h7", {"memory": "dcache", "operating_point": point})
        waits[point] = ctx.memory.level(3).memories[0].line_cycles
    assert waits == {"400MHz": 12 + 2 * 2, "480MHz": 12 + 2 * 4}
