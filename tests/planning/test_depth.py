"""Planning takes time that is near linear in the number of layers, counted in operations."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import bench_depth as deep

from dory_core.testing import graphs


def calls(layers: int, network: str, kind: str) -> int:
    """Return how many functions planning calls."""
    graph = deep.NETWORKS[network](layers)
    count: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            count[event] += 1

    sys.setprofile(profile)
    try:
        deep.plan(graph, deep.CHIPS[kind])
    finally:
        sys.setprofile(None)
    return count.total()


@pytest.mark.slow
@pytest.mark.parametrize("network", ["chain", "residuals"])
def test_planning_of_resident_networks_is_near_linear(network: str) -> None:
    assert calls(160, network, "resident") < 2.6 * calls(80, network, "resident")


@pytest.mark.slow
def test_planning_of_streamed_networks_is_near_linear() -> None:
    """The cascade plans resident tensors, which takes more than twice as long for twice as many."""
    assert calls(80, "residuals", "streamed") < 2.2 * calls(40, "residuals", "streamed")


@pytest.mark.slow
def test_deep_and_shallow_networks_keep_the_same_share_in_l1() -> None:
    """Beyond some hundred layers L1 is packed in windows, which must lose next to nothing."""
    per_layer = [deep.plan(deep.chain(n), deep.CHIPS["resident"]).cycles / n for n in (80, 400)]
    assert per_layer[1] < 1.005 * per_layer[0]


def test_graphs_of_tests_are_built_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = []
    infer = graphs.infer_layer
    monkeypatch.setattr(graphs, "infer_layer", lambda *of: typed.append(of[0]) or infer(*of))
    deep.chain(50)
    assert len(typed) < 60
