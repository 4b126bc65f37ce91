"""The tile loop of a layer as text for the template: loads, slots of buffers, the next tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.codegen.axes import TileAxes
from dory_core.codegen.constants import block_field, blocks_table
from dory_core.codegen.names import address, arena, weights_symbol
from dory_core.codegen.tile import (
    INDENT,
    TileText,
    buffer_address,
    buffer_slot,
    guarded,
    input_names,
)
from dory_core.codegen.transfers import (
    copies_by_helper,
    function,
    load_functions,
    load_weights_function,
    part_parameter,
    store_function,
)
from dory_core.plan import RESIDENT, LayerStep, Plan


@dataclass(frozen=True, slots=True)
class Load:
    """A transfer towards L1 as the template prints it.

    name: x, x2 or w. spread: every core moves its own share.
    copies: 2 when double-buffered. changes: C condition on ``t`` and ``next`` under which the next
    tile needs a new load, ``0`` when it never does. buffer, next_buffer: where to. part: argument
    that names the part, empty when there is one. base: the arena of L2 in which the source lies,
    None when it lies in none.
    """

    name: str
    what: str
    spread: bool
    copies: int
    changes: str
    buffer: str
    next_buffer: str
    part: str = ""
    base: str | None = "l2"

    @property
    def guard(self) -> str:
        """The condition under which a core takes part, as an if."""
        return "" if self.spread else "if (core == 0) "

    def guard_and(self, condition: str) -> str:
        """The same, and ``condition``."""
        return f"if ({condition}) " if self.spread else f"if (core == 0 && {condition}) "

    def start(self, index: str, buffer: str) -> str:
        """The statement that starts the load of the tile at ``index``."""
        source = f"{self.base}, " if self.base else ""
        core = ", core" if self.spread else ""
        call = f"load_{self.name}({buffer}, {source}{index}{core}{self.part})"
        return f"{self.name}_ticket = {call};"


@dataclass(frozen=True, slots=True)
class TileLoop:
    """What the template prints around the tiles of a layer that is tiled.

    spread: what of some loads each core makes itself, empty when core 0 makes all. tiles: C
    expression of their number. parts: the layer has more than one. tables, functions: in front of
    the layer's function. slots: declarations of what counts the copies of buffers. advance_slots:
    the lines that step them. y_copies, y_buffer, y_base: copies of the output's buffer, the current
    one, the arena that the output goes to. is_last: C condition of the last tile of input channels.
    stores: the output leaves L1. shared_store: every core copies its share of it. helper: copies
    are made by functions of dory_copy.h. keeps: marks of what lies in L1 when the layer begins.
    """

    spread: str
    tiles: str
    parts: bool
    tables: tuple[str, ...]
    functions: tuple[str, ...]
    slots: tuple[str, ...]
    advance_slots: tuple[str, ...]
    loads: tuple[Load, ...]
    y_copies: int
    y_buffer: str
    y_base: str
    is_last: str
    stores: bool
    shared_store: bool
    helper: bool
    keeps: tuple[str, ...]


def tile_loop(plan: Plan, step: LayerStep, axes: TileAxes, tile: TileText) -> TileLoop:
    """Return the loop of a layer over its tiles."""
    functions = _functions(plan, step, axes)
    loads = _loads(plan, step, axes)
    slots, advance_slots = _slots(step, axes, loads)
    body = "\n".join((*functions, *tile.before, *tile.checks, *tile.call))
    counts = {part.schedule.count for part in step.parts}
    return TileLoop(
        spread=_spread(step, loads),
        tiles=str(counts.pop()) if len(counts) == 1 else "part->tiles",
        parts=len(step.parts) > 1,
        tables=_tables(step, axes, body),
        functions=functions,
        slots=slots,
        advance_slots=advance_slots,
        loads=loads,
        y_copies=step.schedule.buffering.y,
        y_buffer=buffer_address(step, "y", buffer_slot(step, axes, "y")),
        y_base=arena(step.output.place.memory),
        is_last=axes.is_last,
        stores=_stores(step),
        shared_store=_stores(step) and step.carriages["y"].by_cores,
        helper=copies_by_helper(step.carriages.values()),
        keeps=_keeps(step),
    )


def _spread(step: LayerStep, loads: Sequence[Load]) -> str:
    if any(load.spread and step.carriages[load.name].by_cores for load in loads):
        return "share"
    return "channels" if any(load.spread for load in loads) else ""


def _stores(step: LayerStep) -> bool:
    return step.output.form != RESIDENT


def _functions(plan: Plan, step: LayerStep, axes: TileAxes) -> tuple[str, ...]:
    """Return the functions that load, store and find the next tile."""
    functions: list[str] = []
    for name, transfer in zip(input_names(step), step.inputs, strict=True):
        if transfer.form != RESIDENT:
            functions += load_functions(plan, step, axes, name, transfer)
    if step.weights is not None and not step.kernel.fetches:
        offset, size = (block_field(step.weights, field) for field in ("offset", "size"))
        functions.append(load_weights_function(step, weights_symbol(step), offset, size))
    if _stores(step):
        functions.append(store_function(step, axes))
    return (*functions, _advance(step, axes))


def _tables(step: LayerStep, axes: TileAxes, body: str) -> tuple[str, ...]:
    """Return the tables that the text of the layer reads."""
    tables = [a.definition() for a in axes.all if f"{a.table}[" in body]
    if step.weights is not None and "blocks[" in body:
        tables.append(blocks_table(step.weights))
    if len(step.parts) > 1:
        tables.append(_parts_table(step, axes))
    return tuple(tables)


def _keeps(step: LayerStep) -> tuple[str, ...]:
    """Return the marks of what lies in L1 when the layer begins."""
    return tuple(
        f"DORY_SIM_L1_KEEP({address('l1', place.offset)}, {place.size_bytes});"
        for place in step.found
    )


def _advance(step: LayerStep, axes: TileAxes) -> str:
    lines: list[str] = []
    for axis in reversed(axes.order(step)):
        if axis.is_tiled:
            name = axis.variable
            whole = len(step.parts) == 1
            first, end = ("0", str(len(axis.spans))) if whole else (f"part->first.{name}",) * 2
            if not whole:
                end = f"part->end.{name}"
            lines += [
                f"if (++t.{name} < {end}) {{",
                INDENT + "return t;",
                "}",
                f"t.{name} = {first};",
            ]
    return function(
        f"/* Returns the tile after t; loops from the outside: {step.schedule.order}. */",
        f"static dory_index_t advance(dory_index_t t{part_parameter(step)})",
        [*lines, "return t;"],
    )


def _loads(plan: Plan, step: LayerStep, axes: TileAxes) -> tuple[Load, ...]:
    buffering = step.schedule.buffering
    part = ", part" if len(step.parts) > 1 else ""
    loads = []
    for name, transfer in zip(input_names(step), step.inputs, strict=True):
        if transfer.form == RESIDENT:
            continue
        loads.append(
            Load(
                name,
                "input",
                step.carriages[name].by_cores or (transfer.form == "channels" and plan.any_core),
                buffering.x,
                axes.input_changes,
                buffer_address(step, name, buffer_slot(step, axes, "x")),
                buffer_address(step, name, "(x_slot ^ 1u)"),
                part,
                arena(transfer.place.memory),
            )
        )
    if step.weights is not None and not step.kernel.fetches:
        slots = (buffer_slot(step, axes, "w"), "(w_slot ^ 1u)")
        here, other = (buffer_address(step, "w", slot) for slot in slots)
        changes = axes.weight_changes
        base = None if step.weights.linked else arena(0)
        shared = step.carriages["w"].by_cores
        loads.append(Load("w", "constants", shared, buffering.w, changes, here, other, part, base))
    return tuple(loads)


def _slots(
    step: LayerStep, axes: TileAxes, loads: Sequence[Load]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the declarations of the buffers' slots and the lines that step them."""
    declarations, lines = [], []
    for load in loads:
        if load.name == "x2" or load.copies == 1 or load.changes == "0":
            continue
        declarations.append(f"uint32_t {load.name}_slot = 0;")
        lines += [f"if ({load.changes}) {{", f"{INDENT}{load.name}_slot ^= 1u;", "}"]
    if step.schedule.buffering.y > 1:
        declarations.append("uint32_t y_slot = 0;")
        lines += guarded(axes.is_last, ["y_slot ^= 1u;"])
    return tuple(declarations), tuple(lines)


def _parts_table(step: LayerStep, axes: TileAxes) -> str:
    rows = []
    for k, part in enumerate(step.parts):
        x2 = part.inputs[1] if len(part.inputs) > 1 else 0
        first = ", ".join(str(axis.starts[k]) for axis in axes.all)
        end = ", ".join(str(axis.starts[k] + axis.counts[k]) for axis in axes.all)
        data = f"{part.inputs[0]}, {x2}, {part.output}, {part.weights or 0}"
        rows.append(f"{{{data}, {{{first}}}, {{{end}}}, {part.schedule.count}}},")
    lines = "".join(f"\n  {row}" for row in rows)
    return f"static const dory_part_t parts[{len(rows)}] = {{{lines}\n}};"
