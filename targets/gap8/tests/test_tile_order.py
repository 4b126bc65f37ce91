"""What a tile does beside its loads: nothing reads L2, whose port is busy."""

from __future__ import annotations

import re
from pathlib import Path

import dory_gap8

from dory_core.api import ops
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder

HAL = Path(dory_gap8.__file__).parent / "hal"


def test_arguments_of_a_tile_are_read_before_its_loads_start(tmp_path: Path) -> None:
    """What differs between tiles may be a table in L2."""
    b = GraphBuilder((96, 12, 12), seed=7)
    b.conv(332, ops.Window(kernel=(1, 1)))
    plan = build_app(b.graph(), "gap8", tmp_path / "app", budgets={1: 12_000, 2: 60_000})
    texts = [path.read_text() for path in (tmp_path / "app" / "src").glob("dory_layer*.c")]
    loops = [text for text in texts if "travels while this tile computes" in text]
    assert loops, plan.steps[0].schedule
    for text in loops:
        beside = text.split("/* the operands are in L1 */")[1].split("/* every core has")[0]
        kernel = beside.rsplit("  }\n", 1)[1]
        assert re.fullmatch(r"\s*dory_gap8_\w+\(&arguments\);\s*dory_barrier\(\);\s*", kernel)
        loads = re.findall(r"= load_(\w)\(", beside)
        assert loads == sorted(loads, key="wx".index)
    assert_exact(tmp_path / "app")


def test_tables_of_a_tile_are_read_from_the_stack(tmp_path: Path) -> None:
    """The store of the tile before is under way when the next one's sizes and places are read."""
    app = two_layers((16, 31, 47), 40, {1: 10_000, 2: 50_000}, tmp_path / "app")
    texts = [path.read_text() for path in (app / "src").glob("dory_layer*.c")]
    assert any("by_tile->" in text for text in texts)
    for text in texts:
        assert "for (" in text
        in_l2 = re.findall(r"static const \w+ (\w+)\[?\d* ?=?", text)
        loop = text.split("for (")[1]
        assert in_l2
        assert not [name for name in in_l2 if re.search(rf"\b{name}\b", loop)], text
    assert_exact(app)


def test_long_tables_of_a_tile_stay_in_l2(tmp_path: Path) -> None:
    """The stacks of the cores are small."""
    app = two_layers((96, 12, 12), 332, {1: 12_000, 2: 60_000}, tmp_path / "app")
    text = (app / "src/dory_layer_01.c").read_text()
    entries = [int(n) for n in re.findall(r"static const uint32_t \w+\[(\d+)\]", text)]
    assert sum(entries) > 24
    assert "tables_t" not in text and "const part_t own_part" in text
    assert_exact(app, dma=("random",), repeat=1)


def two_layers(
    shape: tuple[int, int, int], channels: int, budgets: dict[int, int], app: Path
) -> Path:
    """Return an application of a 1x1 layer and one back to the channels of the input."""
    b = GraphBuilder(shape, seed=7)
    b.conv(channels, ops.Window(kernel=(1, 1)))
    b.conv(shape[0], ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    build_app(b.graph(), "gap8", app, budgets=budgets)
    return app


def test_the_wait_in_assembly_uses_the_registers_of_the_header() -> None:
    """What the chip runs is assembly, what the model of the DMA runs is C."""
    header = (HAL / "dory_gap8_registers.h").read_text()
    source = (HAL / "dory_gap8_dma.c").read_text()
    code = source.split("#ifdef __pulp__")[1].split("#else")[0]

    def register(name: str) -> int:
        value = re.search(rf"#define {name} (.+?)(?: /\*|\n)", header)
        assert value is not None, name
        text = re.sub(r"\b(\d\w*)u\b", r"\1", value[1])
        known = re.search(r"DORY_GAP8_\w+", text)
        return int(eval(text.replace(known[0], str(register(known[0]))) if known else text))

    unit = register("DORY_GAP8_EU")
    assert f"lui a5, {unit >> 12:#x}\\n" in code and unit % 4096 == 0
    assert f"addi a3, a5, {register('DORY_GAP8_DMA_STATUS') - unit:#x}\\n" in code
    assert f"li a2, {register('DORY_GAP8_EVENT_DMA')}\\n" in code
    assert f"sw a2, {register('DORY_GAP8_EU_MASK_SET') - unit}(a5)\\n" in code
    assert f"sw a2, {register('DORY_GAP8_EU_MASK_CLEAR') - unit}(a5)\\n" in code
    assert f"p.elw a4, {register('DORY_GAP8_EU_WAIT_CLEAR') - unit:#x}(a5)\\n" in code
