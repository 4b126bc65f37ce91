"""What a program can choose of the driver: memories, interrupts, waiting, time-outs."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from dory_stm32h7.descriptors import DRIVER_BYTES
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.emulator.mdma import Channel
from dory_stm32h7.emulator.mdma_registers import TEIF
from dory_stm32h7.toolchain import find_toolchain
from image import require_emulator

from dory_core.api import ops, simulate
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

DRIVER = "hal/stm32h7/dory_mdma.c"
ARENAS = ("dory_l1_arena", "dory_l2_arena", "dory_d2_arena")
XN = 1 << 28

# Weak functions and calls of a program of its own.
HOOKS = """
#include "board.h"
#include "dory_stm32h7.h"
void dory_stm32h7_wait(void) { board_print("."); }
"""


@dataclass
class Observed:
    """A chip that has run. masked: interrupts are off, before and after the driver is set up.
    left: bytes of each arena that are not zero then."""

    chip: Machine
    masked: list[bool] = field(default_factory=list)
    left: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_emulator()
    builder = GraphBuilder((4, 9, 9), name="tiny", seed=2)
    builder.conv(4, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    directory = tmp_path_factory.mktemp("options") / "app"
    build_app(builder.graph(), "stm32h7", directory, plugins=load_plugins())
    return directory


def machine(directory: Path, **macros: int) -> Machine:
    """Return a chip with the image of an application, built with macros."""
    toolchain = find_toolchain()
    variant = "_".join(f"{name}{value}" for name, value in macros.items()) or "plain"
    recipe = toolchain.recipe(variant=variant, defines=macros)
    return Machine(read_elf(simulate.build_program(directory, recipe, toolchain.compiler)))


def driver_function(chip: Machine, name: str) -> str:
    """Return the symbol of a function of the driver, which has digits of its code."""
    pattern = re.compile(rf"dory_mdma_(cached_)?[0-9a-f]{{6}}_{name}")
    return next(symbol.name for symbol in chip.image.symbols if pattern.fullmatch(symbol.name))


@pytest.fixture(scope="module")
def plain(sound: Path) -> Observed:
    return observed(machine(sound))


def observed(chip: Machine) -> Observed:
    """Run an image; look at it when the driver is called first and when it is ready."""
    found = Observed(chip)

    def start(chip: Machine) -> None:
        found.masked.append(chip.core.masked())

    def ready(chip: Machine) -> None:
        found.masked.append(chip.core.masked())
        for symbol in filter(None, map(chip.image.find, ARENAS)):
            view = chip.memories.view(symbol.address, symbol.size, "arena")
            found.left.append(int(np.count_nonzero(view)))

    chip.at("dory_stm32h7_init", start)
    chip.at(driver_function(chip, "init"), ready)
    chip.run(60)
    assert chip.exit_code == 0
    assert len(found.left) >= 2
    return found


def test_arenas_are_written_before_the_first_inference(plain: Observed) -> None:
    assert not any(plain.left)


def test_interrupts_are_as_before_when_the_driver_is_ready(plain: Observed) -> None:
    assert plain.masked == [False, False]


def test_functions_in_ram_may_run(plain: Observed) -> None:
    for address in (0x2400_0000, 0x3000_0000):
        attributes = plain.chip.core.region(address)
        assert attributes is not None
        assert not attributes & XN
    assert plain.chip.core.region(0x2000_0000) is None


def test_the_program_may_clear_arenas_itself_and_forbid_execution(sound: Path) -> None:
    found = observed(machine(sound, DORY_ARENAS_CLEARED=0, DORY_ARENAS_EXECUTE_NEVER=1))
    assert all(found.left)
    for address in (0x2400_0000, 0x3000_0000):
        attributes = found.chip.core.region(address)
        assert attributes is not None
        assert attributes & XN


def test_waiting_calls_the_program_and_ends(sound: Path, tmp_path: Path) -> None:
    """A transfer that nobody requested: the core looks at its flags for a while."""
    directory = tmp_path / "app"
    shutil.copytree(sound, directory)
    driver = directory / DRIVER
    text = driver.read_text()
    assert "enable | MDMA_CR_SWRQ" in text
    driver.write_text(text.replace("enable | MDMA_CR_SWRQ", "enable"))
    (directory / "board/hooks.c").write_text(HOOKS)
    chip = machine(directory, DORY_MDMA_POLLS=10)
    chip.run(60)
    assert chip.exit_code == 70
    waits, _, rest = chip.output.partition("MDMA error, channel ")
    assert waits == 9 * "."
    assert rest.endswith(f", status {1 << 31}\n")


def test_a_network_without_boxes_has_no_lists(sound: Path, plain: Observed) -> None:
    """The README counts what the driver takes."""
    assert plain.chip.image.find("nodes") is None
    assert plain.chip.image.symbol("jobs").size + 12 == DRIVER_BYTES
    text = (sound / "README.md").read_text()
    assert "Lists of the MDMA take 0 B" in text and f"driver {DRIVER_BYTES} B" in text


# The first transfers fail, and the program goes on: it runs the network again.
GOES_ON = """
#include "board.h"
#include "dory_stm32h7_config.h"
#include "network.h"
static uint8_t output[DORY_NETWORK_OUTPUT_BYTES];
static uint32_t faults;
void dory_stm32h7_fault(uint32_t channel, uint32_t status)
{
  (void)channel, (void)status;
  faults++;
}
int main(void)
{
  dory_stm32h7_init();
  for (unsigned i = 0; i < DORY_NETWORK_INPUT_BYTES; i++) {
    ((uint8_t *)dory_stm32h7_input())[i] = (uint8_t)i;
  }
  const int first = dory_stm32h7_run(dory_stm32h7_input(), output, 0, 0);
  return first == DORY_EDMA && faults == 1 &&
         dory_stm32h7_run(dory_stm32h7_input(), output, 0, 0) == DORY_OK && faults == 1 ? 0 : 1;
}
"""


@pytest.mark.parametrize("error", [False, True])
def test_a_run_whose_transfer_fails_ends_with_an_error_and_the_next_one_is_sound(
    error: bool, sound: Path, tmp_path: Path
) -> None:
    """The MDMA stops for ever, or reports an error; nothing else starts in that run."""
    directory = tmp_path / "app"
    shutil.copytree(sound, directory)
    (directory / "board/main.c").write_text(GOES_ON)
    for name in (directory / "board").glob("*vector*.c"):
        name.unlink()
    chip = machine(directory, DORY_MDMA_POLLS=50)
    status, failing = chip.mdma._status, []

    def looked_at(channel: Channel) -> int:
        if not failing:
            failing.append(channel)
        if failing[-1] is channel and channel.requested:
            if error:
                channel.requested = channel.enabled = False
                channel.flags |= TEIF
            return channel.flags
        failing.append(Channel(-1))
        return status(channel)

    chip.mdma._status = looked_at  # type: ignore[method-assign]
    chip.run(60)
    assert chip.exit_code == 0
    assert not any(channel.enabled for channel in chip.mdma.channels)


def test_a_copy_cleans_only_the_nodes_that_it_uses(sound: Path) -> None:
    """A copy of one block has no node: no line of the cache is cleaned for the list."""
    chip = machine(sound, DORY_ARENAS_CACHED=1, DORY_MDMA_NODES=3)
    lists = chip.image.symbol("nodes")
    assert lists.size == 8 * 3 * 40
    cleaned: list[set[int]] = []
    request = chip.mdma._request

    def requested(channel: Channel) -> None:
        count = sum(1 for _ in chip.mdma._blocks(channel)) - 1
        lines = {a for a in chip.core.maintained if lists.address <= a < lists.address + lists.size}
        cleaned.append(lines)
        assert len(lines) <= (40 * count + 62) // 32
        request(channel)

    chip.mdma._request = requested  # type: ignore[method-assign]
    chip.run(60)
    assert cleaned


def test_the_driver_touches_only_the_channels_that_it_may_take(sound: Path) -> None:
    chip = machine(sound, DORY_MDMA_CHANNELS=0x0A00)
    touched = set()
    write = chip.mdma._write

    def written(channel: Channel, register: int, value: int) -> None:
        touched.add(channel.number)
        write(channel, register, value)

    chip.mdma._write = written  # type: ignore[method-assign]
    chip.run(60)
    assert chip.exit_code == 0 and chip.mdma.transfers > 2
    assert touched == {9, 11}
