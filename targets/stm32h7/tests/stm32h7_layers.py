"""Random layers over everything that the kernels of the STM32H7 accept, and more."""

from __future__ import annotations

from dory_stm32h7.backend import builtin_kernels

from dory_core.testing.kernels import KernelCase, make_case
from dory_core.testing.random_layers import LayerSpace, RandomLayers

SPACE = LayerSpace(
    filters_per_channel=(1,),
    kernels=((3, 3), (5, 2), (1, 4), (2, 1)),
    numerator_bits=(18, 24, 32, 40),
)


def cases_of(kind: str, seed: int, count: int) -> list[KernelCase]:
    """Return ``count`` random cases of one kind, of which few may be rejected."""
    random = RandomLayers(SPACE, seed)
    cases: list[KernelCase] = []
    tried = 0
    while len(cases) < count:
        layer = random.layer(kind)
        tried += 1
        taken = [k for k in builtin_kernels() if k.accepts(layer) is None]
        assert len(taken) <= 1
        cases += [make_case(k, layer, random.numbers) for k in taken]
    assert tried <= 4 * count
    return cases
