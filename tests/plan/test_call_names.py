"""The names in the calls of kernels are those that docs/plugins.md lists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dory_core.driver import pipeline
from dory_core.driver.pipeline import IMPORTED
from dory_core.driver.setup import setup_for
from dory_core.ir import Graph, Window
from dory_core.ir.layout import Layout
from dory_core.kernels import call as kernel_call
from dory_core.kernels.call import OPERANDS
from dory_core.plan import Plan
from dory_core.plan.lower import lower_layer
from dory_core.plan.operations import Call, all_operations
from dory_core.testing.buffers import NUMBERS, POINTERS
from dory_core.testing.cases import network_cases
from dory_core.testing.graphs import GraphBuilder
from tests.toy.array import BLOCKS, PADDED, PLANES, array_chip, array_first
from tests.toy.chip import NAME, ToyChip

ROOT = Path(__file__).resolve().parents[2]
CALL_NAMES = (*kernel_call.POINTERS, *kernel_call.SIZES)


def calls(graph: Graph, chip: ToyChip) -> list[Call]:
    setup = setup_for(chip.plugins(), NAME, None, None, frontend="testing")
    plan: Plan = pipeline.run(graph, setup, after=IMPORTED)
    programs = [lower_layer(step, any_core=False) for step in plan.steps]
    operations = (op for program in programs for op in all_operations(program))
    return [op for op in operations if isinstance(op, Call)]


def of_first_operand(name: str) -> str:
    """``x2_pitch`` is documented as ``x_pitch``."""
    return re.sub(r"^(l2_)?x\d+(_pitch)?$", r"\1x\2", name)


def test_every_name_that_code_offers_is_documented_and_the_other_way_round() -> None:
    offered = {
        of_first_operand(name)
        for case in network_cases()[:3]
        for call in calls(case.build(), ToyChip())
        for name in call.arguments
    }
    assert offered == set(CALL_NAMES)


def test_kit_offers_every_name_of_every_operand() -> None:
    offered = {*POINTERS, *NUMBERS}
    assert {of_first_operand(name) for name in offered} == set(CALL_NAMES)
    assert {*OPERANDS, *(f"{name}_pitch" for name in OPERANDS)} <= offered


def test_the_manual_has_the_table() -> None:
    command = [sys.executable, str(ROOT / "docs" / "calls.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("layout", "pitch"),
    [(PLANES, 32), (BLOCKS, 32 * 8), (PADDED, 32 * 16)],
    ids=lambda x: getattr(x, "name", None),
)
def test_pitch_of_a_tile_in_a_layout_counts_whole_rows(layout: Layout, pitch: int) -> None:
    """A 1x1 convolution with stride 2 reaches 31 of 32 columns."""
    builder = GraphBuilder((16, 6, 32))
    builder.conv(16, Window(kernel=(1, 1), strides=(2, 2)))
    chip = array_chip(lambda layer: array_first(layer, layout=layout))
    [call] = calls(builder.graph(), chip)
    assert call.arguments["x_w"] == 31
    assert call.arguments["x_pitch"] == pitch
    assert call.arguments["y_pitch"] == pitch // 2
