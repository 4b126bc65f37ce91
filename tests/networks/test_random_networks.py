"""Random networks of plain integer ONNX are exact on the toy chip."""

from __future__ import annotations

import pytest

from tests.networks.random_checks import Way, check_family
from tests.networks.random_networks import FAMILIES, Family
from tests.toy.chip import NAME, three_levels

TOY = Way(NAME, "plain", three_levels().plugins())


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_random_network_is_exact(family: Family) -> None:
    check_family(TOY, family, 8)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["heuristic", "latency"])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_many_random_networks_are_exact(family: Family, objective: str) -> None:
    check_family(TOY, family, 80 if objective == "heuristic" else 20, objective)
