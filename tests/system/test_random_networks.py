"""Random networks of the NEMO dialect are exact on GAP8 and on the toy chip."""

from __future__ import annotations

import dory_nemo as nemo
import pytest

from dory_core.plugins.manager import Plugins, load_plugins
from tests.system.random_checks import Way, check_family
from tests.system.random_networks import FAMILIES, Family
from tests.toy.chip import NAME, three_levels

EXAMPLES = {NAME: 4, "gap8": 5}


@pytest.fixture(scope="module", params=EXAMPLES)
def way(request: pytest.FixtureRequest) -> Way:
    if request.param == NAME:
        return Way(NAME, "nemo", Plugins.from_objects(toy=three_levels(), nemo=nemo))
    return Way(request.param, "nemo", load_plugins())


@pytest.mark.sample(16)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_random_network_is_exact(family: Family, way: Way) -> None:
    check_family(way, family, EXAMPLES[way.target])


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["heuristic", "latency"])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_many_random_networks_are_exact(family: Family, objective: str, way: Way) -> None:
    check_family(way, family, 20 if objective == "heuristic" else 6, objective)
