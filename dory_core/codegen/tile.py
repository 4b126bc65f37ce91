"""One tile of a layer as C: where its buffers lie, the call of the kernel, checks around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.codegen.arguments import call_lines
from dory_core.codegen.axes import TileAxes
from dory_core.codegen.boxes import input_box, tile_bytes
from dory_core.codegen.cexpr import CExpr, add, mul
from dory_core.codegen.constants import PARTS, block_field
from dory_core.codegen.names import address, arena, weights_symbol
from dory_core.ir.geometry import window_of
from dory_core.plan import RESIDENT, LayerStep, OperandPlan
from dory_core.tiles.schedule import OPERANDS

INDENT = "  "


@dataclass(frozen=True, slots=True)
class TileText:
    """What the loop does with a tile.

    before: declarations in front of the loop. checks: for the simulation. call: of the kernel.
    """

    before: tuple[str, ...]
    checks: tuple[str, ...]
    call: tuple[str, ...]


def tile_text(step: LayerStep, axes: TileAxes) -> TileText:
    """Return what the loop does with the tile at ``t``: one for all of them."""
    sizes = axes.sizes()
    if step.in_place and window_of(step.layer) is not None:
        # Rows and columns that no window reaches are there all the same.
        sizes |= {"x_h": step.tiling.tile.x_h, "x_w": step.tiling.tile.x_w}
    names: dict[str, CExpr] = {**sizes, "psum": "NULL", "scratch": "NULL"}
    checks: list[str] = []

    for name, transfer in zip(input_names(step), step.inputs, strict=True):
        names[name] = where = buffer_address(step, name, buffer_slot(step, axes, "x"))
        names[f"l2_{name}"] = _l2_address(step, axes, name, transfer)
        checks.append(f"DORY_SIM_READ({where}, {tile_bytes(step, name, sizes)});")
    if step.weights is not None:
        slot = 0 if step.kernel.fetches else buffer_slot(step, axes, "w")
        for part in PARTS:
            offset = block_field(step.weights, part)
            names[part] = buffer_address(step, "w", slot, offset)
        size = block_field(step.weights, "size")
        checks.append(f"DORY_SIM_READ({buffer_address(step, 'w', slot)}, {size});")
    if step.block("psum") is not None:
        where = buffer_address(step, "psum", 0)
        names["psum"] = f"(int32_t *)(void *)({where})"
        size = mul(sizes["y_h"], sizes["y_w"], sizes["y_c"], 4)
        checks += guarded(f"!({axes.is_first})", [f"DORY_SIM_READ({where}, {size});"])
        checks.append(f"DORY_SIM_WRITE({where}, {size});")
    scratch = step.block("scratch")
    if scratch is not None:
        names["scratch"] = where = buffer_address(step, "scratch", 0)
        checks.append(f"DORY_SIM_WRITE({where}, {scratch.bytes});")
    names["y"] = where = buffer_address(step, "y", buffer_slot(step, axes, "y"))
    size = tile_bytes(step, "y", sizes)
    checks += guarded(axes.is_last, [f"DORY_SIM_WRITE({where}, {size});"])
    before, call = call_lines(step.kernel.text, names)
    return TileText(before, tuple(checks), call)


def _l2_address(step: LayerStep, axes: TileAxes, name: str, transfer: OperandPlan) -> str:
    """Return the first byte of an input's tile in L2; 0 when it is not there."""
    if transfer.form == RESIDENT:
        return "0"
    if step.in_place:
        return _in_place(step, name, 0)
    offset = input_box(step, axes, name, transfer).offset
    return address(arena(transfer.place.memory), offset)


def input_names(step: LayerStep) -> tuple[str, ...]:
    """Return what the inputs of a layer are called: x, x2."""
    return OPERANDS[: len(step.inputs)]


def buffer_slot(step: LayerStep, axes: TileAxes, name: str) -> CExpr:
    """Return which copy of a buffer the tile at ``t`` uses."""
    changes = {"x": axes.input_changes, "w": axes.weight_changes, "y": "1"}[name]
    return f"{name}_slot" if getattr(step.schedule.buffering, name) > 1 and changes != "0" else 0


def buffer_address(step: LayerStep, name: str, slot: CExpr, part: CExpr = 0) -> str:
    """Return the address of ``part`` bytes into a buffer's copy, or into what is used in place."""
    if step.in_place and name in ("x", "x2", "y"):
        return _in_place(step, name, part)
    if name == "w" and (step.in_place or step.kernel.fetches):
        assert step.weights is not None
        return _linked(step, add(block_field(step.weights, "offset"), part))
    block = step.block(name)
    assert block is not None, name
    place = add(block.offsets[0], mul(slot, block.bytes) if len(block.offsets) > 1 else 0, part)
    return address("l1", place)


def _linked(step: LayerStep, part: CExpr) -> str:
    """Return the address of a byte of the constants where they are linked."""
    return address(f"(const uint8_t *){weights_symbol(step)}", part)


def _in_place(step: LayerStep, name: str, part: CExpr) -> str:
    """Return the address of a byte of a tensor that the kernel has where it lies."""
    transfer = step.output if name == "y" else step.inputs[name == "x2"]
    place = add(transfer.place.offset, part)
    return address(arena(transfer.place.memory), place)


def guarded(condition: str, lines: Sequence[str]) -> list[str]:
    """Return lines under a condition, as they are where it is ``1``."""
    if condition == "1":
        return list(lines)
    return [f"if ({condition}) {{", *(INDENT + line for line in lines), "}"]
