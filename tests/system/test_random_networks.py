"""Random networks of the NEMO dialect are exact on GAP8."""

from __future__ import annotations

import pytest

from dory_core.plugins import load_plugins
from tests.networks.random_checks import Way, check_family
from tests.networks.random_networks import FAMILIES, Family


@pytest.fixture(scope="module")
def gap8() -> Way:
    return Way("gap8", "nemo", load_plugins())


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_random_network_is_exact(family: Family, gap8: Way) -> None:
    check_family(gap8, family, 5)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["heuristic", "latency"])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_many_random_networks_are_exact(family: Family, objective: str, gap8: Way) -> None:
    check_family(gap8, family, 80 if objective == "heuristic" else 20, objective)
