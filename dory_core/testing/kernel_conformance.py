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

import fnmatch
import json
from collections.abc import Callable
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from dory_core.errors import UsageError
from dory_core.ir import Operator
from dory_core.plugins.manager import load_plugins
from dory_core.simulate.compiler import other_compilers
from dory_core.testing.coverage import ran_in
from dory_core.testing.draws import Candidates, Draws, core_counts, kernels_of_target, names_of
from dory_core.testing.kernel_cases import KernelCase, make_case, takes
from dory_core.testing.kernels import SANITIZE, SANITIZE_THREADS, HostLibrary
from dory_core.testing.pytest_plugin import PROPERTY, register
from dory_core.testing.random_layers import KINDS
from dory_core.testing.sanitizers import declared_mark, require_sanitizer

__all__ = ["KernelConformance"]

# Seeds, and the number of cases of each: for every run, and for long sweeps.
_QUICK = tuple((seed, 12) for seed in range(2))
_SWEEP = tuple((seed, 25) for seed in range(2, 10))
_SANITIZERS = ("address,undefined", "thread")
_MORE = 2  # factor of the number of cases of a kernel over those of a kind of layers


@cache
def _draws(candidates: Candidates, name: str, operators: tuple[type[Operator], ...]) -> Draws:
    return Draws(candidates, name, operators)


@cache
def _matching(
    candidates: Candidates, operators: tuple[type[Operator], ...], patterns: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names of kernels that match patterns; raises UsageError for one without any."""
    names = names_of(candidates, operators)
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise UsageError(
                f"no kernel is called {pattern}", f"there are {', '.join(names) or 'none'}"
            )
    return tuple(n for n in names if any(fnmatch.fnmatchcase(n, p) for p in patterns))


class KernelConformance:
    """Random tests of kernels: subclass it and set ``target`` or ``cases``.

    Attributes:
        target: Target whose kernels are tested: those of all installed plugins, without the
            portable ones.
        kernels: Patterns of the names of the kernels that are tested, such as ``acme_*``; by
            default all. A plugin that adds kernels to the target of somebody else names its own.
        settings: Options of the target.
        candidates: Function that returns the kernels of a layer, in place of those of an installed
            target.
        operators: Kinds of layers that plugins add; with a target, those of all installed plugins.
        cases: Function that returns the given number of cases for a kind of layers and a seed.
        kinds: Kinds of ``random_layers.ALL_KINDS`` that ``cases`` supports.

    A target with an option ``cores`` is also tested with each other number of cores.
    """

    target: ClassVar[str] = ""
    kernels: ClassVar[tuple[str, ...]] = ("*",)
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
        return _matching(cls.candidates, cls.operators, cls.kernels)

    @classmethod
    def sample(cls, seed: int, count: int) -> list[KernelCase]:
        """Return cases of every kernel, some ``count`` of each, for a :class:`Machine` of your own.

        The tests of this class run such cases on this machine; an emulator of the chip runs the
        same ones.
        """
        return [case for kind in cls._setup() for case in cls._drawn(kind, seed, count)]

    @classmethod
    def _cases_on(cls, cores: int, sample: list[KernelCase]) -> list[KernelCase]:
        """Return a sample for a number of cores, without the kernels that refuse it."""
        settings = (*(s for s in cls.settings if s[0] != "cores"), ("cores", str(cores)))
        candidates = kernels_of_target(cls.target, settings)
        random = np.random.default_rng(cores)
        return [
            make_case(kernel, case.layer, random)
            for case in sample
            for kernel in candidates(case.layer)
            if kernel.name == case.kernel.name and takes(kernel, case.layer)
        ]

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
            params = [pytest.param(name, marks=marks) for name in _SANITIZERS]
            metafunc.parametrize("sanitizer", params)
        if "cores" in metafunc.fixturenames:
            counts = core_counts(type(self).target, type(self).settings)
            slow = declared_mark(config, "slow")
            fast = (1, counts[-1]) if counts else ()
            params = [pytest.param(n, marks=() if n in fast else slow) for n in counts]
            metafunc.parametrize("cores", params)
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
        """No access outside buffers of exact size, no undefined behaviour, no race of cores.

        A kernel that one core calls has no races.
        """
        require_sanitizer(sanitizer)
        sample = type(self).sample(7, count)
        if sanitizer != "thread":
            HostLibrary(sample, SANITIZE).check()
            return
        shared = [case for case in sample if case.cores > 1]
        if shared:
            HostLibrary(shared, SANITIZE_THREADS, at_once=True).check()

    def test_other_numbers_of_cores_compute_the_same(self, cores: int) -> None:
        """A sample runs with each other value of the target's option ``cores``."""
        cases = type(self)._cases_on(cores, type(self).sample(9, 1))
        assert cases, f"no kernel runs on {cores} cores"
        HostLibrary(cases).check()

    def test_other_compilers_compute_the_same(self, count: int) -> None:
        """A sample runs with each installed compiler in addition to the default."""
        others = other_compilers()
        if not others:
            pytest.skip("no second C compiler (tried gcc, clang and the ziglang wheel)")
        drawn = type(self).sample(8, count)
        for compiler in others:
            HostLibrary(drawn, compiler=compiler.command).check()
