"""The least L2: a fast kernel that pads its constants is no reason for a larger plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.expr import Number
from dory_core.ir import Graph, Layer
from dory_core.ir.geometry import Tile, extent
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Constraint, Kernel, WeightBlock
from dory_core.kernels.portable import PortableLinear
from dory_core.plan import Plan
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import win
from tests.toy.chip import NAME, ToyChip, three_levels

CORES = 4
#: Constants of the fast kernel by those of the other one.
PADDED = 4


class PaddedLinear(PortableLinear):
    """A layer in half of the cycles, whose constants have zeros at their end."""

    __slots__ = ()
    name = "padded_linear"

    def symbol(self, layer: Layer) -> str:
        """Return the function of the other kernel, which reads no zeros."""
        return PortableLinear.name

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Take all of the input at once, which a small L1 has no room for."""
        whole = Constraint(tile.c_in == extent(layer).c_in, "tiles have all of the input")
        return (*super().constraints(layer, tile), whole)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes with the zeros."""
        return PADDED * super().weight_bytes(layer, tile)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Return the constants with the zeros."""
        block = super().weight_block(layer, c_out, c_in)
        assert block is not None
        return replace(block, data=block.data + bytes((PADDED - 1) * len(block.data)))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return half of the cycles."""
        return super().cycles(layer, tile) // 2


def chip(*first: Kernel) -> ToyChip:
    """Return a chip that streams, with kernels that are preferred."""
    return replace(three_levels(CORES), kernels=(*first, *portable_kernels(CORES)))


def classifier() -> Graph:
    """Return a network whose last layer has too few outputs for groups, and most constants."""
    b = GraphBuilder((4, 33, 17), seed=52, name="classifier")
    b.conv(24, win(3, 1, 1))
    b.conv(24, win(3, 2, 1))
    b.conv(8, win(1))
    b.linear(3)
    return b.graph()


def least_l2(one: ToyChip, l1: int | None = None) -> int:
    """Return the bytes of L2 of the least plan."""
    budgets = {} if l1 is None else {1: l1}
    setup = setup_for(one.plugins(), NAME, budgets=budgets, objective="ram")
    plan: Plan = run(classifier(), setup, after=IMPORTED)
    return plan.levels[1].used


@pytest.mark.slow
def test_kernels_that_pad_constants_do_not_raise_the_least_l2() -> None:
    assert least_l2(chip(PaddedLinear(CORES))) == least_l2(chip())


@pytest.mark.slow
def test_a_larger_l1_does_not_raise_the_least_l2() -> None:
    """The padded constants do not fit the smaller L1, so that the other kernel is taken there."""
    padded = chip(PaddedLinear(CORES))
    assert least_l2(padded) <= least_l2(padded, 4 << 10)


@pytest.mark.slow
def test_a_plan_with_fewer_constants_computes_the_same(tmp_path: Path) -> None:
    plugins, app = chip(PaddedLinear(CORES)).plugins(), tmp_path / "app"
    plan = build_app(classifier(), NAME, app, plugins=plugins, objective="ram")
    assert plan.steps[-1].kernel.name == PortableLinear.name
    assert_exact(app, plugins=plugins)
