"""Random layers over the whole parameter space of a target's kernels.

space = LayerSpace(outputs=((0, 255), (-128, 127), None))
layer = RandomLayers(space, seed=7).layer("depthwise")
"""

from __future__ import annotations

from collections.abc import Iterable

from dory_core.errors import NotSupported
from dory_core.ir import Layer, Operator
from dory_core.ir.kinds import KINDS as OPERATORS
from dory_core.ir.kinds.random_parts import LayerSpace, RandomParts
from dory_core.testing.kernel_cases import sampled

__all__ = ["ALL_KINDS", "KINDS", "OTHER_KINDS", "LayerSpace", "RandomLayers"]

#: What the kernels of most chips compute.
KINDS = ("conv", "grouped", "pointwise", "depthwise", "linear", "maxpool", "avgpool", "add")


def _by_sample(operators: Iterable[type[Operator]]) -> dict[str, type[Operator]]:
    """Return the operators by the names of their random layers."""
    return {name: kind for kind in operators for name in kind.samples}


#: What the operators of the core draw beyond that.
OTHER_KINDS = tuple(name for name in _by_sample(OPERATORS) if name not in KINDS)
#: All that the operators of the core draw.
ALL_KINDS = (*KINDS, *OTHER_KINDS)


class RandomLayers(RandomParts):
    """A seeded source of layers. numbers: the generator that decides everything.

    operators: kinds beyond those of the core.
    """

    def __init__(
        self, space: LayerSpace, seed: int, operators: Iterable[type[Operator]] = ()
    ) -> None:
        super().__init__(space, seed)
        self.operators = _by_sample((*OPERATORS, *operators))

    def layer(self, kind: str) -> Layer:
        """Return a layer of a kind (one of ``Operator.samples``) that range analysis lets pass."""
        operator = self.operators[kind]
        while True:
            try:
                sample = operator.random(self, kind)
                return sampled(operator, sample, kind, packed=self.space.packed)
            except NotSupported:
                continue
