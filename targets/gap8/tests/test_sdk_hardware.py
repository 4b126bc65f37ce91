"""What does not work on the SDK's model is named: hardware, memories, clocks, programs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from sdk_runs import THREE_LEVELS, graph, make, run

from dory_core.api import DoesNotFit, UsageError, VerificationFailed
from dory_core.testing import run_application
from dory_core.testing.apps import build_app
from dory_core.tools import load_plugins

pytestmark = [
    pytest.mark.usefixtures("sdk_environment"),
    pytest.mark.skipif(shutil.which("make") is None, reason="make stands for the one of the SDK"),
]

# With 7000 bytes of L2 one tensor of the residual network, of 16 x 9 x 7 bytes, goes through L3 in
# stripes: the tables of the sum (2096 bytes, since its outputs have 16 bits) take its room. The RAM
# need hold nothing else where constants stay in the flash.
RAM_BYTES = 16 * 9 * 7
FAULTS = {
    # what is wrong: (file, text, what replaces it, words of the message)
    "program_does_not_build": ("src/network.c", "int dory_network_run", "in dory_net", "build"),
    "layer_is_not_reported": (
        "src/network.c",
        "  dory_report(io, 2,",
        "  if (0) dory_report(io, 2,",
        "layer 2",
    ),
    "stacks_do_not_fit": (
        "hal/gap8/main_gap8.c",
        "DORY_L1_USED + DORY",
        "60000 + DORY",
        "the stacks do not fit L1",
    ),
    "file_is_missing": ("hal/gap8/main_gap8.c", '"golden.bin"', '"silver.bin"', "golden.bin"),
    "voltage_is_not_set": (
        "hal/gap8/main_gap8.c",
        "PMU_set_voltage(DORY_GAP8_MILLIVOLT, 0);",
        "",
        "did not end properly",
    ),
}


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("streamed") / "app"
    plan = build_app(graph("residual"), "gap8", directory, budgets=THREE_LEVELS)
    assert plan.transfers
    return directory


@pytest.fixture(scope="module")
def from_flash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("flash") / "app"
    budgets = {**THREE_LEVELS, 3: RAM_BYTES}
    assert build_app(graph("residual"), "gap8", directory, budgets=budgets).constants_apart
    return directory


HARDWARE = {
    # what does not work: (environment of the model, application, words of the message)
    "no_room_in_the_ram": ("MODEL_NO_RAM=1", "streamed", "smaller --l3"),
    "file_is_not_there": ("MODEL_NO_FILES=l3.bin", "streamed", "does not hold the file"),
    "no_heap_for_the_file": (
        "MODEL_NO_FILES=l3.bin MODEL_NO_HEAP=1",
        "streamed",
        "the heap in L2 has no room .* --l2-reserve",
    ),
    "flash_gives_nothing": ("MODEL_BAD_FLASH=1", "streamed", "flash cannot be read"),
    "cluster_reads_no_constants": (
        "MODEL_BAD_CLUSTER_FLASH=1",
        "from_flash",
        "constants cannot be read from the flash",
    ),
    "cluster_reads_no_goldens": (
        "MODEL_BAD_CLUSTER_FLASH=1",
        "streamed",
        "goldens cannot be read from the flash",
    ),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("case", HARDWARE)
def test_hardware_that_does_not_work_is_named(
    case: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, app, words = HARDWARE[case]
    for setting in environment.split():
        monkeypatch.setenv(*setting.split("="))
    with pytest.raises(VerificationFailed, match=words):
        run(request.getfixturevalue(app))


def test_a_run_that_hangs_ends_with_a_message(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Core 0 waits at a barrier to which no other core comes."""
    layer = copy / "src/dory_layer_02.c"
    text = layer.read_text()
    assert "{\n  const uint32_t core = dory_core_id();\n" in text
    lost = "{\n  const uint32_t core = dory_core_id();\n  if (core == 0) dory_barrier();\n"
    layer.write_text(text.replace("{\n  const uint32_t core = dory_core_id();\n", lost, 1))
    monkeypatch.setenv("MODEL_HANGS", "1")
    board = copy / "hal/gap8/dory_gap8_board.h"
    board.write_text(re.sub(r"(TIMEOUT_MS) \d+u", r"\1 3000000u", board.read_text()))
    with pytest.raises(VerificationFailed, match="has not ended after 3000000 ms"):
        run(copy)


def test_time_limit_of_a_run_is_far_beyond_its_estimate(streamed: Path) -> None:
    board = (streamed / "hal/gap8/dory_gap8_board.h").read_text()
    limit = int(re.findall(r"TIMEOUT_MS (\d+)u", board)[0])
    plan = json.loads((streamed / "plan.json").read_text())
    assert limit > 20 * plan["totals"]["latency_ms"]


@pytest.mark.sample(6)
@pytest.mark.parametrize("fault", FAULTS)
def test_program_that_does_not_work_is_a_failure_with_a_reason(copy: Path, fault: str) -> None:
    name, old, new, words = FAULTS[fault]
    text = (copy / name).read_text()
    assert old in text
    (copy / name).write_text(text.replace(old, new, 1))
    with pytest.raises(VerificationFailed) as caught:
        run(copy)
    assert words in caught.value.message


def test_constants_stay_in_the_flash_when_the_ram_is_short(tmp_path: Path) -> None:
    """With a RAM for a tensor: the image is read from its file, activations lie in the RAM."""
    app, budgets = tmp_path / "app", {1: 6000, 2: 6800, 3: RAM_BYTES}
    off = {"moves": "-l1-residency"}
    plan = build_app(graph("residual"), "gap8", app, budgets=budgets, settings=off)
    assert plan.constants_apart > RAM_BYTES
    level = plan.levels[2]
    assert plan.constants_apart < level.used <= level.budget == RAM_BYTES + plan.constants_apart
    assert any(not transfer.incoming for transfer in plan.transfers)
    board = (app / "hal/gap8/dory_gap8_board.h").read_text()
    assert "CONSTANTS_IN_FLASH 1" in board
    assert f"L3_RAM_START {plan.constants_apart}u" in board
    assert run(app).exact
    for dma in ("early", "late"):
        assert run_application(app, plugins=load_plugins(), dma=dma).exact


@pytest.mark.slow
def test_board_without_l3_refuses_what_does_not_fit_with_numbers(tmp_path: Path) -> None:
    settings = {"board": "gapuino-l2"}
    with pytest.raises(DoesNotFit, match=r"needs \d+ B of L2, 6000 B are available") as caught:
        build_app(graph("residual"), "gap8", tmp_path / "no", budgets={2: 6000}, settings=settings)
    assert caught.value.exit_code == 4
    plan = build_app(graph("residual"), "gap8", tmp_path / "app", settings=settings)
    assert [level.name for level in plan.levels] == ["L1", "L2"]
    assert run(tmp_path / "app").exact


@pytest.mark.slow
def test_board_whose_dma_blocks_gains_nothing_by_double_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_ALONE", "1")
    settings = {"board": "gapuino"}
    budgets = {1: 6000, 2: 7000}
    plan = build_app(
        graph("residual"), "gap8", tmp_path / "app", budgets=budgets, settings=settings
    )
    assert all(b == 1 for s in plan.steps for b in (s.schedule.buffering.x, s.schedule.buffering.y))
    assert run(tmp_path / "app").exact


@pytest.mark.slow
def test_clocks_and_voltage_are_those_of_the_options(tmp_path: Path) -> None:
    settings = {"operating_point": "1.2V", "f_cluster": "150", "f_io": "200"}
    plan = build_app(graph("residual"), "gap8", tmp_path / "app", settings=settings)
    assert plan.operating_point is not None
    assert plan.operating_point.core_hz == 150e6
    done = make(tmp_path / "app", "clean", "all", "run")
    assert "1200 mV, fabric 200000000 Hz, cluster 150000000 Hz" in done.stderr


@pytest.mark.parametrize(
    "settings",
    [
        {"f_cluster": "120"},
        {"f_io": "-1"},
        {"operating_point": "1.2V", "f_cluster": "200"},
    ],
)
def test_clocks_that_the_chip_does_not_have_are_wrong_usage(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is not possible at 1"):
        load_plugins().context("gap8", settings)
