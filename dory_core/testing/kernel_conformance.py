"""The conformance kit for kernels on their own: random layers in random tiles.

    class TestMyKernels(KernelConformance):
        cases = staticmethod(cases_of)      # (kind, seed, count) -> list[KernelCase]

Each case runs on this machine and is compared with the reference, element by element. ``cases_of``
is a function of a module of its own, because the sanitizers run it in another process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from dory_core.testing.kernels import HostLibrary, KernelCase
from dory_core.testing.random_layers import KINDS
from dory_core.testing.sanitizers import declared_mark, run_sanitized

__all__ = ["KernelConformance"]

# Seeds and how many cases each of them draws: of every run, and of long sweeps.
_QUICK = tuple((seed, 12) for seed in range(2))
_SWEEP = tuple((seed, 25) for seed in range(2, 22))

_SANITIZED = """
from {module} import {function} as cases_of
from dory_core.testing.kernels import SANITIZE, HostLibrary

HostLibrary([c for kind in {kinds} for c in cases_of(kind, 7, {count})], SANITIZE).check()
print("computed")
"""


class KernelConformance:
    """Subclass it, set ``cases``, and pytest runs random cases of every kind of layer.

    cases: returns so many cases of a kind (one of ``kinds``) for a seed. kinds: those of
    ``random_layers.ALL_KINDS`` that the kernels compute.
    """

    cases: ClassVar[Callable[[str, int, int], list[KernelCase]]]
    kinds: ClassVar[tuple[str, ...]] = KINDS

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Spread kinds and seeds over the tests; sweeps are marked where ``slow`` is declared."""
        config = metafunc.config
        if "draw" in metafunc.fixturenames:
            slow = declared_mark(config, "slow")
            params = [pytest.param(draw, id=f"seed{draw[0]}") for draw in _QUICK]
            params += [pytest.param(draw, id=f"seed{draw[0]}", marks=slow) for draw in _SWEEP]
            metafunc.parametrize("draw", params)
            metafunc.parametrize("kind", self.kinds)
        if "sanitizer" in metafunc.fixturenames:
            marks = declared_mark(config, "sanitizer")
            metafunc.parametrize("sanitizer", [pytest.param("address,undefined", marks=marks)])
            more = pytest.param(8, marks=declared_mark(config, "slow"))
            metafunc.parametrize("count", [2, more])

    def test_random_tiles_equal_the_reference(self, kind: str, draw: tuple[int, int]) -> None:
        """Every element of every tile."""
        HostLibrary(type(self).cases(kind, *draw)).check()

    def test_sanitizers_find_nothing_in_a_sample(self, sanitizer: str, count: int) -> None:
        """No byte beside buffers of exactly their sizes, nothing that C leaves undefined."""
        cases = type(self).cases
        program = _SANITIZED.format(
            module=cases.__module__,
            function=cases.__qualname__,
            kinds=type(self).kinds,
            count=count,
        )
        assert run_sanitized(["-c", program]) == "computed\n"
