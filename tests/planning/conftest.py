"""What tests of the planner share."""

from __future__ import annotations

import pytest

import dory_core.tiling.tiler as tiler_module


@pytest.fixture
def tiles_of_the_objective(monkeypatch):
    """Layers have the best tiles by the objective, though others may be faster."""
    monkeypatch.setattr(tiler_module, "_WALKS", 0)
