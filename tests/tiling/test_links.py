"""Tiles are chosen so that the DMA makes their copies, where it is particular."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import NotSupported
from dory_core.hardware.memories import Memory
from dory_core.plan import Plan
from dory_core.testing.cases import layer_cases, network_cases
from tests.toy.chip import DMA, NAME, SRAM, ToyChip

CASES = {case.name: case for case in (*layer_cases(), *network_cases())}
SLOW_CORES = {"core_cycles_per_byte": 4.0}


def plan(name: str, **limits: Any) -> Plan:
    link = replace(DMA, **{**SLOW_CORES, **limits})
    chip = ToyChip(memories=(Memory("scratchpad", 3 * 1024), SRAM), links=(link,))
    setup = setup_for(chip.plugins(), NAME, frontend="testing")
    planned: Plan = run(CASES[name].build(), setup, after=IMPORTED)
    return planned


def stalls(plan: Plan) -> int:
    return sum(s.estimate.cycles - s.estimate.compute_cycles for s in plan.steps)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("name", "limits", "most"),
    [
        ("mobile", {"alignment_bytes": 4}, 5_000),
        ("mobile", {"alignment_bytes": 8}, 5_000),
        ("mobile", {"dimensions": 1}, 5_000),
        ("conv_7x7", {"alignment_bytes": 4}, 1_000),
        ("max_pool_3", {"alignment_bytes": 8}, 1_000),
        ("residual_from_input", {"dimensions": 1, "alignment_bytes": 4}, 3_000),
    ],
)
def test_tiles_are_aligned_so_that_no_core_copies(
    name: str, limits: dict[str, Any], most: int
) -> None:
    planned = plan(name, **limits)
    assert {c.by for s in planned.steps for c in s.carriages.values()} <= {"dma", "pieces"}
    assert stalls(planned) < most


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["mobile", "residual", "conv_5x5_first_layer"])
def test_a_link_that_moves_everything_wishes_nothing_of_tiles(name: str) -> None:
    names = {term.name for step in plan(name).steps for term in step.tiling.terms}
    assert "ALIGNED_COPIES" not in names
    assert "ALIGNED_COPIES" in {
        term.name for step in plan(name, alignment_bytes=4).steps for term in step.tiling.terms
    }


def test_odd_channels_of_an_image_are_copied_by_the_cores_where_no_tile_is_aligned() -> None:
    planned = plan("conv_anisotropic", alignment_bytes=8)
    [by_cores] = [c for s in planned.steps for c in s.carriages.values() if c.by == "cores"]
    assert by_cores.reason.endswith("the DMA needs 8")


def test_a_copy_that_nobody_can_make_is_refused_with_the_reason() -> None:
    """The cores do not reach L1, and pixels of 3 bytes are no words."""
    with pytest.raises(NotSupported) as caught:
        plan("conv_anisotropic", alignment_bytes=8, core_cycles_per_byte=0.0)
    assert "Conv 'Conv_0': the DMA cannot move its " in caught.value.message
    assert "the DMA needs 8" in caught.value.message
    assert caught.value.hint


def test_the_document_of_a_plan_says_how_copies_are_made() -> None:
    document = plan("conv_anisotropic", alignment_bytes=8).to_json()
    copies = document["layers"][0]["copies"]
    assert {copy["by"] for copy in copies.values()} == {"dma", "cores"}
    assert all(bool(copy["reason"]) == (copy["by"] == "cores") for copy in copies.values())
