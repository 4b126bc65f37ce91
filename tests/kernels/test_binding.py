"""Binding: a layer whose features a kernel does not name is never given to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dory_core.expr import Number, Var
from dory_core.hardware.target import OutputFile
from dory_core.ir import AvgPool, Layer, Op, Window, mean_requant, requant
from dory_core.ir.features import Feature
from dory_core.ir.geometry import Tile, make_tile, with_border
from dory_core.kernels.binding import bind_kernel, rejection_of
from dory_core.kernels.call import FunctionCall
from dory_core.kernels.kernel import Kernel, Rejection, Term
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


class Wishing(Willing):
    """Likes high tiles, and few of them."""

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        high = Term("HIGH", 2.0, tile.h)
        return (high, Term("FEW", 1.0, -tile.h)) if tile.last is not None else (high,)


def test_a_kernel_states_terms_for_the_tile_and_for_its_border_tile() -> None:
    layer = typed(pool(), (3, 6, 5, -128, 127))
    tile = with_border(layer, make_tile(layer, 3, 4, 5))
    bound = bind_kernel(Wishing(), layer)
    assert [(t.name, t.value) for t in bound.terms(layer, tile)] == [
        ("HIGH", 4),
        ("FEW", -4),
        ("HIGH_BORDER", layer.output.height - 4),
    ]
    assert bind_kernel(Willing(), layer).terms(layer, tile) == ()


class Counting(Wishing):
    """Counts the questions."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        self.asked["cycles"] += 1
        return tile.h * tile.w

    def symbol(self, layer: Layer) -> str:
        self.asked["symbol"] += 1
        return self.name


def test_a_bound_kernel_asks_each_question_once() -> None:
    kernel, layer = Counting(), typed(pool(), (3, 6, 5, -128, 127))
    bound = bind_kernel(kernel, layer)
    for _ in range(2):
        assert bound.symbol == "willing"
        assert bound.cycles(make_tile(layer, 3, 4, 5)) == 20
        assert bound.cycles(make_tile(layer, 3, 2, 5)) == 10
    assert kernel.asked == {"symbol": 1, "cycles": 2}


def test_what_a_kernel_says_of_expressions_is_not_kept() -> None:
    """A variable of one problem is another one than that of the next, whatever its name."""
    layer = typed(pool(), (3, 6, 5, -128, 127))
    bound = bind_kernel(Counting(), layer)
    for highest in (3, 4):
        cycles = bound.cycles(make_tile(layer, 3, 2, Var("w", 1, highest)))
        assert cycles.bounds == (2, 2 * highest)
