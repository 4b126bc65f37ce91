"""One C file per layer: the tile loop of a LayerStep, as text for the template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.codegen.arguments import call_lines
from dory_core.codegen.axes import TileAxes
from dory_core.codegen.boxes import input_box, tile_bytes
from dory_core.codegen.cexpr import (
    CExpr,
    add,
    comment,
    mul,
    string,
)
from dory_core.codegen.constants import PARTS, block_field, blocks_table
from dory_core.codegen.describe import describe_layer, describe_step
from dory_core.codegen.transfers import (
    function,
    load_functions,
    load_weights_function,
    part_parameter,
    store_function,
)
from dory_core.ir import Linear
from dory_core.plan import RESIDENT, LayerStep, Plan, Transfer

INDENT = "  "


@dataclass(frozen=True, slots=True)
class Load:
    """A transfer towards L1 as the template prints it.

    name: x, x2 or w. spread: every core moves its own channels.
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
class LayerView:
    """What the layer template prints."""

    index: int
    title: str
    c_name: str
    symbol: str
    header: tuple[str, ...]
    headers: tuple[str, ...]
    spread: bool
    tiles: str
    parameters: str
    parts: bool
    tables: tuple[str, ...]
    functions: tuple[str, ...]
    slots: tuple[str, ...]
    loads: tuple[Load, ...]
    y_copies: int
    y_buffer: str
    y_base: str
    is_last: str
    before: tuple[str, ...]
    checks: tuple[str, ...]
    call: tuple[str, ...]
    advance_slots: tuple[str, ...]
    stores: bool = True
    keeps: tuple[str, ...] = ()


def weights_symbol(step: LayerStep) -> str:
    """Return the C name of a layer's constants."""
    return f"dory_weights_{step.index:02d}"


def layer_symbol(step: LayerStep) -> str:
    """Return the C name of a layer's function."""
    return f"dory_layer_{step.index:02d}"


def arena(memory: int) -> str:
    """Return the C name of the arena in a memory of L2."""
    return f"l2_{memory}" if memory else "l2"


def layer_arenas(step: LayerStep) -> tuple[str, ...]:
    """Return the arenas that a layer uses, as parameters or arguments of its function."""
    moved = (t for t in (*step.inputs, step.output) if t.form != RESIDENT)
    memories = {t.place.memory for t in moved}
    if step.weights is not None and not step.weights.linked:
        memories.add(0)
    return ("l1", *(arena(memory) for memory in sorted(memories)))


def layer_parameters(step: LayerStep) -> str:
    """Return the parameters of a layer's function: arenas, and which part of it when several."""
    number = ("uint32_t number",) if len(step.parts) > 1 else ()
    return ", ".join((*(f"uint8_t *{name}" for name in layer_arenas(step)), *number))


def layer_view(plan: Plan, step: LayerStep) -> LayerView:
    """Return everything that the template prints for one layer."""
    axes = TileAxes.of(step)
    names = ("x", "x2")[: len(step.inputs)]
    if step.in_place:
        return _in_place_view(plan, step, axes, names)
    functions: list[str] = []
    for name, transfer in zip(names, step.inputs, strict=True):
        if transfer.form != RESIDENT:
            functions += load_functions(plan, step, axes, name, transfer)
    if step.weights is not None and not step.kernel.fetches:
        functions.append(
            load_weights_function(
                step,
                weights_symbol(step),
                block_field(step.weights, "offset"),
                block_field(step.weights, "size"),
            )
        )
    stores = step.output.form != RESIDENT
    functions += [*([store_function(step, axes)] if stores else []), _advance(step, axes)]

    loads = _loads(plan, step, axes, names)
    tile = _tile_text(step, axes, names)
    slots, advance_slots = _slots(step, axes, loads)
    body = "\n".join((*functions, *tile.before, *tile.checks, *tile.call))
    tables = [a.definition() for a in axes.all if f"{a.table}[" in body]
    if step.weights is not None and "blocks[" in body:
        tables.append(blocks_table(step.weights))
    if len(step.parts) > 1:
        tables.append(_parts_table(step, axes))
    counts = {part.schedule.count for part in step.parts}
    return LayerView(
        index=step.index,
        title=f"{comment(step.layer.layer.name)}: {describe_layer(step.layer)}",
        c_name=string(step.layer.layer.name),
        symbol=layer_symbol(step),
        header=tuple(comment(line) for line in describe_step(plan, step)),
        headers=step.kernel.headers,
        spread=plan.any_core and any(load.spread for load in loads),
        tiles=str(counts.pop()) if len(counts) == 1 else "part->tiles",
        parameters=layer_parameters(step),
        parts=len(step.parts) > 1,
        tables=tuple(tables),
        functions=tuple(functions),
        slots=slots,
        loads=loads,
        y_copies=step.schedule.buffering.y,
        y_buffer=_buffer(step, "y", _slot(step, axes, "y")),
        y_base=arena(step.output.place.memory),
        is_last=axes.is_last,
        before=tile.before,
        checks=tile.checks,
        call=tile.call,
        advance_slots=advance_slots,
        stores=stores,
        keeps=_keeps(step, names),
    )


def _keeps(step: LayerStep, names: Sequence[str]) -> tuple[str, ...]:
    """Return the marks of what lies in L1 when the layer begins."""
    return tuple(
        f"DORY_SIM_L1_KEEP({_buffer(step, name, 0)}, {transfer.place.size_bytes});"
        for name, transfer in zip(names, step.inputs, strict=True)
        if transfer.form == RESIDENT
    )


def _in_place_view(plan: Plan, step: LayerStep, axes: TileAxes, names: Sequence[str]) -> LayerView:
    """Return what the template of a layer without transfers prints."""
    tile = _tile_text(step, axes, names)
    return LayerView(
        index=step.index,
        title=f"{comment(step.layer.layer.name)}: {describe_layer(step.layer)}",
        c_name=string(step.layer.layer.name),
        symbol=layer_symbol(step),
        header=tuple(comment(line) for line in describe_step(plan, step)),
        headers=step.kernel.headers,
        spread=False,
        tiles="1",
        parameters=layer_parameters(step),
        parts=False,
        tables=(),
        functions=(),
        slots=(),
        loads=(),
        y_copies=1,
        y_buffer=_buffer(step, "y", "0"),
        y_base=arena(step.output.place.memory),
        is_last="1",
        before=tile.before,
        checks=tile.checks,
        call=tile.call,
        advance_slots=(),
    )


# -- the loop ---------------------------------------------------------------------------------


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


def _loads(plan: Plan, step: LayerStep, axes: TileAxes, names: Sequence[str]) -> tuple[Load, ...]:
    buffering = step.schedule.buffering
    part = ", part" if len(step.parts) > 1 else ""
    loads = []
    for name, transfer in zip(names, step.inputs, strict=True):
        if transfer.form == RESIDENT:
            continue
        loads.append(
            Load(
                name,
                "input",
                transfer.form == "channels" and plan.any_core,
                buffering.x,
                axes.input_changes,
                _buffer(step, name, _slot(step, axes, "x")),
                _buffer(step, name, "(x_slot ^ 1u)"),
                part,
                arena(transfer.place.memory),
            )
        )
    if step.weights is not None and not step.kernel.fetches:
        slots = (_slot(step, axes, "w"), "(w_slot ^ 1u)")
        here, other = (_buffer(step, "w", slot) for slot in slots)
        changes = axes.weight_changes
        base = None if step.weights.linked else arena(0)
        loads.append(Load("w", "constants", False, buffering.w, changes, here, other, part, base))
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
        lines += _if(axes.is_last, ["y_slot ^= 1u;"])
    return tuple(declarations), tuple(lines)


def _if(condition: str, lines: Sequence[str]) -> list[str]:
    if condition == "1":
        return list(lines)
    return [f"if ({condition}) {{", *(INDENT + line for line in lines), "}"]


def _slot(step: LayerStep, axes: TileAxes, name: str) -> CExpr:
    """Return which copy of a buffer the tile at ``t`` uses."""
    changes = {"x": axes.input_changes, "w": axes.weight_changes, "y": "1"}[name]
    return f"{name}_slot" if getattr(step.schedule.buffering, name) > 1 and changes != "0" else 0


def _buffer(step: LayerStep, name: str, slot: CExpr, part: CExpr = 0) -> str:
    """Return the address of ``part`` bytes into a buffer's copy, or into what is used in place."""
    if step.in_place and name in ("x", "x2", "y"):
        return _in_place(step, name, part)
    if name == "w" and (step.in_place or step.kernel.fetches):
        assert step.weights is not None
        return _linked(step, add(block_field(step.weights, "offset"), part))
    block = step.block(name)
    assert block is not None, name
    place = add(block.offsets[0], mul(slot, block.bytes) if len(block.offsets) > 1 else 0, part)
    return f"l1 + {place}" if place != 0 else "l1"


def _linked(step: LayerStep, part: CExpr) -> str:
    """Return the address of a byte of the constants where they are linked."""
    table = f"(const uint8_t *){weights_symbol(step)}"
    return f"{table} + {part}" if part != 0 else table


def _in_place(step: LayerStep, name: str, part: CExpr) -> str:
    transfer = step.output if name == "y" else step.inputs[name == "x2"]
    place = add(transfer.place.offset, part)
    base = arena(transfer.place.memory)
    return f"{base} + {place}" if place != 0 else base


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


# -- one tile -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TileText:
    """What the loop does with a tile.

    before: declarations in front of the loop. checks: for the simulation. call: of the kernel.
    """

    before: tuple[str, ...]
    checks: tuple[str, ...]
    call: tuple[str, ...]


def _tile_text(step: LayerStep, axes: TileAxes, inputs: Sequence[str]) -> TileText:
    sizes = axes.sizes()
    if step.in_place and not isinstance(step.layer.layer, Linear):
        # Rows and columns that no window reaches are there all the same.
        sizes |= {"x_h": step.layer.inputs[0].height, "x_w": step.layer.inputs[0].width}
    names: dict[str, CExpr] = {**sizes, "psum": "NULL", "scratch": "NULL"}
    checks: list[str] = []

    for name, transfer in zip(inputs, step.inputs, strict=True):
        names[name] = address = _buffer(step, name, _slot(step, axes, "x"))
        names[f"l2_{name}"] = _l2_address(step, axes, name, transfer)
        checks.append(f"DORY_SIM_READ({address}, {tile_bytes(step, name, sizes)});")
    if step.weights is not None:
        slot = 0 if step.kernel.fetches else _slot(step, axes, "w")
        for part in PARTS:
            offset = block_field(step.weights, part)
            names[part] = _buffer(step, "w", slot, offset)
        size = block_field(step.weights, "size")
        checks.append(f"DORY_SIM_READ({_buffer(step, 'w', slot)}, {size});")
    if step.block("psum") is not None:
        address = _buffer(step, "psum", 0)
        names["psum"] = f"(int32_t *)(void *)({address})"
        size = mul(sizes["y_h"], sizes["y_w"], sizes["y_c"], 4)
        checks += _if(f"!({axes.is_first})", [f"DORY_SIM_READ({address}, {size});"])
        checks.append(f"DORY_SIM_WRITE({address}, {size});")
    scratch = step.block("scratch")
    if scratch is not None:
        names["scratch"] = address = _buffer(step, "scratch", 0)
        checks.append(f"DORY_SIM_WRITE({address}, {scratch.bytes});")
    names["y"] = address = _buffer(step, "y", _slot(step, axes, "y"))
    size = tile_bytes(step, "y", sizes)
    checks += _if(axes.is_last, [f"DORY_SIM_WRITE({address}, {size});"])
    before, call = call_lines(step.kernel.text, names)
    return TileText(before, tuple(checks), call)


def _l2_address(step: LayerStep, axes: TileAxes, name: str, transfer: Transfer) -> str:
    """Return the first byte of an input's tile in L2; 0 when it is not there."""
    if transfer.form == RESIDENT:
        return "0"
    if step.in_place:
        return _in_place(step, name, 0)
    offset = input_box(step, axes, name, transfer).offset
    base = arena(transfer.place.memory)
    return f"{base} + {offset}" if offset != 0 else base
