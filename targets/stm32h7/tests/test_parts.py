"""The table of parts: facts, options, the image of each part on its own memory map."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dory_stm32h7
import pytest
from dory_stm32h7 import hardware, plugin
from dory_stm32h7.backend import candidates
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.part import KIB, Part
from dory_stm32h7.parts import DEFAULT, PARTS, STM32H743, part_of
from dory_stm32h7.toolchain import GCC, find_toolchain
from image import compiled, require_emulator, run_image

from dory_core.api import TargetContext, UsageError, VerificationFailed, ops, simulate
from dory_core.importing import requant
from dory_core.testing import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins, read_plan

# Parts whose images differ in more than sizes; all others are run by the slow test.
IN_CI = ("stm32h7a3", "stm32h7s7", "stm32f746", "cortex-m4", "cortex-m33")
NETWORKS = ("nemo_small_cnn", "quantlab_small_conv8", "nemo_ds_cnn_kws", "nemo_eegnet_1d_8b_1xW")


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    return load_plugins()


def context(**settings: str) -> TargetContext:
    return Plugins.from_objects(stm32h7=plugin).context("stm32h7", settings)


def small() -> GraphBuilder:
    """Each kind of layer with assembly, a residual and a classifier."""
    window = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    builder = GraphBuilder((8, 13, 11), name="small", seed=3)
    first = builder.conv(12, window)
    second = builder.conv(12, window, groups=12)
    builder.add(first, second, requants=(requant(1, 0, 512, 0, 255),))
    builder.conv(16, ops.Window(kernel=(1, 1)))
    builder.avg_pool(ops.Window(kernel=(13, 11)))
    builder.linear(5)
    return builder


def build(directory: Path, part: str, plugins: Plugins, **settings: str) -> None:
    chosen = {"part": part, **settings}
    build_app(small().graph(), "stm32h7", directory, plugins=plugins, settings=chosen, seeds=(0, 1))


@pytest.mark.sample(3)
@pytest.mark.parametrize("part", IN_CI)
def test_image_of_a_part_is_exact(part: str, plugins: Plugins, tmp_path: Path) -> None:
    build(tmp_path / "app", part, plugins)
    dma = run_image(tmp_path / "app", plugins, repeat=1).dma
    assert dma == ("late" if part_of({"part": part}).mdma else "none")


@pytest.mark.slow
@pytest.mark.parametrize("part", [part.name for part in PARTS])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_are_exact_on_each_part(
    network: str, part: str, plugins: Plugins, tmp_path: Path
) -> None:
    result = compiled(network, tmp_path / "app", plugins, {}, part=part)
    assert result.golden_exact and result.plan.deployable
    run_image(tmp_path / "app", plugins, repeat=1)


def test_an_access_outside_of_the_memories_of_a_part_is_a_fault(
    plugins: Plugins, tmp_path: Path
) -> None:
    """The image of one part on the memories of another one."""
    build(tmp_path / "app", "stm32h743", plugins)
    toolchain = find_toolchain(STM32H743)
    program = simulate.build_program(tmp_path / "app", toolchain.recipe(), toolchain.compiler)
    for other, message in (("stm32f746", "0x580244d4"), ("stm32h7a3", "0x5c001000")):
        machine = Machine(read_elf(program), part=part_of({"part": other}))
        with pytest.raises(VerificationFailed, match=message):
            machine.run(60)


def test_constants_lie_in_the_external_flash_of_a_part_with_one(
    plugins: Plugins, tmp_path: Path
) -> None:
    build(tmp_path / "app", "stm32h750", plugins)
    run_image(tmp_path / "app", plugins, repeat=1)
    part = part_of({"part": "stm32h750"})
    toolchain = find_toolchain(part)
    image = read_elf(
        simulate.build_program(tmp_path / "app", toolchain.recipe(), toolchain.compiler)
    )
    weights = [s for s in image.symbols if "_weights_" in s.name]
    assert weights and part.external is not None
    makefile = (tmp_path / "app/board/board.mk").read_text()  # a file for each of the two flashes
    assert all(f"{option} .dory_weights" in makefile for option in ("-j", "-R"))
    assert all(s.address >= part.external.address for s in weights)
    assert all(
        address >= part.external.address or address + len(data) <= part.flash.address + 128 * KIB
        for address, data in image.segments
    )


def test_a_program_in_external_flash_has_its_own_vectors_and_loader(
    plugins: Plugins, tmp_path: Path
) -> None:
    """A boot program maps the flash and jumps there."""
    build(tmp_path / "app", "stm32h7s7", plugins)
    toolchain = find_toolchain(part_of({"part": "stm32h7s7"}))
    program = simulate.build_program(tmp_path / "app", toolchain.recipe(), toolchain.compiler)
    machine = Machine(read_elf(program), part=part_of({"part": "stm32h7s7"}))
    machine.run(60)
    assert machine.exit_code == 0
    assert machine.core.read(0xED08, 4) == 0x7000_0000
    makefile = (tmp_path / "app/board/board.mk").read_text()
    assert "-w $(IMAGE)/app.bin 0x70000000" in makefile and "st-flash" not in makefile


@pytest.mark.parametrize(
    ("part", "rounds"), [("stm32f746", True), ("stm32h743", True), ("cortex-m4", False)]
)
def test_kernels_know_the_fpu_of_the_part(part: str, rounds: bool) -> None:
    """gcc does not say whether an FPU of single precision has VCVTN."""
    layer = small().graph().layers[0]
    kernel = candidates(context(part=part), layer)[0]
    (instance,) = (file for file in kernel.sources(layer) if file.path.endswith(".c"))
    assert (
        ("#define DORY_FPV5 1" in instance.content) == rounds == part_of({"part": part}).core.fpv5
    )


@pytest.mark.parametrize("fpu", ["-mfpu=fpv5-sp-d16 -mfloat-abi=hard", "-mfloat-abi=soft"])
def test_gcc_rounds_with_an_fpu_of_single_precision(fpu: str, tmp_path: Path) -> None:
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is not installed")
    header = Path(dory_stm32h7.__file__).parent / "kernels/dory_stm32h7_binary32_impl.h"
    text = '#include <stdint.h>\n#define DORY_FPV5 1\n#include "{}"\n'
    (tmp_path / "a.c").write_text(
        text.format(header) + "int32_t f(float x) { return dory_even(x); }\n"
    )
    command = [GCC, "-mcpu=cortex-m7", "-mthumb", *fpu.split(), "-O2", "-S", "a.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert ("vcvtn.s32.f32" in (tmp_path / "a.s").read_text()) == ("fpv5" in fpu)


def test_an_unknown_part_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="cannot be 'stm32h999'") as caught:
        context(part="stm32h999")
    for part in PARTS:
        assert all(name in caught.value.hint for name in part.names)


def test_the_default_is_the_stm32h743() -> None:
    assert context().options["part"] == "stm32h743" == DEFAULT.name
    assert part_of({}) is DEFAULT
    assert part_of({"part": "stm32h753"}) is part_of({"part": "stm32h743"})


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_memories_of_each_part_are_those_of_its_record(part: Part) -> None:
    ctx = context(part=part.name)
    memory, point = ctx.memory, ctx.operating_point
    assert point is not None and point.name == part.points[0].clock.name
    assert memory.one_memory == memory.in_place == (part.tcm is None)
    assert [m.size_bytes for m in memory.level(2).memories] == [r.size_bytes for r in part.rams]
    (flash,), (own,) = memory.level(3).memories, part.constants
    assert flash.mapped and flash.size_bytes == own.size_bytes
    files = {file.path: file.content for file in plugin.dory_dma_hal(ctx).files}
    assert ("hal/stm32h7/dory_mdma.c" in files) == (part.mdma is not None)
    assert f'"{part.name}"' in files["hal/stm32h7/dory_stm32h7_part.h"]


def test_names_of_parts_are_distinct_and_sizes_are_whole() -> None:
    names = [name for part in PARTS for name in part.names]
    assert len(names) == len(set(names))
    for part in PARTS:
        outside = (part.external or part.flash_port, part.ram_port)
        memories = (*part.rams, part.flash, *filter(None, (part.tcm, *outside)))
        assert all(one.size_bytes % KIB == 0 == one.address % 32 for one in memories)
        spans = sorted((one.address, one.address + one.size_bytes) for one in memories)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"part": "cortex-m4", "memory": "dtcm"}, "part cortex-m4 has no DTCM"),
        ({"part": "cortex-m4", "memory": "dcache"}, "part cortex-m4 has no D-cache"),
        ({"part": "stm32f746", "dma": "mdma"}, "part stm32f746 has no MDMA"),
        ({"ram_kib": "64"}, "part stm32h743 has the memories of its manual"),
        ({"flash_kib": "4096"}, "part stm32h743 takes 1 to 2048 KiB"),
        ({"flash_kib": "-1"}, "takes 1 to 2048 KiB"),
        ({"external_flash_kib": "262145"}, "part stm32h743 takes 1 to 262144 KiB"),
        ({"external_ram_kib": "-1"}, "part stm32h743 takes 1 to 262144 KiB"),
        ({"part": "cortex-m4", "external_flash_kib": "64"}, "part cortex-m4 has no interface"),
        ({"part": "cortex-m7", "external_ram_kib": "64"}, "part cortex-m7 has no interface"),
        ({"part": "stm32h7s7", "external_flash_kib": "64"}, "part stm32h7s7 has no interface"),
        ({"part": "stm32h723", "operating_point": "480MHz"}, "does not go with the other options"),
    ],
)
def test_what_a_part_lacks_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        context(**settings)


# Bytes of DTCM and of flash behind stack, variables and code.
LEFT = {"stm32f746": 53248, "stm32h743": 1966080}


@pytest.mark.slow
def test_a_budget_beyond_a_part_is_loud(tmp_path: Path) -> None:
    """L1 on a part with less DTCM than another one, where it fits; constants beyond the flash."""
    pytest.importorskip("dory_tflite", reason="the plugin tflite is not installed")
    network = Path(__file__).parents[3] / "examples/tones/net.tflite"
    for part, budget, fits in (
        ("stm32f746", ("--l1", "100000"), False),
        ("stm32f767", ("--l1", "100000"), True),
        ("stm32h743", ("--l3", "8000000"), False),
    ):
        command = ["--target", "stm32h7", "--set", f"part={part}", *budget, "-q"]
        command += [str(network), "-o", str(tmp_path / part)]
        outcome = subprocess.run(
            [sys.executable, "-m", "dory_core", *command], capture_output=True, text=True
        )
        assert outcome.returncode == (0 if fits else 4), outcome.stderr
        assert (tmp_path / part).is_dir() == fits
        assert fits or f"exceeds the {LEFT[part]} B that the chip leaves" in outcome.stderr
        assert fits or "--not-deployable-ok" in outcome.stderr


def test_sizes_and_clock_of_a_generic_part_are_the_users() -> None:
    ctx = context(part="cortex-m33", ram_kib="96", flash_kib="512", clock_mhz="64")
    assert ctx.memory.level(2).size_bytes == 96 * KIB
    assert ctx.memory.level(3).size_bytes == 512 * KIB
    assert ctx.operating_point is not None and ctx.operating_point.core_hz == 64e6
    mapped = context(part="stm32h7s7", flash_kib="131072").memory
    assert mapped.level(3).size_bytes == 131072 * KIB
    larger = context(part="stm32h750", external_flash_kib="65536").memory
    assert larger.level(3).size_bytes == 65536 * KIB
    assert context(flash_kib="1024").memory.level(3).size_bytes == 1024 * KIB


def test_energy_is_unknown_where_nobody_publishes_it(plugins: Plugins, tmp_path: Path) -> None:
    for part, known in (("stm32h743", True), ("stm32h7a3", False)):
        build(tmp_path / part, part, plugins)
        totals = read_plan(tmp_path / part)["totals"]
        assert (totals["energy_mj"] is not None) == known
        assert totals["latency_ms"] > 0


def test_kernels_are_slower_on_cores_that_issue_one_instruction(
    plugins: Plugins, tmp_path: Path
) -> None:
    cycles = []
    for part in ("cortex-m7", "cortex-m4"):
        build(tmp_path / part, part, plugins)
        cycles.append(read_plan(tmp_path / part)["totals"]["cycles"])
    assert 1.2 * cycles[0] < cycles[1] < 2 * cycles[0]


def test_a_copy_by_the_core_hides_nothing() -> None:
    for settings in ({"dma": "memcpy"}, {"part": "stm32f767"}):
        assert all(link.blocking for link in context(**settings).memory.links)
    assert not any(link.blocking for link in context().memory.links)


def _row(part: Part) -> str:
    def size(count: int) -> str:
        return f"{count // KIB} KiB" if count < KIB * KIB else f"{count // KIB // KIB} MiB"

    rams = ", ".join(f"{ram.name} {size(ram.size_bytes)}" for ram in part.rams)
    flash = ", ".join(f"{size(f.size_bytes)} {f.name}" for f in (part.flash, part.external) if f)
    tiles = f"{size(part.tcm.size_bytes)} DTCM" if part.tcm else "in place"
    data = "-" if part.cache is None else size(part.cache.size_bytes)
    points = ", ".join(point.clock.name for point in part.points)
    names = ", ".join(f"`{name}`" for name in part.names)
    moves = "MDMA" if part.mdma else "core" if part.tcm else "-"
    return (
        f"| {names} | {part.core.name} | {tiles} | {rams} | {flash} | {moves} | {data} | {points} |"
    )


def test_the_manual_has_the_table() -> None:
    text = (Path(dory_stm32h7.__file__).parents[1] / "README.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert "\n".join(rows) == "\n".join(map(_row, PARTS))
    assert hardware.TARGET.options[0].choices == tuple(n for part in PARTS for n in part.names)
