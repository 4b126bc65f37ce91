"""Code that lies beside the data takes their room: refusals say so, before any long search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dory_core.budgets import resolve_budgets
from dory_core.errors import DoesNotFit
from dory_core.ir import Graph, Window
from dory_core.pipeline import BOUND, IMPORTED, Setup, run
from dory_core.planning import ways
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, three_levels

LAYERS = 6


def chain() -> Graph:
    """Return a network whose constants are larger than its activations."""
    b = GraphBuilder((32, 8, 8))
    for _ in range(LAYERS):
        b.conv(32, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    return b.graph()


def setup(left: int, left_streamed: int) -> Setup:
    """Return a chip whose L2 has so many bytes beside the code of the network, and then those
    beside the code of the streamed network; below 0: less than nothing."""
    plugins = three_levels().plugins()
    chip = plugins.context(NAME, {})
    inner, l2, outer = chip.memory.levels
    size = 1 << 20
    code = ((size - left) // LAYERS, (size - left_streamed) // LAYERS)
    memory = replace(l2.memories[0], size_bytes=size, reserved_bytes=0, code_bytes_per_layer=code)
    levels = (inner, replace(l2, memories=(memory,)), outer)
    ctx = chip.with_hierarchy(replace(chip.memory, levels=levels))
    return Setup(ctx, resolve_budgets(ctx.memory, {}), plugins)


def refused(chip: Setup, until: str | None = None) -> DoesNotFit:
    """Return the error of a network that is refused for its number of layers."""
    with pytest.raises(DoesNotFit) as caught:
        run(chain(), chip, after=IMPORTED, **({} if until is None else {"until": until}))
    error = caught.value
    assert f"the code of {LAYERS} layers" in error.message and "B of L2" in error.message
    assert "a larger --l2 does not help" in error.hint and "raise" not in error.hint
    assert error.needed_bytes is None
    return error


def test_code_without_room_for_any_data_is_refused_before_tiling() -> None:
    refused(setup(-10, -20), until=BOUND)


def test_code_of_streamed_layers_is_checked_before_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def search(*arguments: object) -> None:
        raise AssertionError("the search ran")

    monkeypatch.setattr(ways, "fit_network", search)
    assert "that are streamed" in refused(setup(20_000, -20)).message


def test_code_that_leaves_too_little_is_named_beside_what_is_needed() -> None:
    error = refused(setup(20_000, 500))
    assert "in its smallest parts" in error.message


def test_a_network_that_fits_beside_its_code_is_planned() -> None:
    assert run(chain(), setup(20_000, 20_000), after=IMPORTED).levels[1].used <= 20_000


def test_code_is_not_blamed_for_constants_beyond_the_outer_level() -> None:
    chip = setup(20_000, 20_000)
    *inner, outer = chip.ctx.memory.levels
    small = replace(outer.memories[0], size_bytes=4096, reserved_bytes=0)
    levels = (*inner, replace(outer, memories=(small,)))
    ctx = chip.ctx.with_hierarchy(replace(chip.ctx.memory, levels=levels))
    chip = replace(chip, ctx=ctx, budgets=resolve_budgets(ctx.memory, {}))
    with pytest.raises(DoesNotFit) as caught:
        run(chain(), chip, after=IMPORTED)
    assert "L3" in caught.value.message and "code" not in caught.value.message
    assert "too many layers" not in caught.value.hint
