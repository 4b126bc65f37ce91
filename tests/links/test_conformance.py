"""Chips whose links can do less: every network is exact, no transfer breaks a rule of the DMA."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dory_core.hardware import Memory
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import Case, layer_cases, network_cases
from tests.toy.chip import DMA, NAME, SRAM, ToyChip

LIMITS: dict[str, dict[str, Any]] = {
    "words": {"alignment_bytes": 4},
    "double words": {"alignment_bytes": 8},
    "short": {"max_bytes": 1024},
    "rows": {"dimensions": 1},
    "planes": {"dimensions": 2, "alignment_bytes": 4, "max_bytes": 200},
    "vendor": {"dimensions": 1, "alignment_bytes": 4, "max_bytes": 1024},
    "hundreds of rows": {"dimensions": 1, "core_cycles_per_byte": 1e4},
    "no DMA": {"dma": False},
}


def chip(limits: dict[str, Any], cores: int = 1, l1_bytes: int = 6 * 1024) -> ToyChip:
    return ToyChip(
        cores=cores,
        memories=(Memory("scratchpad", l1_bytes), SRAM),
        links=(replace(DMA, **limits),),
        any_core=cores > 1,
        resident_l1=cores > 1,
    )


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("case", (*layer_cases(), *network_cases()), ids=str)
def test_layers_and_networks_are_exact(case: Case, limits: dict[str, Any], tmp_path: Path) -> None:
    toy = chip(limits, cores=1 + sum(map(ord, case.name)) % 3)
    build_app(case.build(), NAME, tmp_path / "app", plugins=toy.plugins())
    assert_exact(tmp_path / "app", plugins=toy.plugins(), dma=("late", "random"))
