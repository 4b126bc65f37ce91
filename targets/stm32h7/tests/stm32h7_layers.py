"""Random layers over everything that the kernels of the STM32H7 accept, and more."""

from __future__ import annotations

from dataclasses import replace

from dory_stm32h7.backend import builtin_kernels

from dory_core.api import Feature
from dory_core.testing.kernel_cases import KernelCase, make_case, takes
from dory_core.testing.random_layers import LayerSpace, RandomLayers

SPACE = LayerSpace(
    filters_per_channel=(1,),
    kernels=((3, 3), (5, 2), (1, 4), (2, 1)),
    numerator_bits=(18, 24, 32, 40),
)


#: Sums of bytes for which there are tables take those first.
SUMS = ("dory_stm32h7_sums", "dory_stm32h7_add")

TURNED = replace(SPACE, features=frozenset({Feature.PAD_VALUE, Feature.TWO_ADDENDS, Feature.TURN}))


def cases_of(
    kind: str, seed: int, count: int, space: LayerSpace = SPACE, most: int = 4
) -> list[KernelCase]:
    """Return ``count`` random cases of one kind, of which few may be rejected."""
    random = RandomLayers(space, seed)
    cases: list[KernelCase] = []
    tried = 0
    while len(cases) < count:
        layer = random.layer(kind)
        tried += 1
        taken = [k for k in builtin_kernels() if takes(k, layer)]
        first, *others = [k.name for k in taken] or [""]
        assert set(others) <= {"dory_stm32h7_lut"} or (first, *others) == SUMS
        cases += [make_case(k, layer, random.numbers) for k in taken[:1]]
    assert tried <= most * count
    return cases


def turned_cases(kind: str, seed: int, count: int) -> list[KernelCase]:
    """Return cases of layers whose requantisation has two addends now and then.

    Steps that fall have none that the kernels compute: more are rejected.
    """
    return cases_of(kind, 100 + seed, count, TURNED, 8)
