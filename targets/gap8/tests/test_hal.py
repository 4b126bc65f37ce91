"""The HAL of the chip, driven on a model of the cluster's DMA, event unit and barrier."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import dory_gap8
import pytest

from dory_core.testing import runtime
from dory_core.testing.compilers import host_compiler

SDK = Path(__file__).parent / "sdk"
HAL = Path(dory_gap8.__file__).parent / "hal"
RUNTIME = Path(runtime.__file__).parent / "include"


def build(folder: Path, *, blocking: int = 0, edits: Mapping[str, tuple[str, str]] = {}) -> Path:
    """Build the driver's program; edits: per file of the HAL, a text and what replaces it."""
    hal = folder / "hal"
    shutil.copytree(HAL, hal)
    for name, (old, new) in edits.items():
        text = (hal / name).read_text()
        assert old in text, f"{name} has changed: {old}"
        (hal / name).write_text(text.replace(old, new))
    (hal / "dory_gap8_board.h").write_text(
        f"#define DORY_GAP8_CORES 8u\n#define DORY_GAP8_BLOCKING_DMA {blocking}\n"
    )
    models = (SDK / "model.c", SDK / "model_storage.c")
    sources = (SDK / "driver.c", *models, hal / "dory_gap8_dma.c")
    includes = (hal, RUNTIME, SDK, SDK / "include")
    program = folder / "driver"
    done = subprocess.run(
        [
            *(*host_compiler(), "-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror"),
            *(f"-I{path}" for path in includes),
            *("-include", str(SDK / "model_registers.h")),
            *(str(source) for source in sources),
            *("-o", str(program), "-lpthread"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


def run(
    program: Path, *arguments: str, early: bool = False, alone: bool = False
) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    environment |= {"MODEL_EARLY": "1"} if early else {}
    environment |= {"MODEL_ALONE": "1"} if alone else {}
    return subprocess.run(
        [str(program), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("early", [False, True], ids=["late", "early"])
@pytest.mark.parametrize("blocking", [0, 1], ids=["queued", "blocking"])
def test_copies_of_all_shapes_move_their_bytes(tmp_path: Path, blocking: int, early: bool) -> None:
    done = run(build(tmp_path, blocking=blocking), early=early)
    assert done.returncode == 0, done.stderr


def test_a_copy_has_as_few_commands_as_its_shape_allows(tmp_path: Path) -> None:
    """Bytes/row/stride of each command: rows dense in L1 are one command, as the DMA strides L2."""
    done = run(build(tmp_path), "shapes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "row: 100/0/0",
        "rows: 100/20/64",
        "whole rows: 100/20/20",
        "planes: 12/4/64 12/4/64",
        "planes that continue: 24/4/64",
        "channel: 24/1/16",
        "part of a channel: 5/1/16 5/1/16",
        "16 bits: 6/2/8",
        "room in L1: 8/0/0 8/0/0 8/0/0 8/0/0",
        "far apart: 8/0/0 8/0/0 8/0/0",
    ]


FAULTS = {
    "counter_is_never_freed": (
        "dory_gap8_dma.c",
        "dory_gap8_write(DORY_GAP8_DMA_STATUS, 1u << counter);",
        "(void)counter;",
    ),
    "wait_does_not_wait": (
        "dory_gap8_dma.c",
        "dory_gap8_dma_finish(counter);\n  dory_gap8_write(DORY_GAP8_DMA_STATUS",
        "dory_gap8_write(DORY_GAP8_DMA_STATUS",
    ),
    "wait_spins": (
        "dory_hal_impl.h",
        "(void)dory_gap8_sleep(DORY_GAP8_EU_WAIT_CLEAR);",
        ";",
    ),
    "event_is_not_unmasked": (
        "dory_hal_impl.h",
        "dory_gap8_write(DORY_GAP8_EU_MASK_SET, DORY_GAP8_EVENT_DMA);",
        ";",
    ),
    "event_stays_unmasked": (
        "dory_hal_impl.h",
        "dory_gap8_write(DORY_GAP8_EU_MASK_CLEAR, DORY_GAP8_EVENT_DMA);",
        ";",
    ),
    "command_asks_for_no_event": (
        "dory_hal_impl.h",
        "command | DORY_GAP8_DMA_INCREMENT | DORY_GAP8_DMA_EVENT",
        "command | DORY_GAP8_DMA_INCREMENT",
    ),
    "direction_is_turned_round": (
        "dory_gap8_dma.c",
        "load ? DORY_GAP8_DMA_TO_L1 : 0",
        "load ? 0 : DORY_GAP8_DMA_TO_L1",
    ),
    "addresses_are_exchanged": (
        "dory_gap8_dma.c",
        "const uint8_t *l1 = load ? copy->dst : copy->src;",
        "const uint8_t *l1 = load ? copy->src : copy->dst;",
    ),
    "stride_and_row_are_exchanged": (
        "dory_gap8_registers.h",
        "((uint32_t)(stride) << 16 | (uint32_t)(bytes))",
        "((uint32_t)(bytes) << 16 | (uint32_t)(stride))",
    ),
    "size_is_that_of_a_row": (
        "dory_gap8_dma.c",
        "dory_gap8_dma_command(bytes * rows |",
        "dory_gap8_dma_command(bytes |",
    ),
    "planes_stay_where_they_are_in_l1": (
        "dory_gap8_dma.c",
        "planes--, l1 += l1_plane, l2 += l2_plane",
        "planes--, l2 += l2_plane",
    ),
    "planes_that_do_not_continue_are_merged": (
        "dory_gap8_dma.c",
        "l1_plane == (int32_t)rows * l1_row && l2_plane == (int32_t)rows * l2_row",
        "l1_plane == (int32_t)rows * l1_row",
    ),
    "rows_apart_in_l1_are_taken_for_dense": (
        "dory_gap8_dma.c",
        "rows > 1 && l1_row == (int32_t)bytes && bytes <=",
        "rows > 1 && bytes <=",
    ),
    "elements_are_taken_for_bytes": (
        "dory_gap8_dma.c",
        "uint32_t bytes = copy->n0 * copy->elem",
        "uint32_t bytes = copy->n0",
    ),
    "pieces_do_not_go_on": ("dory_gap8_dma.c", "piece, dst + at, size", "piece, dst, size"),
    "a_last_piece_is_whole": (
        "dory_gap8_dma.c",
        "bytes - at < PIECE ? bytes - at : PIECE",
        "PIECE",
    ),
    "join_takes_a_counter": (
        "dory_hal_impl.h",
        "  dory_gap8_dma_push(copy, (uint32_t)ticket - 1);\n  return ticket;",
        "  return dory_dma_start(copy);",
    ),
    "ticket_0_is_given": (
        "dory_hal_impl.h",
        "return (dory_ticket_t)(counter + 1);",
        "return (dory_ticket_t)counter;",
    ),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_driver_is_found(tmp_path: Path, fault: str) -> None:
    name, old, new = FAULTS[fault]
    done = run(build(tmp_path, edits={name: (old, new)}))
    assert done.returncode == 71, done.stdout + done.stderr


def test_a_queued_command_is_found_where_the_board_forbids_it(tmp_path: Path) -> None:
    """With the erratum's workaround every command is alone in the DMA."""
    assert run(build(tmp_path, blocking=1), alone=True).returncode == 0
    done = run(build(tmp_path / "queued"), alone=True)
    assert done.returncode == 71
    assert "not alone" in done.stderr
