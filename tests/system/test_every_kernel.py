"""Every kernel of our targets computes layers that nobody chose for it."""

from __future__ import annotations

import pytest

from dory_core.plugins.manager import load_plugins
from dory_core.testing.draws import Draws, kernels_of_target, names_of
from dory_core.testing.kernels import HostLibrary

# Diana's arrays are models of hardware, with a bench of their own.
OURS = ("gap8", "stm32h7", "cortex_m55", "kite")
TARGETS = [t.name for t in load_plugins().targets() if t.name in OURS]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_runs_and_is_exact(target: str) -> None:
    candidates = kernels_of_target(target)
    for name in names_of(candidates):
        library = HostLibrary(Draws(candidates, name).cases(3, 24))
        library.check()
        assert sum(library.calls) >= 12, name
