"""The conformance kit for kernels on their own: layers that they accept, in random tiles.

    class TestMyKernels(KernelConformance):
        target = "mychip"

Each kernel of the target runs on this machine, in a separate process, and is compared with the
reference, element by element. A kernel that crashes, or that accepts no random layer, fails. The
coverage is printed at the end.

A target can provide its own cases:

    class TestMyKernels(KernelConformance):
        cases = staticmethod(cases_of)      # (kind, seed, count) -> list[KernelCase]
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import ClassVar

import pytest

from dory_core.ir import Operator
from dory_core.plugins.manager import load_plugins
from dory_core.simulate.compiler import other_compilers
from dory_core.testing.coverage import ran_in
from dory_core.testing.draws import Candidates, Draws, kernels_of_target, names_of
from dory_core.testing.kernel_cases import KernelCase
from dory_core.testing.kernels import SANITIZE, HostLibrary
from dory_core.testing.pytest_plugin import PROPERTY, register
from dory_core.testing.random_layers import KINDS
from dory_core.testing.sanitizers import declared_mark, require_sanitizer

__all__ = ["KernelConformance"]

# Seeds, and the number of cases of each: for every run, and for long sweeps.
_QUICK = tuple((seed, 12) for seed in range(2))
_SWEEP = tuple((seed, 25) for seed in range(2, 10))
_MORE = 2  # factor of the number of cases of a kernel over those of a kind of layers


@cache
def _draws(candidates: Candidates, name: str, operators: tuple[type[Operator], ...]) -> Draws:
    return Draws(candidates, name, operators)


class KernelConformance:
    """Random tests of kernels: subclass it and set ``target`` or ``cases``.

    Attributes:
        target: Target whose kernels are tested: those of all installed plugins, without the
            portable ones.
        settings: Options of the target.
        candidates: Function that returns the kernels of a layer, in place of those of an installed
            target.
        operators: Kinds of layers that plugins add; with a target, those of all installed plugins.
        cases: Function that returns the given number of cases for a kind of layers and a seed.
        kinds: Kinds of ``random_layers.ALL_KINDS`` that ``cases`` supports; without ``cases`` the
            names of kernels.
    """

    target: ClassVar[str] = ""
    settings: ClassVar[tuple[tuple[str, str], ...]] = ()
    candidates: ClassVar[Candidates]
    operators: ClassVar[tuple[type[Operator], ...]] = ()
    cases: ClassVar[Callable[[str, int, int], list[KernelCase]]]
    kinds: ClassVar[tuple[str, ...]] = KINDS

    @classmethod
    def _setup(cls) -> tuple[str, ...]:
        """Return the kinds of layers to draw, or the names of all kernels of the target."""
        if hasattr(cls, "cases") or not (cls.target or hasattr(cls, "candidates")):
            return cls.kinds
        if not hasattr(cls, "candidates"):
            cls.candidates = staticmethod(kernels_of_target(cls.target, cls.settings))
            cls.operators = load_plugins().operators()
        return names_of(cls.candidates, cls.operators)

    @classmethod
    def _drawn(cls, what: str, seed: int, count: int) -> list[KernelCase]:
        if hasattr(cls, "cases"):
            return cls.cases(what, seed, count)
        return _draws(cls.candidates, what, cls.operators).cases(seed, _MORE * count)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Spread kinds and seeds over the tests; sweeps are marked where ``slow`` is declared."""
        config = metafunc.config
        register(config)
        what = type(self)._setup()
        if "draw" in metafunc.fixturenames:
            slow = declared_mark(config, "slow")
            params = [pytest.param(draw, id=f"seed{draw[0]}") for draw in _QUICK]
            params += [pytest.param(draw, id=f"seed{draw[0]}", marks=slow) for draw in _SWEEP]
            metafunc.parametrize("kind", what)
            metafunc.parametrize("draw", params)
        if "sanitizer" in metafunc.fixturenames:
            marks = declared_mark(config, "sanitizer")
            metafunc.parametrize("sanitizer", [pytest.param("address,undefined", marks=marks)])
        if "count" in metafunc.fixturenames:
            more = pytest.param(8, marks=declared_mark(config, "slow"))
            metafunc.parametrize("count", [2, more])

    def test_random_tiles_equal_the_reference(
        self,
        kind: str,
        draw: tuple[int, int],
        record_property: Callable[[str, object], None],
    ) -> None:
        """Every element of every tile. Without ``cases``, kind is the name of a kernel."""
        library = HostLibrary(type(self)._drawn(kind, *draw))
        library.check()
        runs = ran_in(library)
        assert runs, f"{kind}: no kernel ran"
        record_property(PROPERTY, json.dumps([ran.to_json() for ran in runs.values()]))

    def test_sanitizers_find_nothing_in_a_sample(self, sanitizer: str, count: int) -> None:
        """No access outside buffers of exact size, no undefined behaviour of C."""
        require_sanitizer(sanitizer)
        drawn = [c for kind in type(self)._setup() for c in type(self)._drawn(kind, 7, count)]
        HostLibrary(drawn, SANITIZE).check()

    def test_other_compilers_compute_the_same(self, count: int) -> None:
        """A sample runs with each installed compiler in addition to the default."""
        others = other_compilers()
        if not others:
            pytest.skip("no second C compiler (tried gcc, clang and the ziglang wheel)")
        drawn = [c for kind in type(self)._setup() for c in type(self)._drawn(kind, 8, count)]
        for compiler in others:
            HostLibrary(drawn, compiler=compiler.command).check()
