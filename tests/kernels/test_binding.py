"""Binding: a layer whose features a kernel does not name is never given to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dory_core.expr import Number
from dory_core.hardware.target import OutputFile
from dory_core.ir import AvgPool, Layer, Op, Window, mean_requant, requant
from dory_core.ir.features import Feature
from dory_core.ir.geometry import Tile
from dory_core.kernels.binding import rejection_of
from dory_core.kernels.kernel import FunctionCall, Kernel, Rejection
from dory_core.testing.kernels import alone, typed

PADDED = Window(kernel=(2, 2), pads=(0, 1, 1, 0))
PLAIN = requant(1, 2, 4, -128, 127)


class Willing(Kernel):
    """Accepts every layer, and has the features that it is made with."""

    name = "willing"

    def __init__(self, *features: str) -> None:
        self.features = frozenset(features)

    def accepts(self, layer: Layer) -> Rejection | None:
        return None

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        return 1

    def symbol(self, layer: Layer) -> str:
        return self.name

    def call(self, layer: Layer) -> FunctionCall:
        return FunctionCall(self.name, {})

    def headers(self, layer: Layer) -> tuple[str, ...]:
        return ()

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        return ()


def pool(**values: object) -> Op:
    return alone(AvgPool, **{"window": PADDED, "requants": (PLAIN,), **values})


@pytest.mark.parametrize(
    ("op", "needed"),
    [
        (pool(requants=(mean_requant(4, -128, 127),)), Feature.TWO_ADDENDS),
        (pool(requants=(PLAIN, mean_requant(2, -128, 127))), Feature.TWO_ADDENDS),
        (pool(window=replace(PADDED, pad_value=-3)), Feature.PAD_VALUE),
        (pool(counts_padding=False), Feature.MEAN_INSIDE),
    ],
)
def test_layer_goes_to_kernels_that_name_what_it_needs(op: Op, needed: str) -> None:
    layer = typed(op, (3, 5, 5, -128, 127))
    others = {Feature.TWO_ADDENDS, Feature.PAD_VALUE, Feature.MEAN_INSIDE} - {needed}
    assert rejection_of(Willing(*others), layer) == Rejection(f"it does not know {needed}")
    assert rejection_of(Willing(needed), layer) is None


def test_layer_without_features_goes_to_every_kernel() -> None:
    window = replace(PADDED, pads=(0, 0, 0, 0), pad_value=7)
    assert rejection_of(Willing(), typed(pool(window=window), (3, 5, 5, -128, 127))) is None
