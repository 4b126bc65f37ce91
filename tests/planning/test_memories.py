"""L2 of several memories, and constants that stay where they are mapped."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.errors import DoesNotFit, DoryError, NotSupported, VerificationFailed
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Memory
from dory_core.ir import Graph, Layer, Window, requant
from dory_core.ir.geometry import Tile
from dory_core.kernels import portable_kernels
from dory_core.kernels.binding import bind_layer
from dory_core.kernels.kernel import Traits
from dory_core.plan import Plan
from dory_core.plan.blocks import Bin, Packing, Request
from dory_core.plan.budgets import memory_budgets
from dory_core.planning import evaluate
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tiling.tiler import Tiler
from tests.toy.chip import NAME, ToyChip

ACTIVATIONS = frozenset({"activations"})


def forked(*sizes: int, rom: int | None = 64 * 1024, in_place: bool = False) -> ToyChip:
    """Return a chip with several memories in L2 and constants in a ROM that is mapped, or in L2."""
    holds = ACTIVATIONS if rom else ACTIVATIONS | {"weights"}
    memories: list[Memory | tuple[Memory, ...]] = [
        Memory("TCM", 16 * 1024),
        tuple(Memory(f"SRAM{k}", size, 0, holds, 16) for k, size in enumerate(sizes)),
    ]
    links = [Link(1, 2, setup_cycles=40, bytes_per_cycle=4.0)]
    if rom:
        memories.append(Memory("ROM", rom, holds=frozenset({"weights"}), mapped=True))
        links.append(Link(2, 3, setup_cycles=40, bytes_per_cycle=1.0))
    return ToyChip(memories=tuple(memories), links=tuple(links), in_place=in_place)


def residual() -> Graph:
    """A residual whose tensors have 4608 bytes each: three of them live at once."""
    builder = GraphBuilder((8, 24, 24), name="residual")
    window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    first = builder.conv(8, window)
    second = builder.conv(8, window)
    builder.add(first, second, requants=(requant(1, 0, 512, 0, 255),))
    return builder.graph()


def application(chip: ToyChip, directory: Path, **budgets: int) -> Plan:
    return build_app(
        residual(),
        NAME,
        directory,
        plugins=chip.plugins(),
        budgets={int(k[1:]): v for k, v in budgets.items()},
        settings={"moves": "-fused-chains"},
        seeds=(0, 1),
    )


def places(plan: Plan) -> set[int]:
    return {t.place.memory for step in plan.steps for t in (*step.inputs, step.output)}


@pytest.mark.parametrize("rom", [64 * 1024, None])
def test_tensors_lie_in_two_memories_and_the_network_is_exact(
    rom: int | None, tmp_path: Path
) -> None:
    first = 10 * 1024 if rom else 12 * 1024
    chip = forked(first, 8 * 1024, rom=rom)
    plan = application(chip, tmp_path / "app")
    assert places(plan) == {0, 1}
    levels = {step.weights.level for step in plan.steps if step.weights is not None}
    assert levels == {3 if rom else 2}
    static = plan.static_bytes[3 if rom else 2]
    assert plan.arena_bytes[2] == first - (0 if rom else static)
    assert plan.more_l2_bytes == (8 * 1024,)
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_one_memory_is_used_when_it_is_large_enough(tmp_path: Path) -> None:
    chip = forked(16 * 1024, 8 * 1024)
    plan = application(chip, tmp_path / "app")
    assert places(plan) == {0}
    assert plan.more_l2_bytes == ()
    assert "l2_more" not in (tmp_path / "app/src/network.c").read_text()
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_input_and_output_may_lie_in_the_second_memory(tmp_path: Path) -> None:
    chip = forked(1024, 32 * 1024)
    plan = application(chip, tmp_path / "app")
    assert places(plan) == {1}
    header = (tmp_path / "app/src/network.h").read_text()
    assert "#define DORY_NETWORK_INPUT_MEMORY 1 " in header
    assert "#define DORY_NETWORK_OUTPUT_MEMORY 1\n" in header
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_an_input_that_no_layer_reads_may_lie_in_the_second_memory_alone(tmp_path: Path) -> None:
    chip = forked(10 * 1024, 8 * 1024)
    builder = GraphBuilder((8, 24, 24), name="unread")
    builder.extra_input()
    builder.conv(8, Window(kernel=(3, 3), pads=(1, 1, 1, 1)), source=builder.extra_input())
    plan = build_app(builder.graph(), NAME, tmp_path / "app", plugins=chip.plugins(), seeds=(0, 1))
    assert {place.memory for place in plan.inputs} == {0, 1} and places(plan) == {0}
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_no_tensor_straddles_two_memories(tmp_path: Path) -> None:
    """14.5 kB are live at once: they fit 3 x 5 kB in sum and 4 + 12 kB not at all."""
    plan = application(forked(5 * 1024, 5 * 1024, 5 * 1024), tmp_path / "app")
    assert places(plan) == {0, 1, 2}
    assert_exact(tmp_path / "app", plugins=forked(5 * 1024, 5 * 1024, 5 * 1024).plugins())
    with pytest.raises(DoesNotFit, match=r"not in one memory.*SRAM0 4096, SRAM1 12288") as caught:
        application(forked(4 * 1024, 12 * 1024), tmp_path / "other")
    assert caught.value.needed_bytes is None


def test_constants_beyond_the_memory_that_they_are_linked_into_are_refused(tmp_path: Path) -> None:
    """They take 1456 B of the first memory; the second one has room for all activations."""
    assert application(forked(1456, 20 * 1024, rom=None), tmp_path / "app").arena_bytes[2] == 0
    assert_exact(tmp_path / "app", plugins=forked(1456, 20 * 1024, rom=None).plugins())
    with pytest.raises(DoesNotFit, match="constants of 1456 B lie in SRAM0, which has 1440"):
        application(forked(1440, 20 * 1024, rom=None), tmp_path / "other")


def test_budget_fills_the_memories_in_their_order(tmp_path: Path) -> None:
    chip = forked(10 * 1024, 8 * 1024)
    assert memory_budgets(chip.hierarchy(), 2, 12 * 1024) == (10 * 1024, 2 * 1024)
    assert memory_budgets(chip.hierarchy(), 2, 20 * 1024) == (12 * 1024, 8 * 1024)
    with pytest.raises(DoesNotFit, match="12288 B are available"):
        application(chip, tmp_path / "app", l2=12 * 1024)


def test_constants_beyond_the_mapped_memory_are_refused_with_numbers(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit) as caught:
        application(forked(16 * 1024, rom=1024), tmp_path / "app")
    assert "B of constants, 1024 B of L3 are available" in caught.value.message
    assert "largest: layer" in caught.value.message
    assert "--l3" in caught.value.hint


def with_far_rom(near: int, far: int = 64 * 1024) -> ToyChip:
    """Return a chip whose constants lie in a ROM and in a slow one far away."""
    chip = forked(16 * 1024)
    weights = frozenset({"weights"})
    roms = tuple(
        Memory(name, size, holds=weights, mapped=True)
        for name, size in (("ROM", near), ("far ROM", far))
    )
    slow = Link(2, 3, setup_cycles=400, bytes_per_cycle=0.1)
    return replace(chip, memories=(*chip.memories[:2], roms), far_link=slow)


def test_constants_that_the_first_rom_has_no_room_for_lie_in_the_far_one(tmp_path: Path) -> None:
    """A ROM with room for both convolutions, for one of them, and for no layer."""
    cycles = []
    for near, far in ((4096, []), (1024, [1]), (64, [0, 1, 2])):
        chip = with_far_rom(near)
        plan = application(chip, tmp_path / str(near))
        weights = [step.weights for step in plan.steps]
        assert [n for n, one in enumerate(weights) if one is not None and one.far] == far
        assert_exact(tmp_path / str(near), plugins=chip.plugins())
        document = json.loads((tmp_path / str(near) / "plan.json").read_text())
        blocks = document["memory"]["L3"]["blocks"]
        assert sum(block["memory"] for block in blocks) == len(far)
        assert all(
            block["offset"] + block["size"] <= near for block in blocks if not block["memory"]
        )
        header = (tmp_path / str(near) / "src/network.h").read_text()
        assert header.count("] DORY_TABLE_FAR;") == len(far)
        cycles.append(plan.cycles)
    assert cycles[0] <= cycles[1] < cycles[2]
    with pytest.raises(DoesNotFit, match="B of constants, 1088 B of L3 are available"):
        application(with_far_rom(64, 1024), tmp_path / "none")


def test_activations_beyond_l2_are_not_streamed_to_a_mapped_memory(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match="residual needs 13824 B of L2, 12288 B are available"):
        application(forked(12 * 1024), tmp_path / "app")


def test_plan_json_names_the_memory_of_every_block(tmp_path: Path) -> None:
    application(forked(10 * 1024, 8 * 1024), tmp_path / "app")
    plan = json.loads((tmp_path / "app/plan.json").read_text())
    assert {block["memory"] for block in plan["memory"]["L2"]["blocks"]} == {0, 1}
    assert all(layer["weights"] is None or layer["weights"]["linked"] for layer in plan["layers"])
    assert plan["memory"]["L3"]["used"] == sum(
        block["size"] for block in plan["memory"]["L3"]["blocks"]
    )


def test_loads_of_constants_cost_what_their_link_costs(tmp_path: Path) -> None:
    slow = forked(16 * 1024)
    fast = forked(32 * 1024, rom=None)
    cycles = [application(chip, tmp_path / str(n)).cycles for n, chip in enumerate((slow, fast))]
    assert cycles[0] > cycles[1]


def test_writing_behind_the_second_memory_is_a_fault(tmp_path: Path) -> None:
    chip = forked(10 * 1024, 8 * 1024)
    plan = application(chip, tmp_path / "app")
    step = next(s for s in plan.steps if s.output.place.memory == 1)
    source = tmp_path / "app/src" / f"dory_layer_{step.index:02d}.c"
    behind = rf"\g<0> + {8 * 1024 - 8}"
    text, stores = re.subn(r"DORY_STORE_\w+\(l2_1\b", behind, source.read_text())
    assert stores == 1
    source.write_text(text)
    with pytest.raises(VerificationFailed, match="does not lie inside L2"):
        assert_exact(tmp_path / "app", plugins=chip.plugins(), dma=("early",))


def test_a_packing_that_overlaps_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = evaluate.pack_bins

    def wrong(requests: Sequence[Request], bins: Sequence[Bin]) -> dict[str, Packing]:
        return {
            name: replace(packed, blocks=tuple(replace(b, offset=0) for b in packed.blocks))
            for name, packed in right(requests, bins).items()
        }

    monkeypatch.setattr(evaluate, "pack_bins", wrong)
    with pytest.raises(DoryError, match=r"memory plan is wrong: .* are both live"):
        application(forked(10 * 1024, 8 * 1024), tmp_path / "app")


@pytest.mark.parametrize("rom", [64 * 1024, None])
def test_layers_in_place_move_nothing_and_are_exact(rom: int | None, tmp_path: Path) -> None:
    """Tensors of odd sizes: the last row and column of some are read by no window."""
    chip = forked(10 * 1024, 9 * 1024, rom=rom, in_place=True)
    builder = GraphBuilder((8, 19, 21), name="odd")
    first = builder.conv(8, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    second = builder.conv(8, Window(kernel=(3, 3), strides=(2, 2), pads=(1, 0, 1, 0)))
    builder.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    builder.avg_pool(Window(kernel=(3, 3), strides=(3, 3)), source=second)
    builder.linear(10)
    outputs = [first, "layer_04"]
    plan = build_app(
        builder.graph(outputs), NAME, tmp_path / "app", plugins=chip.plugins(), seeds=(0, 1)
    )
    assert all(step.in_place and step.l1_bytes == 0 for step in plan.steps)
    assert "dory_dma_start" not in "".join(
        path.read_text() for path in (tmp_path / "app/src").iterdir()
    )
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_layers_in_place_are_never_streamed(tmp_path: Path) -> None:
    chip = forked(8 * 1024, rom=None, in_place=True)
    with pytest.raises(DoesNotFit, match="residual needs"):
        application(chip, tmp_path / "app")


def test_kernel_that_wants_another_layout_is_not_taken_in_place(tmp_path: Path) -> None:
    class Planar(type(portable_kernels()[0])):  # type: ignore[misc]
        name = "planar"

        def traits(self, layer: Layer) -> Traits:
            return Traits(planar=True)

    class Greedy(type(portable_kernels()[0])):  # type: ignore[misc]
        name = "greedy"

        def scratch_bytes(self, layer: Layer, tile: Tile) -> int:
            return 1 << 20

    layer = residual().layers[0]
    memory = forked(8 * 1024, in_place=True).hierarchy()
    tiler = Tiler(memory, lambda *_: ())
    layout = "it reads another layout than that of tensors in L2"
    scratch = "needs 1048576 B of L1 for scratch memory, 4096 are available"
    chosen = tiler.tile(bind_layer(layer, [Planar(), Greedy(), *portable_kernels()]), 4096)
    assert chosen.kernel.name == "dory_portable_conv"
    assert chosen.in_place
    what = f"Conv '{layer.op.name}' on"
    assert [(r.kernel, r.reason) for r in chosen.rejections if not r.other_kind] == [
        ("planar", f"{what} planar: not in one piece: {layout}"),
        ("greedy", f"{what} greedy {scratch}"),
    ]
    with pytest.raises(DoesNotFit, match=f"greedy {scratch}"):
        tiler.tile(bind_layer(layer, [Planar(), Greedy()]), 4096)
    with pytest.raises(NotSupported, match=rf"no kernel computes it \(planar: .*{layout}\)"):
        tiler.tile(bind_layer(layer, [Planar()]), 4096)


def test_scratch_memory_of_a_layer_in_place_has_room_for_all_of_its_input() -> None:
    """The last row and column, which no window reaches, are there and may be copied."""

    class Copying(type(portable_kernels()[0])):  # type: ignore[misc]
        name = "copying"

        def scratch_bytes(self, layer: Layer, tile: Tile) -> int:
            return int(tile.x_h * tile.x_w * tile.c_in)

    builder = GraphBuilder((16, 4, 8), name="skipped")
    builder.conv(8, Window(kernel=(3, 3), strides=(2, 2)))
    [layer] = builder.graph().layers
    memory = forked(8 * 1024, in_place=True).hierarchy()
    chosen = Tiler(memory, lambda *_: ()).tile(bind_layer(layer, [Copying()]), 4096)
    assert [(b.name, b.bytes) for b in chosen.tiling.buffers] == [("scratch", 16 * 4 * 8)]
