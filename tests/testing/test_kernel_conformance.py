"""KernelConformance: patterns of names, other numbers of cores, races of cores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dory_core.api import Kernel, Layer, TargetContext, hookimpl
from dory_core.errors import UsageError
from dory_core.hardware.target import OutputFile
from dory_core.kernels import portable_kernels
from dory_core.testing import KernelConformance, draws, kernel_conformance
from dory_core.testing.sanitizers import require_sanitizer
from tests.testing.test_kit import changed
from tests.toy.chip import NAME, ToyChip

ADD = "dory_portable_add"
UNITS = "for (uint32_t unit = share.begin;"


def edited(new: str, own: Callable[..., Any], layer: Layer) -> tuple[OutputFile, ...]:
    return tuple(
        OutputFile(file.path, str(file.content).replace(UNITS, new)) for file in own(layer)
    )


def kernels(cores: int, new: str) -> list[Kernel]:
    """Return the portable kernels, whose loops over elements begin with ``new``."""
    return changed(portable_kernels(cores), sources=partial(edited, new))


class Chip(ToyChip):
    """On three cores, its kernels leave out the first element."""

    @hookimpl(target=NAME)
    def dory_kernels(self, ctx: TargetContext) -> list[Kernel]:
        cores = ctx.memory.cores
        return kernels(cores, UNITS.replace(";", " + 1;") if cores == 3 else UNITS)


class Kit(KernelConformance):
    """The tests, to be called by hand."""

    __test__ = False
    target = NAME
    kernels = (ADD, "*_maxpool")


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = Chip(cores=4).plugins()
    for module in (draws, kernel_conformance):
        monkeypatch.setattr(module, "load_plugins", lambda: plugins)


def test_only_kernels_of_the_patterns_are_drawn(chip: None) -> None:
    class Named(Kit):
        pass

    assert Named._setup() == ("dory_portable_maxpool", ADD)
    assert {case.kernel.name for case in Named.sample(0, 1)} == {"dory_portable_maxpool", ADD}


def test_a_pattern_without_a_kernel_is_an_error(chip: None) -> None:
    class Misspelt(Kit):
        kernels = (ADD, "acme_*")

    with pytest.raises(UsageError, match=r"no kernel is called acme_\*") as caught:
        Misspelt._setup()
    assert ADD in caught.value.hint


def test_other_numbers_of_cores_are_those_of_the_option(chip: None) -> None:
    assert draws.core_counts(NAME) == (1, 2, 3)
    assert draws.core_counts(NAME, (("cores", "2"),)) == (1,)
    assert draws.core_counts("") == ()


def test_a_kernel_that_is_wrong_on_three_cores_is_found(chip: None) -> None:
    class Counted(Kit):
        pass

    Counted().test_other_numbers_of_cores_compute_the_same(2)
    with pytest.raises(AssertionError, match=r"dory_portable_.* differ"):
        Counted().test_other_numbers_of_cores_compute_the_same(3)


@pytest.mark.sanitizer
def test_cores_that_write_each_others_output_are_a_race() -> None:
    """All cores write the same values: only the thread sanitizer can tell."""
    require_sanitizer("thread")

    class Racing(KernelConformance):
        __test__ = False
        candidates = staticmethod(lambda layer: kernels(4, "for (uint32_t unit = 0;"))
        kernels = (ADD,)

    class Sound(Racing):
        candidates = staticmethod(lambda layer: kernels(4, UNITS))

    Sound().test_sanitizers_find_nothing_in_a_sample("thread", 2)
    Racing().test_sanitizers_find_nothing_in_a_sample("address,undefined", 2)
    with pytest.raises(AssertionError, match=r"(?s)dory_portable_add ended with.*data race"):
        Racing().test_sanitizers_find_nothing_in_a_sample("thread", 2)
