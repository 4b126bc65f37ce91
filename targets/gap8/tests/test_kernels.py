"""GAP8 kernels against the reference, tile by tile, element by element."""

from __future__ import annotations

import pytest
from gap8_harness import Library
from gap8_layers import KINDS, cases_of


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_random_tiles_equal_the_reference(kind: str, seed: int) -> None:
    Library(cases_of(kind, seed, 12)).check()
