"""Random quantised networks: every element equals what onnxruntime computes in integers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dory_qdq.testing import OPERATORS, Builder, compare, random_network

from dory_core.testing import run_reference

pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")


def wrong(seeds: range, folder: Path, operators: int, names: tuple[str, ...]) -> Iterator[object]:
    """Yield what differs: by more than one, or at all where nothing is computed in reals.

    Which layers those are is compared with the operators of the network that onnxruntime made.
    """
    for seed in seeds:
        name = names[seed % len(names)] if names else ""
        outcome = compare(random_network(seed, operators, name), folder, run_reference, seed)
        wrong = outcome.differing and (outcome.largest > 1 or not outcome.apart)
        if wrong or outcome.unexpected:
            yield seed, name, outcome


def test_networks_of_one_operator_are_exact(tmp_path: Path) -> None:
    assert list(wrong(range(3 * len(OPERATORS)), tmp_path, 1, tuple(OPERATORS))) == []


def test_networks_of_several_operators_are_exact(tmp_path: Path) -> None:
    assert list(wrong(range(12), tmp_path, 6, ())) == []


@pytest.mark.slow
def test_a_thousand_networks_of_one_operator_are_exact(tmp_path: Path) -> None:
    assert list(wrong(range(1050), tmp_path, 1, tuple(OPERATORS))) == []


@pytest.mark.slow
def test_three_hundred_networks_of_several_operators_are_exact(tmp_path: Path) -> None:
    assert list(wrong(range(300), tmp_path, 6, ())) == []


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_softmax_saturates_as_onnxruntime_does(channels: int, tmp_path: Path) -> None:
    import numpy as np

    builder = Builder(np.random.default_rng(channels))
    last = OPERATORS["softmax"](builder, builder.input((1, channels)))
    model = builder.model([(last.stored, last.shape)])
    assert compare(model, tmp_path, run_reference, 3).differing == 0
