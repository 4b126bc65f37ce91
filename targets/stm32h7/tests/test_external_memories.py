"""Memories outside of the chip: RAM through which activations pass, mapped flash for constants."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import dory_stm32h7
import pytest
from dory_stm32h7 import plugin
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.part import KIB
from dory_stm32h7.part_files import linker_script, script_path
from dory_stm32h7.parts import part_of
from dory_stm32h7.toolchain import find_toolchain
from image import compiled, require_emulator, run_image

from dory_core.api import DoesNotFit, Graph, TargetContext, ops, simulate
from dory_core.importing import requant
from dory_core.testing import Plugins, run_application
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
RAM = {"external_ram_kib": "8192"}
FLASH = {"external_flash_kib": "8192"}
# Bits of the attributes of a region of the MPU.
TEX_NORMAL, CACHEABLE = 1 << 19, 1 << 17


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    return load_plugins()


def context(**settings: str) -> TargetContext:
    return Plugins.from_objects(stm32h7=plugin).context("stm32h7", settings)


def network(last: int = 2) -> Graph:
    """A residual whose first tensor waits. last: step of the last layer."""
    builder = GraphBuilder((16, 40, 13), name="tall")
    first = builder.conv(16, SAME)
    builder.conv(16, SAME)
    second = builder.conv(16, ops.Window(kernel=(1, 1)))
    builder.add(first, second, operands=(None, None), requants=(requant(1, 0, 2, 0, 255),))
    window = ops.Window(kernel=(3, 3), strides=(last, last), pads=(1, 1, 1, 1))
    builder.conv(8 if last > 1 else 24, window)
    return builder.graph()


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        FLASH,
        {"dma": "memcpy"},
        {"memory": "dcache"},
        {"memory": "uncached"},
        {"part": "stm32f767", **FLASH},
        {"part": "stm32h7s7"},
    ],
    ids=lambda settings: ",".join(settings.values()) or "mdma",
)
def test_activations_pass_through_external_ram(
    settings: dict[str, str], plugins: Plugins, tmp_path: Path
) -> None:
    plan = build_app(
        network(),
        "stm32h7",
        tmp_path / "app",
        plugins=plugins,
        budgets={2: 12 * 1024},
        settings={**RAM, **settings, "moves": "-fused-chains,-l1-residency"},
        seeds=(0, 1),
    )
    assert plan.levels[1].used <= 12 * 1024
    in_place = "memory" in settings
    assert all(step.in_place == in_place for step in plan.steps)
    assert any(step.output.place.level == 3 for step in plan.steps)
    assert all(len(step.parts) > 1 for step in plan.steps)
    assert {step.weights.level for step in plan.steps if step.weights is not None} == {4}
    assert_exact(tmp_path / "app")
    run_image(tmp_path / "app", plugins)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("settings", "cached"),
    [({}, False), ({"dma": "memcpy"}, True), ({"part": "stm32f746"}, True)],
    ids=["mdma", "memcpy", "stm32f746"],
)
def test_the_core_takes_external_ram_for_memory(
    settings: dict[str, str], cached: bool, plugins: Plugins, tmp_path: Path
) -> None:
    """Without a region of the MPU the addresses of SDRAM are those of devices."""
    chosen = {**RAM, **settings}
    build_app(network(), "stm32h7", tmp_path / "app", plugins=plugins, settings=chosen)
    part = part_of(chosen)
    toolchain = find_toolchain(part)
    program = simulate.build_program(tmp_path / "app", toolchain.recipe(), toolchain.compiler)
    machine = Machine(read_elf(program), part=part)
    machine.run(60)
    assert part.external_ram is not None
    attributes = machine.core.region(part.external_ram.address)
    assert attributes is not None and attributes & TEX_NORMAL
    assert bool(attributes & CACHEABLE) == cached
    assert attributes >> 1 & 0x1F == (part.external_ram.size_bytes - 1).bit_length() - 1


@pytest.mark.sample(2)
@pytest.mark.parametrize("dma", ["mdma", "memcpy"])
def test_inputs_and_outputs_larger_than_sram_lie_in_external_ram(
    dma: str, plugins: Plugins, tmp_path: Path
) -> None:
    plan = build_app(
        network(last=1),
        "stm32h7",
        tmp_path / "app",
        plugins=plugins,
        budgets={2: 8 * 1024},
        settings={**RAM, "dma": dma, "moves": "-fused-chains,-l1-residency"},
        seeds=(0, 1),
    )
    assert [place.level for place in (*plan.inputs, *plan.outputs)] == [3, 3]
    assert_exact(tmp_path / "app")
    run_image(tmp_path / "app", plugins)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["stm32h743", "stm32h750"])
def test_a_project_of_the_user_has_both_memories(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    """The library with the README's main, our start-up, and a linker script that takes the sections
    of dory as the README says."""
    app, settings = tmp_path / "app", {**RAM, **FLASH, "part": name}
    build_app(
        network(),
        "stm32h7",
        app,
        plugins=plugins,
        budgets={2: 12 * 1024},
        settings={**settings, "form": "library", "moves": "-fused-chains,-l1-residency"},
    )
    text = (app / "README.md").read_text()
    assert "EXTERNAL_FLASH" in text and "EXTERNAL_RAM" in text and "numbers 13 to 15" in text
    example = re.search(r"```c\n(.*?)```", text, re.DOTALL)
    assert example is not None
    board, part = Path(dory_stm32h7.__file__).parent / "board", part_of(settings)
    shutil.copytree(board, app / "board", ignore=shutil.ignore_patterns("qemu", "*.mako"))
    (app / "board/main.c").write_text(example[1])
    script = app / "board/sections.ld"
    lines = [line for line in script.read_text().splitlines() if ".dory_" not in line]
    at = lines.index("SECTIONS") + 2
    script.write_text("\n".join((*lines[:at], "INCLUDE hal/stm32h7/dory_sections.ld", *lines[at:])))
    memory = re.search(r"MEMORY\n.*?\n\}\n", str(linker_script(part).content), re.DOTALL)
    assert memory is not None
    (app / script_path(part)).write_text(f"{memory[0]}INCLUDE board/sections.ld\n")
    toolchain = find_toolchain(part)
    image = read_elf(simulate.build_program(app, toolchain.recipe(), toolchain.compiler))
    machine = Machine(image, part=part)
    machine.run(60)
    assert machine.exit_code is not None and machine.output == ""
    assert machine.memories.outside(image.symbol("dory_l3_arena").address)
    weights = [symbol.address for symbol in image.symbols if "_weights_" in symbol.name]
    assert weights and (min(weights) >= 0x9000_0000) == (part.name == "stm32h750")


def test_qemu_has_both_memories(plugins: Plugins, tmp_path: Path) -> None:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    build_app(
        network(),
        "stm32h7",
        tmp_path / "app",
        plugins=plugins,
        budgets={2: 12 * 1024},
        settings={**RAM, **FLASH, "dma": "memcpy", "moves": "-fused-chains,-l1-residency"},
    )
    assert run_application(tmp_path / "app", plugins=plugins, runner="qemu").exact


def of_much_reuse_and_little(outputs: int = 20) -> Graph:
    """Convolutions of many pixels and of 25, and a layer whose constants are used once."""
    builder = GraphBuilder((16, 20, 20), name="mixed", seed=5)
    builder.conv(32, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    builder.conv(16, ops.Window(kernel=(3, 3), strides=(4, 4), pads=(1, 1, 1, 1)))
    builder.linear(outputs)
    return builder.graph()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "settings", [{}, {"memory": "dcache"}, {"vectors": "none"}], ids=["mdma", "dcache", "none"]
)
def test_constants_that_are_used_least_stay_in_the_flash_of_the_chip(
    settings: dict[str, str], plugins: Plugins, tmp_path: Path
) -> None:
    """It has 14 KiB for constants; those of the layers have 5, 5 and 8 KB."""
    chosen = {**FLASH, "flash_kib": "142", **settings}
    app, part = tmp_path / "app", part_of(chosen)
    plan = build_app(
        of_much_reuse_and_little(), "stm32h7", app, plugins=plugins, settings=chosen, seeds=(0, 1)
    )
    weights = [step.weights for step in plan.steps if step.weights is not None]
    assert [one.far for one in weights] == [True, False, False]
    assert sum(one.size for one in weights if not one.far) <= 14 * KIB
    assert_exact(app)
    run_image(app, plugins)
    toolchain = find_toolchain(part)
    image = read_elf(simulate.build_program(app, toolchain.recipe(), toolchain.compiler))
    far = {s.name: s.address >= 0x9000_0000 for s in image.symbols if "_weights_" in s.name}
    assert far == {"dory_weights_00": True, "dory_weights_01": False, "dory_weights_02": False}


def test_constants_in_external_flash_cost_more_where_they_are_not_hidden(tmp_path: Path) -> None:
    cycles = []
    for part in ("stm32h743", "stm32h750"):
        graph = of_much_reuse_and_little(outputs=200)
        plan = build_app(graph, "stm32h7", tmp_path / part, settings={"part": part})
        cycles.append(plan.steps[-1].estimate.cycles)
    assert cycles[1] > 3 * cycles[0]


def test_costs_follow_from_the_clock_of_the_bus_and_that_of_the_core() -> None:
    """QUADSPI: four bits per clock of 100 MHz. SDRAM: 40 clocks for 64 bytes."""
    for point, hertz in (("480MHz", 480e6), ("400MHz", 400e6)):
        memory = context(operating_point=point, **RAM, **FLASH).memory
        assert memory.far_link is not None
        assert memory.far_link.bytes_per_cycle * hertz == pytest.approx(50e6)
        assert memory.link(2).bytes_per_cycle * hertz == pytest.approx(160e6)
        alone = context(part="stm32h750", operating_point=point).memory
        assert alone.constants_link.bytes_per_cycle == memory.far_link.bytes_per_cycle
    inside, by_core = context().memory, context(dma="memcpy", **RAM).memory
    assert inside.constants_link.bytes_per_cycle == memory.constants_link.bytes_per_cycle
    assert inside.constants_link.bytes_per_cycle > memory.far_link.bytes_per_cycle
    assert by_core.link(2).blocking and not memory.link(2).blocking
    assert by_core.link(2).bytes_per_cycle < memory.link(2).bytes_per_cycle


@pytest.mark.slow
def test_a_network_with_more_constants_than_flash_is_exact(
    plugins: Plugins, tmp_path: Path
) -> None:
    result = compiled("nemo_mv1_100_128", tmp_path / "app", plugins, {}, **FLASH)
    assert result.golden_exact and result.plan.deployable
    run_image(tmp_path / "app", plugins, repeat=1)


@pytest.mark.parametrize(
    ("limits", "remedy"),
    [({"flash_kib": "132"}, FLASH), ({}, RAM)],
    ids=["constants", "activations"],
)
def test_a_network_that_is_too_large_is_told_the_way_out(
    limits: dict[str, str], remedy: dict[str, str], tmp_path: Path
) -> None:
    """The flash has 4 KiB for constants; no memory of the chip has room for a whole input."""
    rows = 1 if limits else 2000
    builder = GraphBuilder((16, 20 * rows, 32), name="large")
    builder.conv(64, ops.Window(kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)))
    with pytest.raises(DoesNotFit) as caught:
        build_app(builder.graph(), "stm32h7", tmp_path / "app", settings=limits)
    ((option, value),) = remedy.items()
    assert f"`--set {option}={value}`" in caught.value.hint
    with_it = {**limits, **remedy}
    if limits:
        build_app(builder.graph(), "stm32h7", tmp_path / "app", settings=with_it)
        assert_exact(tmp_path / "app")
    with pytest.raises(DoesNotFit) as caught:
        build_app(builder.graph(), "stm32h7", tmp_path / "less", settings={**with_it, option: "4"})
    assert "--set" not in caught.value.hint
