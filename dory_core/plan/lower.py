"""The program of a layer: its Plan as operations in the order of execution.

The order of what a tile does is ``dory_core.schedule.loops.TILE_PHASES``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from dory_core.expr import Expr, Var
from dory_core.hardware.copies import AS_IT_IS, Carriage
from dory_core.ir.geometry import Tile
from dory_core.kernels.call import OPERANDS
from dory_core.plan import Form, LayerStep, Place
from dory_core.plan.ahead import load_for_later, x_is_there
from dory_core.plan.boxes import cuts_columns, operand_box, operand_bytes, operand_plan, shaped
from dory_core.plan.calls import checked_call
from dory_core.plan.constants import CONSTANT_PARTS, block_field, constants_of_tile
from dory_core.plan.memories import L1, l2_memory
from dory_core.plan.operations import (
    Address,
    Argument,
    AtTile,
    Barrier,
    Call,
    Changes,
    Copy,
    LayerProgram,
    Loop,
    Mark,
    MarkKind,
    Of,
    Operation,
    Slot,
    Value,
    Wait,
    When,
    changes_always,
)
from dory_core.plan.spans import Tiles, product, table
from dory_core.schedule.loops import TILE_PHASES, Phase


def lower_layer(step: LayerStep, any_core: bool, later: LayerStep | None = None) -> LayerProgram:
    """Return the operations of a layer.

    Args:
        step: The layer.
        any_core: Whether each core may start transfers.
        later: The layer whose first constants it loads, None for none.
    """
    return _Lowering(step, any_core, later).program()


@dataclass(frozen=True, slots=True, eq=False)
class _Load:
    """A copy towards L1.

    Attributes:
        axes: Axes along which the tile needs another one.
        early: Whether the next tile's is started before the current one is computed.
    """

    copy: Copy
    axes: tuple[str, ...]
    early: bool

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The wait for it; none where the cores copy."""
        copy = self.copy
        if copy.carriage.by_cores:
            return ()
        # A core has no channel of its own when there are fewer channels than cores.
        shared = copy.each_core and copy.channels is not None
        return (Wait(copy.operand, open=not shared, each_core=copy.each_core),)


_COMPUTED = Barrier("every core has computed its share")


class _Lowering:
    """Turns one layer into operations."""

    def __init__(self, step: LayerStep, any_core: bool, later: LayerStep | None) -> None:
        self.step = step
        self.any_core = any_core
        self.later = later
        self.tiles = Tiles.of(step)
        self.sizes = self.tiles.sizes()
        if step.in_place and not step.layer.op.reads_vector:
            # Rows and columns that nothing reaches are there all the same, without those of which a
            # part has its own.
            x = step.layer.inputs[0]
            if not cuts_columns(step, self.tiles):
                self.sizes |= {"x_w": x.width, "x_column": 0}
            if len(step.parts) == 1:
                self.sizes["x_h"] = x.height - self.sizes["x_row"]
        axes = {
            "x": self.tiles.x_axes,
            "w": self.tiles.along("o", "i"),
            "y": self.tiles.along("o", "h", "w"),
        }
        self.slots = {
            name: Slot(f"{name}_slot", axes[name], len(block.offsets))
            for name in ("x", "w", "y")
            if (block := step.block(name)) is not None and len(block.offsets) > 1 and axes[name]
        }
        slots = self.slots.items()
        self._slot_variables = {n: Var(slot.name, 0, slot.copies - 1) for n, slot in slots}
        self.loads = tuple(self._loads())

    def program(self) -> LayerProgram:
        step = self.step
        begin: list[Operation] = [
            *map(self._keep, step.found),
            *self._keep_inputs(),
            Mark(MarkKind.LAYER),
            Barrier("core 0 has completed everything before this layer"),
            *(first for load in self.loads for first in self._first(load)),
            *(wait for load in self.loads if not load.axes for wait in self._waits(load)),
        ]
        if not self.tiles.tiled:
            body = (*begin, *self._tile(), *self._store(), *self._last_waits())
            return LayerProgram(len(step.parts), body)
        axes = tuple(self.tiles.axes[name].loop for name in self.tiles.tiled)
        tiles = table("tiles", [part.schedule.count for part in step.parts], self.tiles.part)
        loop = Loop(axes, tiles, tuple(self.slots.values()), tuple(self._phases()))
        return LayerProgram(len(step.parts), (*begin, loop, *self._last_waits()))

    def _keep(self, place: Place) -> Mark:
        """Return the mark of a tensor that lies in L1 when the layer begins."""
        buffer = next((b.name for b in self.step.l1 if b.offsets[0] == place.offset), "")
        address = Address(L1, place.offset, buffer)
        return Mark(MarkKind.KEEP, address, place.size_bytes, place.tensor.name)

    def _keep_inputs(self) -> Iterator[Operation]:
        """Yield the marks of inputs that the part before has left in L1."""
        there = x_is_there(self.step, self.tiles)
        if isinstance(there, int):
            return  # the first part never finds them
        for name, plan in zip(OPERANDS, self.step.inputs, strict=False):
            if plan.form == Form.RESIDENT:
                continue
            size = operand_bytes(self.step, name, self._sizes_of_tile())
            mark = Mark(MarkKind.KEEP, self._buffer(name), size)
            yield When(there, (mark,), "the part before has loaded the same input")

    def _phases(self) -> Iterator[Operation]:
        """Yield what the loop does with each tile."""
        for phase in TILE_PHASES:
            if phase is Phase.ARRIVE:
                yield from self._arrive()
            elif phase is Phase.MEET:
                yield self._meeting()
            elif phase is Phase.LOAD_EARLY:
                yield from self._next_loads(early=True)
                yield from self._ahead()
            elif phase is Phase.COMPUTE:
                yield from self._marks()
                yield from (self._call(), _COMPUTED)
            elif phase is Phase.STORE:
                yield from self._store()
            else:
                yield from self._next_loads(early=False)

    def _first(self, load: _Load) -> Iterator[Operation]:
        """Yield the copy for the first tile, where it is neither there nor in flight."""
        if load.copy.operand == "w":
            there: Value = self.step.loaded_ahead
        else:
            there = x_is_there(self.step, self.tiles)
        if isinstance(there, Expr):
            yield When(there == 0, (load.copy,))
        elif not there:
            yield load.copy

    def _waits(self, load: _Load) -> Iterator[Wait]:
        """Yield the waits for the only copy of an operand."""
        surely = load.copy.operand == "w" or isinstance(x_is_there(self.step, self.tiles), int)
        yield from (replace(wait, open=wait.open and surely) for wait in load.waits)

    def _ahead(self) -> Iterator[Operation]:
        """Yield the load of a later layer's first constants at the tile that starts it."""
        if self.step.ahead is not None:
            reason = "the first constants of the next layer travel while this one computes"
            yield When(
                AtTile(self.step.ahead.tile), tuple(load_for_later(self.step, self.later)), reason
            )

    def _tile(self) -> Iterator[Operation]:
        """Yield what happens to the only tile between its arrival and the end of the kernel."""
        yield self._meeting()
        yield from load_for_later(self.step, self.later)
        yield from self._marks()
        yield from (self._call(), _COMPUTED)

    def _meeting(self) -> Barrier:
        """Return the barrier before the kernel."""
        return Barrier("the operands are in L1" if self.loads else "all cores start together")

    def _arrive(self) -> Iterator[Operation]:
        for load in self.loads:
            if load.axes:
                loop = [self.tiles.axes[name].loop for name in self.tiles.tiled]
                opened = changes_always(loop, load.axes)
                yield from (replace(wait, open=wait.open and opened) for wait in load.waits)
        if self._stores and not self._carriage("y").by_cores:
            yield Wait("y", self._slot("y"), open=False)

    def _next_loads(self, early: bool) -> Iterator[Operation]:
        loads = [load for load in self.loads if load.axes and load.early == early]
        for (axes, _), group in groupby(loads, lambda load: (load.axes, load.copy.each_core)):
            copies = tuple(replace(load.copy, of=Of.NEXT) for load in group)
            alone = early and not any(copy.carriage.by_cores for copy in copies)
            reason = "travels while this tile computes" if alone else ""
            yield When(Changes(axes), copies, reason)

    @property
    def _stores(self) -> bool:
        return self.step.output.form != Form.RESIDENT and not self.step.in_place

    def _when_last(self, *operations: Operation) -> Iterator[Operation]:
        """Yield operations of tiles that complete their output."""
        last = self.sizes["last"]
        if isinstance(last, Expr):
            yield When(last, operations)
        else:
            yield from operations

    def _store(self) -> Iterator[Operation]:
        if self._stores:
            yield from self._when_last(self._tensor_copy("y"))

    def _last_waits(self) -> Iterator[Operation]:
        """Yield waits for the last store of each copy of the output's buffer."""
        if self._stores and self._carriage("y").by_cores:
            yield Barrier("every core has copied its share of the output")
        elif self._stores:
            slot = self.slots.get("y")
            for number in range(slot.copies if slot is not None else 1):
                yield Wait("y", number, open=slot is None)

    def _loads(self) -> Iterator[_Load]:
        step = self.step
        if step.in_place:
            return
        # Constants first: their tables are read before a transfer is under way.
        if step.weights is not None and not step.kernel.fetches:
            carriage = self._carriage("w")
            copy = Copy(
                "w",
                True,
                self._buffer("w"),
                constants_of_tile(step, self.tiles),
                (block_field(step, self.tiles, "size"), 1, 1),
                each_core=carriage.by_cores,
                carriage=carriage,
            )
            early = step.schedule.buffering.w > 1
            yield _Load(copy, self.tiles.along("o", "i"), early)
        for name, plan in zip(OPERANDS, step.inputs, strict=False):
            if plan.form != Form.RESIDENT:
                early = step.schedule.buffering.x > 1
                copy = self._tensor_copy(name)
                yield _Load(copy, self.tiles.x_axes, early)

    def _tensor_copy(self, name: str) -> Copy:
        """Return the copy of the tile's box of x, x2 or y."""
        plan, carriage = operand_plan(self.step, name), self._carriage(name)
        box = operand_box(self.step, self.tiles, name)
        copy = Copy(
            name,
            name != "y",
            self._buffer(name),
            Address(l2_memory(plan.place.memory), box.offset, name),
            each_core=carriage.by_cores or (plan.form == Form.CHANNELS and self.any_core),
            ticket_slot=self._slot(name) if name == "y" else 0,
            carriage=carriage,
        )
        return shaped(copy, plan, box)

    def _carriage(self, operand: str) -> Carriage:
        return self.step.carriages.get(operand, AS_IT_IS)

    # -- addresses ---------------------------------------------------------------------------------

    def _slot(self, name: str) -> Value:
        """Return which copy of a buffer the tile uses."""
        name = "x" if name in OPERANDS else name
        return self._slot_variables.get(name, 0)

    def _buffer(self, name: str, part: Value = 0) -> Address:
        """Return the address of ``part`` bytes into the tile's copy of a buffer."""
        block = self.step.block(name)
        assert block is not None, name
        offset = block.offsets[0] + self._slot(name) * block.step + part
        return Address(L1, offset, name)

    def _operand(self, name: str) -> Address:
        """Return where the kernel has an operand: in L1, or in place.

        Of a resident tensor each tile is a part.
        """
        plan = operand_plan(self.step, name)
        resident = plan.form == Form.RESIDENT
        if not self.step.in_place and not resident:
            return self._buffer(name)
        offset = operand_box(self.step, self.tiles, name).offset
        if resident:
            return self._buffer(name, offset - plan.place.offset)
        return Address(l2_memory(plan.place.memory), offset, name)

    def _in_l2(self, name: str) -> Argument:
        """Return the first byte of an input's tile in L2; 0 when it is not there."""
        plan = operand_plan(self.step, name)
        if plan.form == Form.RESIDENT:
            return 0
        if self.step.in_place:
            return self._operand(name)
        offset = operand_box(self.step, self.tiles, name).offset
        return Address(l2_memory(plan.place.memory), offset, name)

    def _pitch(self, name: str) -> Value:
        """Return the bytes from one row of an operand's tile to the next where the kernel has it.

        That is more than the columns which the tile needs where the kernel has whole rows. In
        place, a part of an only row has the bytes of its own columns and channels: the whole row
        may not be there.
        """
        plan, box = operand_plan(self.step, name), operand_box(self.step, self.tiles, name)
        if box.block or (self.step.in_place and plan.place.tensor.height > 1):
            return box.row
        if plan.form == Form.CHANNELS:
            return product(box.w, plan.place.tensor.bits // 8)
        return product(box.w, box.c_bytes)

    def _constant_part(self, part: Value) -> Address:
        """Return where the kernel finds a part of its constants."""
        if self.step.in_place or self.step.kernel.fetches:
            return constants_of_tile(self.step, self.tiles, part)
        return self._buffer("w", part)

    # -- the kernel --------------------------------------------------------------------------------

    def _marks(self) -> Iterator[Operation]:
        """Yield what the kernel reads and writes."""
        step, sizes, tile = self.step, self.sizes, self._sizes_of_tile()
        yield Mark(MarkKind.TILE)
        for name in OPERANDS[: len(step.inputs)]:
            yield Mark(MarkKind.READ, self._operand(name), operand_bytes(step, name, tile))
        if step.weights is not None:
            yield Mark(MarkKind.READ, self._constant_part(0), block_field(step, self.tiles, "size"))
        if step.block("psum") is not None:
            size = product(sizes["y_h"], sizes["y_w"], sizes["y_c"], 4)
            read = Mark(MarkKind.SUMS, self._buffer("psum"), size)
            later = self.tiles.axes["i"].variable != 0
            if isinstance(later, Expr):
                yield When(later, (read,))
            yield Mark(MarkKind.WRITE, self._buffer("psum"), size)
        scratch = step.block("scratch")
        if scratch is not None:
            yield Mark(MarkKind.WRITE, self._buffer("scratch"), scratch.bytes)
        written = Mark(MarkKind.WRITE, self._operand("y"), operand_bytes(step, "y", tile))
        yield from self._when_last(written)

    def _sizes_of_tile(self) -> Tile:
        o, h, w, i, x_h, x_w = (
            self.sizes[key] for key in ("y_c", "y_h", "y_w", "x_c", "x_h", "x_w")
        )
        return Tile(o, h, w, i, x_h, x_w)

    def _call(self) -> Call:
        step = self.step
        arguments: dict[str, Argument] = {**self.sizes, "psum": None, "scratch": None}
        for name in OPERANDS[: len(step.inputs)]:
            arguments[name] = self._operand(name)
            arguments[f"l2_{name}"] = self._in_l2(name)
            arguments[f"{name}_pitch"] = self._pitch(name)
        if step.weights is not None:
            for part in CONSTANT_PARTS:
                arguments[part] = self._constant_part(block_field(step, self.tiles, part))
        for name in ("psum", "scratch"):
            if step.block(name) is not None:
                arguments[name] = self._buffer(name)
        arguments["y"] = self._operand("y")
        arguments["y_pitch"] = self._pitch("y")
        return checked_call(step, arguments)
