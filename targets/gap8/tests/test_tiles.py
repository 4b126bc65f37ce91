"""Tiles of gap8: of the tried ones one is about the fastest; others let tensors stay in L1."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.api import ops
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder

POINT = ops.Window(kernel=(1, 1))
SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
HALF = ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))


def cycles_of_layers(directory: Path) -> list[int]:
    """Return the estimated cycles of depthwise layers, whose code is about as large as the cache.

    Each is there by itself: nothing stays in L1, and no load is ahead.
    """
    b = GraphBuilder((48, 48, 48), name="mobile")
    b.conv(48, HALF, groups=48)
    b.conv(48, SAME, groups=48)
    b.conv(224, POINT)
    b.conv(224, HALF, groups=224)
    b.conv(80, POINT)
    off = {"moves": "-l1-residency,-weight-prefetch"}
    plan = build_app(b.graph(), "gap8", directory, settings=off)
    return [step.estimate.cycles for step in plan.steps]


@pytest.mark.slow
def test_of_few_tiles_that_are_tried_one_is_about_the_fastest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A formula that knew no misses of instructions took 4 % more in one of these layers."""
    few = cycles_of_layers(tmp_path / "few")
    monkeypatch.setattr("dory_core.tiling.tiler._WALKS", 400)
    many = cycles_of_layers(tmp_path / "many")
    for one, best in zip(few, many, strict=True):
        assert best <= one <= 1.005 * best


#: Bytes of L1 for the tensors of :func:`stays` one by one, but not with what computes them.
STAYS = {1: 52_064}


def stays() -> GraphBuilder:
    """Return layers with tensors of 18 and 36 kB."""
    b = GraphBuilder((8, 48, 48), name="stays")
    b.conv(8, SAME, groups=8)
    b.conv(16, POINT)
    b.conv(16, HALF, groups=16)
    return b


def test_in_tiles_of_rows_input_and_output_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pixels wait neither for their output to be stored nor for the next layer to load it."""
    plan = build_app(stays().graph(), "gap8", tmp_path / "app", budgets=STAYS)
    point, half = plan.steps[1:]
    assert "tiles of whole rows" in point.tiling.proof and point.schedule.counts[1] > 1
    assert point.output.form.name == half.inputs[0].form.name == "RESIDENT"
    assert_exact(tmp_path / "app")
    monkeypatch.setattr("dory_core.tiling.tiler.Tiler.in_rows", lambda *_: ())
    other = build_app(stays().graph(), "gap8", tmp_path / "other", budgets=STAYS)
    assert other.steps[1].output.form.name != "RESIDENT"
    assert other.cycles > 1.02 * plan.cycles
    assert other.levels[1].used > plan.levels[1].used


def test_tiles_of_the_whole_input_let_it_stay_where_others_are_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tiles of rows are not looked at."""
    monkeypatch.setattr("dory_core.tiling.tiler.Tiler.in_rows", lambda *_: ())
    plan = build_app(stays().graph(), "gap8", tmp_path / "app", budgets=STAYS)
    point = plan.steps[1]
    assert "tiles of the whole input" in point.tiling.proof and point.schedule.count > 1
    assert point.inputs[0].form.name == "RESIDENT"
    assert_exact(tmp_path / "app")
    monkeypatch.setattr("dory_core.tiling.tiler.Tiler.with_whole_input", lambda *_: None)
    other = build_app(stays().graph(), "gap8", tmp_path / "other", budgets=STAYS)
    assert other.steps[1].inputs[0].form.name != "RESIDENT" and other.cycles > plan.cycles
