"""Images with other options, other memories and other inputs; and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_stm32h7 import runners as runners_module
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.toolchain import find_toolchain
from image import IN_CI, LONG, RUNNER, compiled, require_emulator, run_image, session

from dory_core.api import DoesNotFit, ToolMissing, UsageError, VerificationFailed, ops, simulate
from dory_core.importing import requant
from dory_core.testing import Plugins, run_application
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import network_cases
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins, read_plan
from tests.nets import net_names, nets_dir


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    return load_plugins()


def small() -> GraphBuilder:
    """Two convolutions, a residual and a pool."""
    window = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    builder = GraphBuilder((8, 15, 17), name="small", seed=3)
    first = builder.conv(12, window)
    second = builder.conv(12, window)
    builder.add(first, second, requants=(requant(1, 0, 512, 0, 255),))
    builder.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    return builder


@pytest.mark.parametrize(
    ("settings", "dma"),
    [
        ({"dma": "memcpy"}, "none"),
        ({"memory": "dcache"}, "none"),
        ({"memory": "uncached"}, "none"),
        ({"vectors": "all"}, "late"),
        ({"vectors": "none"}, "late"),
    ],
    ids=lambda value: "_".join(value.values()) if isinstance(value, dict) else "",
)
def test_image_is_exact_with_option(
    settings: dict[str, str], dma: str, plugins: Plugins, tmp_path: Path
) -> None:
    directory = tmp_path / "app"
    build_app(
        small().graph(), "stm32h7", directory, plugins=plugins, settings=settings, seeds=(0, 1)
    )
    assert run_image(directory, plugins).dma == dma


def test_image_says_itself_that_all_stripes_of_a_fused_chain_are_exact(
    plugins: Plugins, tmp_path: Path
) -> None:
    builder = GraphBuilder((8, 24, 12), name="chain")
    for channels in (16, 16, 4):
        builder.conv(channels, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    directory = tmp_path / "app"
    plan = build_app(
        builder.graph(),
        "stm32h7",
        directory,
        plugins=plugins,
        settings={"vectors": "all", "moves": "-l1-residency"},
        budgets={2: 6 * 1024},
        seeds=(0, 1),
    )
    assert any(len(step.parts) > 2 for step in plan.steps)
    image = session(directory, inputs=2)
    image.run(60)
    lines = image.machine.output.splitlines()
    pieces = sum(len(step.parts) if step.output.place.passing else 1 for step in plan.steps)
    assert len(lines) == 2 * (pieces + 1)
    assert all(" exact, " in line for line in lines)


def test_image_says_itself_that_all_layers_are_exact(plugins: Plugins, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    settings = {"vectors": "all"}
    build_app(
        small().graph(), "stm32h7", directory, plugins=plugins, settings=settings, seeds=(0, 1)
    )
    image = session(directory, inputs=2)
    image.run(60)
    lines = image.machine.output.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        line
        for run in (0, 1)
        for line in (*(f"layer {n} exact" for n in range(4)), f"output of run {run} exact")
    ]
    assert image.machine.exit_code == 0


def test_state_goes_from_run_to_run_and_is_reset(plugins: Plugins, tmp_path: Path) -> None:
    """The image does it from its vectors; the runner does it for as many repetitions as wanted."""
    (graph,) = (case.build() for case in network_cases() if case.name == "state")
    directory, settings, seeds = tmp_path / "app", {"vectors": "io"}, (3, 4, 5)
    build_app(graph, "stm32h7", directory, plugins=plugins, settings=settings, seeds=seeds)
    image = session(directory, inputs=3)
    image.run(60)
    lines = [line.split(",")[0] for line in image.machine.output.splitlines()]
    assert lines == [f"output of run {run} exact" for run in range(3)]
    assert len(run_image(directory, plugins).runs) == 6


def test_wrong_golden_in_the_image_is_noticed(plugins: Plugins, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    build_app(small().graph(), "stm32h7", directory, plugins=plugins)
    path = directory / "vectors/output.bin"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    with pytest.raises(UsageError, match="not the file that dory wrote"):
        run_application(directory, plugins=plugins, runner=RUNNER)
    image = session(directory)
    image.run(60)
    assert image.found_differences
    assert "output of run 0 differs, wrong bytes: 1" in image.machine.output


def test_an_input_of_the_user_runs_in_place(plugins: Plugins, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    build_app(small().graph(), "stm32h7", directory, plugins=plugins)
    path = tmp_path / "input.txt"
    values = np.random.default_rng(7).integers(0, 256, 8 * 15 * 17)
    path.write_text("\n".join(str(v) for v in values))
    result = run_application(
        directory, plugins=plugins, inputs=[path], runner=RUNNER, dump=tmp_path / "dump"
    )
    assert result.exact
    assert np.load(tmp_path / "dump/layer_00.npy").shape == (15, 17, 12)


def test_arenas_may_stay_cached(plugins: Plugins, tmp_path: Path) -> None:
    """The driver then cleans and invalidates every line that it moves."""
    directory = tmp_path / "app"
    build_app(small().graph(), "stm32h7", directory, plugins=plugins, budgets={1: 9000})
    config = directory / "hal/stm32h7/dory_stm32h7_config.h"
    config.write_text(config.read_text().replace("ARENAS_CACHED 0", "ARENAS_CACHED 1"))
    run_image(directory, plugins)
    driver = directory / "hal/stm32h7/dory_mdma.c"
    text = driver.read_text()
    for side in ("src", "dst"):
        line = f"flush_box(job->{side}, job, job->{side}_row, job->{side}_plane);"
        assert line in text
        driver.write_text(text.replace(line, ""))
        with pytest.raises(VerificationFailed, match="lines of it were not cleaned"):
            run_application(directory, plugins=plugins, runner=RUNNER)


def test_a_peak_of_640000_bytes_fits_as_two_tensors_in_two_memories(
    plugins: Plugins, tmp_path: Path
) -> None:
    builder = GraphBuilder((10, 200, 200), name="wide")
    builder.conv(6, ops.Window(kernel=(1, 1)))
    directory = tmp_path / "app"
    plan = build_app(builder.graph(), "stm32h7", directory, plugins=plugins)
    step = plan.steps[0]
    assert step.inputs[0].place.tensor.size_bytes == 400000
    assert step.output.place.tensor.size_bytes == 240000
    assert {step.inputs[0].place.memory, step.output.place.memory} == {0, 1}
    run_image(directory, plugins, repeat=1)
    assert_exact(directory, plugins=plugins, dma=("late",), repeat=1)


REFUSED = {
    "nemo_mv1_100_128": ("B of constants, 1966080 B of L3 are available",),
}


def test_every_network_of_the_collection_is_run_or_refused() -> None:
    nets_dir()
    assert {*IN_CI, *LONG, *REFUSED} >= set(net_names())


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "numbers"), REFUSED.items())
def test_network_that_does_not_fit_is_refused_with_the_numbers(
    name: str, numbers: tuple[str, ...], plugins: Plugins, tmp_path: Path
) -> None:
    with pytest.raises(DoesNotFit) as caught:
        compiled(name, tmp_path / "app", plugins)
    assert all(number in caught.value.message for number in numbers), caught.value.message
    assert not (tmp_path / "app").exists()


def test_form_without_main_has_neither_board_nor_image(plugins: Plugins, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    build_app(small().graph(), "stm32h7", directory, plugins=plugins, settings={"form": "library"})
    assert not (directory / "board").exists()
    assert (directory / "hal/stm32h7/dory_sections.ld").is_file()
    for name in ("Makefile", "README.md"):
        assert "make image" not in (directory / name).read_text()
    with pytest.raises(UsageError, match="has no main"):
        run_application(directory, plugins=plugins, runner=RUNNER)
    result = run_application(directory, plugins=plugins)
    assert result.runner == "host"
    assert result.notes == (
        f"runner host: {RUNNER} cannot run: an application of form library has no image",
    )


CUBE_MEMORIES = """\
MEMORY
{
  FLASH (rx)    : ORIGIN = 0x08000000, LENGTH = 2048K
  DTCMRAM (xrw) : ORIGIN = 0x20000000, LENGTH = 128K
  RAM_D1 (xrw)  : ORIGIN = 0x24000000, LENGTH = 512K
  RAM_D2 (xrw)  : ORIGIN = 0x30000000, LENGTH = 288K
}
REGION_ALIAS("DTCM", DTCMRAM)
REGION_ALIAS("AXI_SRAM", RAM_D1)
REGION_ALIAS("D2_SRAM", RAM_D2)

INCLUDE board/sections.ld
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("memories", ["ours", "of CubeIDE"])
def test_form_without_main_links_with_a_main_of_the_user(
    memories: str, plugins: Plugins, tmp_path: Path
) -> None:
    """As in a project of one's own: own start-up and script, the files of the network."""
    library, application = tmp_path / "library", tmp_path / "application"
    settings = {"form": "library"}
    build_app(small().graph(), "stm32h7", library, plugins=plugins, settings=settings)
    build_app(small().graph(), "stm32h7", application, plugins=plugins)
    board = library / "board"
    (board / "libc").mkdir(parents=True)
    for name in (
        "startup.c",
        "semihosting.c",
        "libc.c",
        "libc/string.h",
        "board.h",
        "stm32h743.ld",
    ):
        (board / name).write_bytes((application / "board" / name).read_bytes())
    script = (application / "board/sections.ld").read_text()
    start, end = script.index("  .dory_l1"), script.index("  .board_output")
    (board / "sections.ld").write_text(
        script[:start] + "  INCLUDE hal/stm32h7/dory_sections.ld\n" + script[end:]
    )
    if memories == "of CubeIDE":
        (board / "stm32h743.ld").write_text(CUBE_MEMORIES)
        readme = " ".join((library / "README.md").read_text().split())
        aliases = [line for line in CUBE_MEMORIES.splitlines() if line.startswith("REGION_ALIAS")]
        assert all(alias in readme for alias in aliases)
    (board / "main.c").write_text(
        '#include "dory_stm32h7.h"\n#include "board.h"\n#include "network.h"\n'
        "static uint8_t input[DORY_NETWORK_INPUT_BYTES], output[DORY_NETWORK_OUTPUT_BYTES];\n"
        "void dory_stm32h7_fault(uint32_t channel, uint32_t status)\n"
        "{ (void)channel; (void)status; board_exit(1); }\n"
        "int main(void)\n"
        "{ dory_stm32h7_init(); return dory_stm32h7_run(input, output, 0, 0); }\n"
    )
    toolchain = find_toolchain()
    program = simulate.build_program(library, toolchain.recipe(), toolchain.compiler)
    from dory_stm32h7.emulator.machine import Machine

    machine = Machine(read_elf(program))
    machine.run(60)
    assert machine.exit_code == 0
    assert machine.mdma.transfers > 0


@pytest.mark.parametrize("memory", ["dtcm", "dcache"])
def test_arenas_are_as_large_as_what_is_used(memory: str, plugins: Plugins, tmp_path: Path) -> None:
    """A project of one's own has the rest of DTCM and AXI SRAM for itself, but for whole words."""
    directory = tmp_path / "app"
    builder = GraphBuilder((8, 16, 16), name="pool", seed=3)
    builder.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    settings = {"memory": memory}
    plan = build_app(builder.graph(), "stm32h7", directory, plugins=plugins, settings=settings)
    run_image(directory, plugins)
    toolchain = find_toolchain()
    image = read_elf(simulate.build_program(directory, toolchain.recipe(), toolchain.compiler))
    used = {"dory_l1_arena": plan.levels[0].used, "dory_l2_arena": plan.arena_used}
    assert used["dory_l2_arena"] == 8 * (16 * 16 + 8 * 8)
    assert (used["dory_l1_arena"] == 0) == (memory == "dcache")
    assert {name: image.symbol(name).size for name in used} == {
        name: (max(-(-size // 8), 1) + 2 * (name == "dory_l1_arena")) * 8
        for name, size in used.items()
    }


def test_budget_beyond_the_chip_runs_on_the_host_and_is_refused_by_the_chip(
    plugins: Plugins, tmp_path: Path
) -> None:
    directory = tmp_path / "app"
    plan = build_app(small().graph(), "stm32h7", directory, plugins=plugins, budgets={1: 200_000})
    assert not plan.deployable
    result = run_application(directory, plugins=plugins)
    assert result.runner == "host" and result.exact
    reason = "the L1 budget of 200000 B exceeds the 118784 B"
    with pytest.raises(UsageError, match=reason) as caught:
        run_application(directory, plugins=plugins, runner=RUNNER)
    assert "--runner host" in (caught.value.hint or "")


def test_host_is_taken_for_what_only_it_can_do(plugins: Plugins, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    build_app(small().graph(), "stm32h7", directory, plugins=plugins)
    assert run_application(directory, plugins=plugins).runner == RUNNER
    assert run_application(directory, plugins=plugins, dma="random").runner == "host"
    with pytest.raises(UsageError, match="neither DMA modes nor sanitizers"):
        run_application(directory, plugins=plugins, dma="random", runner=RUNNER)


def test_missing_emulator_is_named(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "app"
    build_app(small().graph(), "stm32h7", directory, plugins=plugins)
    monkeypatch.setattr(runners_module, "has_emulator", lambda: False)
    with pytest.raises(ToolMissing, match="unicorn") as caught:
        run_application(directory, plugins=plugins, runner=RUNNER)
    assert "dory-stm32h7[emulator]" in caught.value.hint
    assert run_application(directory, plugins=plugins).runner == "host"


def test_plan_keeps_the_constants_in_flash(plugins: Plugins, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    build_app(small().graph(), "stm32h7", directory, plugins=plugins)
    plan = read_plan(directory)
    weights = [layer["weights"] for layer in plan["layers"] if layer["weights"]]
    assert weights and all(w["level"] == 3 and w["linked"] for w in weights)
    assert plan["transfers"] == []
