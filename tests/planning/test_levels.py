"""Chips with one, two, three and four levels of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import DoesNotFit
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.ir import Graph, Layer, Window, requant
from dory_core.ir.geometry import Tile
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Traits
from dory_core.kernels.portable import PortableConv
from dory_core.plan import Plan
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, ToyChip, three_levels
from tests.toy.limited import EXT, LIMITS, four_levels, limited, one_level, streaming

SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))


def network(pixels: int = 32) -> Graph:
    """A residual and a classifier; its tensors have up to 8 kB."""
    b = GraphBuilder((8, pixels, pixels), name="levels")
    first = b.conv(8, SAME)
    second = b.conv(8, SAME, bias=True)
    b.add(first, second, requants=(requant(1, 0, 512, 0, 255),))
    b.conv(16, Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    b.avg_pool(Window(kernel=(pixels // 2, pixels // 2)))
    b.linear(10)
    return b.graph()


CHIPS = {
    1: one_level(),
    2: limited({}),
    3: streaming({}, {}, 6 << 10, 12 << 10),
    4: four_levels(LIMITS["words"], 12 << 10),
}


def built(chip: ToyChip, directory: Path, graph: Graph | None = None, **budgets: int) -> Plan:
    plan = build_app(
        graph or network(),
        NAME,
        directory,
        plugins=chip.plugins(),
        seeds=(0, 1),
        budgets={int(name[1:]): size for name, size in budgets.items()},
        settings={"moves": "-fused-chains"},
    )
    assert_exact(directory, plugins=chip.plugins())
    return plan


@pytest.mark.sample(4)
@pytest.mark.parametrize("levels", CHIPS)
def test_a_network_is_exact_on_a_chip_with_so_many_levels(levels: int, tmp_path: Path) -> None:
    plan = built(CHIPS[levels], tmp_path / "app")
    assert bool(plan.transfers) == (levels > 2)
    assert all(use.used <= use.budget for use in plan.levels)
    places = {t.place.level for step in plan.steps for t in (*step.inputs, step.output)}
    assert (3 in places) == (levels > 2)


def test_constants_lie_apart_from_tensors_where_both_do_not_fit() -> None:
    """A chip with a RAM and a flash below L2: the flash is taken when the RAM is too small."""

    def planned(**budgets: int) -> Plan:
        sizes = {int(name[1:]): size for name, size in budgets.items()}
        setup = setup_for(three_levels().plugins(), NAME, {"moves": "-fused-chains"}, sizes)
        return run(network(24), setup, after=IMPORTED)

    plan = planned(l2=5 << 10)
    used = next(level.used for level in plan.levels if level.name == "L3")
    assert plan.transfers and plan.constants_apart == 0
    assert planned(l2=5 << 10, l3=used).constants_apart == 0
    short = planned(l2=5 << 10, l3=used - 1)
    assert 0 < short.constants_apart < used
    tensors = used - short.constants_apart
    assert planned(l2=5 << 10, l3=tensors).constants_apart == short.constants_apart
    with pytest.raises(DoesNotFit, match=f"{used} B of L3, {tensors - 1} B are available"):
        planned(l2=5 << 10, l3=tensors - 1)


def test_constants_of_the_fourth_level_are_loaded_from_there(tmp_path: Path) -> None:
    """Activations pass through the third one, which holds nothing before the first inference."""
    plan = built(CHIPS[4], tmp_path / "app")
    weights = [step.weights for step in plan.steps if step.weights is not None]
    assert weights and all(w.linked and w.level == 4 for w in weights)
    assert not any(file.path.endswith("l3.bin") for file in plan.files)
    assert all(use.used > 0 for use in plan.levels)


class Scratch(PortableConv):
    """A convolution in place that asks for scratch memory."""

    def traits(self, layer: Layer) -> Traits:
        return Traits(in_place=True)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> int:
        return 1000


def test_scratch_memory_and_tensors_share_the_only_level(tmp_path: Path) -> None:
    chip = ToyChip(
        (Scratch(1, True), *portable_kernels(in_place=True)[1:]),
        1,
        (Memory("SRAM", 64 << 10, alignment_bytes=4),),
        (),
        in_place=True,
    )
    plan = built(chip, tmp_path / "app")
    scratch, rest = plan.levels
    assert scratch.used == 1000 == scratch.budget
    total = scratch.used + rest.used
    assert built(chip, tmp_path / "least", l2=total).levels[1].used == rest.used
    with pytest.raises(DoesNotFit, match=f"{rest.used - 4} B are available"):
        built(chip, tmp_path / "less", l2=total - 4)


def test_a_single_level_has_kernels_in_place_and_one_memory() -> None:
    memory = Memory("SRAM", 1 << 16)
    with pytest.raises(ValueError, match="kernels work in place"):
        MemoryHierarchy((Level(1, (memory,)),), ())
    with pytest.raises(ValueError, match="one memory there and no links"):
        MemoryHierarchy((Level(1, (memory, Memory("more", 16))),), (), in_place=True)
    with pytest.raises(ValueError, match="one memory there and no links"):
        MemoryHierarchy((Level(1, (memory,)),), (Link(1, 2, 1, 1.0),), in_place=True)
    shared = MemoryHierarchy((Level(1, (memory,)),), (), in_place=True)
    assert shared.one_memory and [level.number for level in shared.levels] == [1, 2]


def test_one_memory_may_have_levels_below_it() -> None:
    memory, rom = Memory("SRAM", 1 << 16), Memory("ROM", 1 << 20, mapped=True)
    links = (Link(1, 2, 1, 1.0), Link(2, 3, 1, 1.0))
    levels = (Level(1, (memory,)), Level(2, (memory,)), Level(3, (rom,)))
    shared = MemoryHierarchy(levels, links, in_place=True, one_memory=True)
    assert shared.constants_level == 3
    with pytest.raises(ValueError, match="kernels work in place where"):
        MemoryHierarchy(levels, links, one_memory=True)
    other = (Level(1, (Memory("TCM", 1 << 16),)), *levels[1:])
    with pytest.raises(ValueError, match="name the same one"):
        MemoryHierarchy(other, links, in_place=True, one_memory=True)


def test_a_fourth_level_below_one_that_holds_all_is_left_alone(tmp_path: Path) -> None:
    chip = streaming({}, {}, 6 << 10, 12 << 10)
    fourth = Link(3, 4, setup_cycles=1000, bytes_per_cycle=0.5)
    chip = ToyChip(
        cores=2,
        any_core=True,
        memories=(*chip.memories, Memory("card", 1 << 24)),
        links=(chip.links[0], EXT, fourth),
    )
    plan = built(chip, tmp_path / "app")
    assert plan.transfers and plan.levels[3].used == 0
