"""Independent check of memory contents. It shares no code with the planners.

The operations are executed on ranges of bytes. A write invalidates all data that it overlaps. A
read needs the whole tensor at its address, in a layout that the reader can use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations

from dory_core.checks.cover import verify_constants, verify_tiles
from dory_core.checks.held import (
    L2,
    Held,
    Range,
    bug,
    constants_name,
    layout_text,
    memory_of,
    not_there,
    range_of,
)
from dory_core.checks.runs import LayerRun, PartRun, WeightPrefetch
from dory_core.ir.layout import HWC
from dory_core.kernels.call import OPERANDS
from dory_core.plan import LayerStep, PartPlan
from dory_core.plan.accesses import (
    L2Access,
    bounds,
    buffers_of_tiles,
    executed,
    first_copies,
)
from dory_core.plan.memories import L1, MemoryId, constants_of, l2_memory
from dory_core.plan.network_operations import (
    BeginStates,
    Convert,
    Dead,
    EndStates,
    ExtStart,
    ExtWait,
    Inputs,
    MoveRows,
    Outputs,
    Program,
    PutRows,
    Report,
    RunPart,
    TakeRows,
    View,
)
from dory_core.plan.operations import AHEAD, Copy, Mark, MarkKind


def verify_contents(program: Program, steps: Sequence[LayerStep]) -> None:
    """Check the inputs of every part, and the outputs and the state at the end.

    Tensors in L2 and L3 hold their data until another block overwrites them. Tensors in L1 hold it
    until the next layer that does not read them there. Data of a transfer is valid after its wait;
    until then the transfer owns its bytes in both levels. Tiles cover each output, and constants do
    not overlap.

    Args:
        program: The operations of the network.
        steps: The layers of the plan, in order.

    Raises:
        DoryError: When the plan is wrong, which is a bug.
    """
    verify_tiles(steps)
    verify_constants(steps)
    memory = _Memory()
    layer_of = cache(lambda number: LayerRun.of(steps[number], program.layers[number]))
    for place in program.given:
        memory.take(memory_of(place), range_of(place))
    for operation in program.operations:
        if isinstance(operation, ExtStart):
            memory.start(operation.transfer)
        elif isinstance(operation, ExtWait):
            memory.wait(operation.transfer)
        elif isinstance(operation, Inputs):
            for place in operation.places:
                if place.level == 2 and not place.passing:
                    memory.take(memory_of(place), range_of(place))
        elif isinstance(operation, BeginStates):
            for state in operation.states:
                memory.take(memory_of(state.place), range_of(state.place))
        elif isinstance(operation, EndStates):
            memory.keep_states(operation)
        elif isinstance(operation, Convert):
            memory.convert(operation.conversion)
        elif isinstance(operation, Dead):
            block = operation.block
            memory.take(l2_memory(block.memory), Range(block.offset, block.end))
        elif isinstance(operation, MoveRows):
            memory.move(operation, steps[operation.step])
        elif isinstance(operation, TakeRows):
            memory.take_rows(operation)
        elif isinstance(operation, PutRows):
            memory.put_rows(operation)
        elif isinstance(operation, RunPart):
            memory.run(PartRun(layer_of(operation.step), operation.part))
        elif isinstance(operation, View):
            memory.view(steps[operation.step])
        elif isinstance(operation, Report):
            memory.report(operation)
        elif isinstance(operation, Outputs):
            for place in operation.places:
                if place.passing:
                    memory.all_put(place)
                else:
                    memory.read(place, HWC, "the end")
    memory.end()


#: Bytes (memory, start, end), and the data in them.
_Source = tuple[tuple[MemoryId, int, int], tuple[Range, ...]]


@dataclass(slots=True)
class _Memory(Held):
    """Contents of all memories while layers run.

    layer: the last layer that ran. ahead: the constants that it loads for the next layer. inputs:
    sources of the inputs that its last part loaded in one piece.
    """

    layer: LayerStep | None = None
    ahead: WeightPrefetch | None = None
    inputs: dict[str, _Source] = field(default_factory=dict)

    def end(self) -> None:
        """Check that no transfer is in flight."""
        for transfer in self.flying:
            raise bug(f"{transfer.block} is never waited for")
        if self.ahead is not None:
            raise bug("constants are loaded after the last layer")

    def keep_states(self, operation: EndStates) -> None:
        """Copy new state to its blocks, and check that all state is there at the end."""
        for state in operation.states:
            if state.copied:
                self.read(state.left, HWC, f"the copy of state '{state.name}'")
                self.take(memory_of(state.place), range_of(state.at_end))
        for state in operation.states:
            self.read(state.at_end, HWC, f"the next inference, state '{state.name}',")

    # -- layers ------------------------------------------------------------------------------------

    def run(self, run: PartRun) -> None:
        """Run a part of a layer: its inputs, its buffers in L1, its output."""
        step, who, output = run.step, run.who, run.step.output
        if self.layer is not step:
            self.inputs = {}
        self.layer = step
        reads, writes = run.layer.accesses.l2(run.part)
        loaded = {access.operand for access in reads}
        for name, plan in zip(OPERANDS, step.inputs, strict=False):
            if plan.place.level != 1 and name not in loaded:
                raise bug(f"{who} never loads {plan.place.tensor.name}")
        copies = [one for one in executed(run.program, run.part) if isinstance(one, Copy)]
        skipped = run.layer.accesses.skipped_operands(copies)
        for access in reads:
            if access.operand in OPERANDS and access.operand in skipped:
                self._same_input(run, access)
                continue
            self._reads(run, access)
            self.inputs[access.operand] = self._source(access)
        self._use_l1(run)
        self._loaded_ahead(run)
        if output.place.layout != output.layout:
            raise bug(f"{who} writes its output as {layout_text(output.layout)}")
        for access in writes:
            written = Range(access.start, access.sure)
            for read in reads:
                if read.memory != access.memory or not written.meets(Range(read.start, read.sure)):
                    continue
                accesses, rolling = run.layer.accesses, output.place.passing
                if not rolling or not accesses.writes_behind(run.part, read.operand):
                    of = output.place.tensor.name, run.operand(read.operand).place.tensor.name
                    raise bug(f"{who} writes {of[0]} over {of[1]}, which it reads")
            if output.place.passing:
                end = _end_of_rows(run, access)
                if end < access.end:  # a length is rounded up
                    self.take(access.memory, Range(end, access.end))
                written = replace(
                    written,
                    end=end,
                    tensor=output.place.tensor.name,
                    layout=output.layout,
                    first=run.first_byte_written,
                )
            self.take(access.memory, written)
        if run.part == run.program.parts - 1:
            self._keep(run)
        self._loads_ahead(run, copies)

    def move(self, operation: MoveRows, step: LayerStep) -> None:
        """Move rows that are read again to the start of their rolling buffer."""
        place, end = operation.place, operation.source + operation.bytes
        who = f"layer {step.index} '{step.layer.op.name}'"
        if not place.passing or operation.source < place.offset:
            raise bug(f"{who} moves rows of a tensor that has no rolling buffer")
        moved = Range(operation.source, end, place.tensor.name, place.layout)
        self.move_rows(l2_memory(place.memory), place.offset, moved, who)

    def view(self, step: LayerStep) -> None:
        """Check that the bytes of a view's output are those of its inputs, and add its output."""
        who, place = f"layer {step.index} '{step.layer.op.name}'", step.output.place
        offsets = step.layer.byte_offsets
        if offsets is None:
            raise bug(f"{who} does more than to name bytes")
        for plan, offset in zip(step.inputs, offsets, strict=True):
            self.read(plan.place, plan.layout, who)
            start = plan.place.offset + offset
            if step.layer.op.holds_inputs:
                start = plan.place.offset - offset
            if start != place.offset or memory_of(plan.place) != memory_of(place):
                raise bug(f"{who} names {place.tensor.name}, whose bytes lie elsewhere")
        self.ranges[memory_of(place)].append(range_of(place))

    def report(self, report: Report) -> None:
        """Make the output of a layer available to its readers."""
        if self.layer is None or self.layer.index != report.layer:
            return  # of a view
        place = self.layer.output.place
        if report.level == 2 and not place.passing:  # a passing tensor was added by each part
            end = report.offset + report.bytes
            new = Range(report.offset, end, place.tensor.name, place.layout)
            self.take(l2_memory(report.memory), new)

    def _reads(self, run: PartRun, access: L2Access) -> None:
        """Check that the data which a part reads is at the address of the access."""
        if access.operand == "w":
            name = _fetched(run.step, run.step.parts[run.part], access.start)
            self.pieces(access.memory, Range(access.start, access.end, name), run.who)
            return
        plan = run.operand(access.operand)
        tensor, place = plan.place.tensor, plan.place
        if place.level == 2 and not place.passing:  # all of it is in L2, not only a stripe
            self.read(place, plan.layout, run.who)
        wanted = Range(access.start, access.sure, tensor.name, plan.layout)
        if place.passing:
            wanted = replace(wanted, first=run.first_byte_read(access.operand))
        elif run.has_own_channels(access.operand):
            first = place.offset + run.first_byte_read(access.operand)
            if place.level > 2:
                wanted = replace(wanted, below=first)
            elif first != access.start:
                raise bug(f"{run.who} reads {tensor.name} at other channels than its own")
        self.pieces(access.memory, wanted, run.who, tensor)

    def _use_l1(self, run: PartRun) -> None:
        """Invalidate L1 data that the layer's buffers overlap, except its resident inputs.

        The output of a layer of one tile is added as a whole, and so is one that stays in L1.
        """
        who, step, used = run.who, run.step, run.layer.used
        copies = [(name, copy) for name, found in used.items() for copy in found]
        for (first, bytes_), (second, others) in combinations(copies, 2):
            if bytes_.meets(others):
                raise bug(f"{who}: buffers {first} and {second} of L1 overlap")
        for mark in run.layer.accesses.keeps:
            if mark.text:  # without a text: data that the previous part has loaded
                self._finds(run, mark)
        operands = dict(zip(OPERANDS, step.inputs, strict=False))
        resident = {plan.place.tensor.name for plan in operands.values() if plan.place.level == 1}
        for name, plan in {**operands, "y": step.output}.items():
            if plan.place.level == 1 and used[name][0].start != plan.place.offset:
                raise bug(f"{who} does not have {plan.place.tensor.name} in L1 where it lies")
        left = [
            r
            for r in self.ranges.get(L1, ())
            if r.tensor in resident or not any(r.meets(buffer) for buffer in run.buffers())
        ]
        in_rows = run.program.loop is not None and step.output.place.level == 1
        if in_rows:
            self._writes_all(run)
        if (run.program.loop is None or in_rows) and run.program.parts == 1 and "y" in used:
            tensor, start = step.output.place.tensor, used["y"][0].start
            end = start + step.output.place.size_bytes
            left.append(Range(start, end, tensor.name, step.output.layout))
        self.ranges[L1] = left

    def _writes_all(self, run: PartRun) -> None:
        """Check that the tiles of a layer are all of an output that stays in L1."""
        place = run.step.output.place
        starts, ends = buffers_of_tiles(run.program, run.part, "y", MarkKind.WRITE)
        last = place.offset
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            if start != last:
                raise bug(f"{run.who} writes {place.tensor.name} at {start} of L1, after {last}")
            last = end
        if last != place.offset + place.size_bytes:
            raise bug(f"{run.who} writes {place.tensor.name} up to {last} of L1")

    def _same_input(self, run: PartRun, access: L2Access) -> None:
        """Check that the previous part has loaded an input that this part does not load."""
        before, now = self.inputs.get(access.operand), self._source(access)
        # Ranges are compared by identity: the same block fetched again is another range.
        if before is None or before[0] != now[0] or [*map(id, before[1])] != [*map(id, now[1])]:
            raise bug(f"{run.who} does not load its input, nor has the part before it")

    def _source(self, access: L2Access) -> _Source:
        """Return the bytes that an input is loaded from, with the data in them."""
        here = Range(access.start, access.end)
        there = tuple(r for r in self.ranges.get(access.memory, ()) if r.meets(here))
        return (access.memory, access.start, access.end), there

    def _loaded_ahead(self, run: PartRun) -> None:
        """Check that a weight prefetch brings the first constants that a part does not load."""
        coming, step = self.ahead, run.step
        self.ahead = None
        loads = any(c.operand == "w" for c in first_copies(run.program, run.part))
        weights = step.weights
        if coming is None and (loads or weights is None or step.block("w") is None):
            return
        if coming is None or weights is None or loads:
            raise bug(f"{run.who} does not load its constants, nor has a layer before it")
        part = step.parts[run.part]
        chunk = weights.chunks[part.chunk]
        first = chunk.tiles[0][0]
        memory, start, fetched = constants_of(step.index), chunk.offset, None
        if not weights.linked:
            memory, start = L2, part.weights or 0
            fetched = _fetched(step, part, start)
        source = (memory, start + first.offset, fetched)
        if (coming.memory, coming.source, coming.fetched) != source:
            raise bug(f"other constants than those of {run.who} are loaded ahead for it")
        start = int(buffers_of_tiles(run.program, run.part, "w")[0][0])
        if (coming.start, coming.size) != (start, first.size):
            raise bug(f"the constants of {run.who} are loaded ahead to where it has none")

    def _loads_ahead(self, run: PartRun, copies: Iterable[Copy]) -> None:
        """Check that the weight prefetch of a part overlaps no data in L1."""
        prefetches = [copy for copy in copies if copy.operand == AHEAD]
        if not prefetches:
            return
        if len(prefetches) > 1:
            raise bug(f"{run.who} loads constants ahead twice")
        coming = WeightPrefetch.of(run, prefetches[0])
        if not coming.memory.is_constants:
            held = self.at(coming.memory, coming.source)
            if held is None or held.tensor is None:
                raise bug(f"{run.who} loads constants ahead that are not in L2 yet")
            coming = replace(coming, fetched=held.tensor)
            there = Range(coming.source, coming.source + coming.size, coming.fetched)
            self.pieces(coming.memory, there, run.who)
        self.ahead = coming
        taken = Range(coming.start, coming.start + coming.size)
        if any(taken.meets(used) for used in (*run.buffers(), *self.ranges[L1])):
            raise bug(f"{run.who} loads constants ahead over what it has in L1")

    def _finds(self, run: PartRun, mark: Mark) -> None:
        """Check that the tensor of a mark is in L1 when a layer begins."""
        assert mark.address is not None
        (start, _), (size, _) = bounds(mark.address.offset), bounds(mark.bytes)
        held = self.at(L1, start)
        if held is None or (held.start, held.end) != (start, start + size):
            raise not_there(run.who, mark.text, L1, start)
        self.pieces(L1, Range(start, start + size, mark.text), run.who)
        for plan in run.step.inputs:
            if plan.place.tensor.name == mark.text and plan.place.level == 1:
                self.read(plan.place, plan.layout, run.who)

    def _keep(self, run: PartRun) -> None:
        """Keep the resident tensors of a layer in L1, and invalidate everything else there."""
        there = {(r.start, r.end, r.tensor): r for r in self.ranges[L1]}
        kept = []
        for place in run.step.kept:
            wanted = range_of(place)
            held = there.get((wanted.start, wanted.end, wanted.tensor))
            if place.level != 1 or held is None:
                raise bug(
                    f"{run.who} keeps {place.tensor.name} at {place.offset} of L{place.level}, "
                    "where it does not lie"
                )
            kept.append(held)
        self.ranges[L1] = kept


def _end_of_rows(run: PartRun, access: L2Access) -> int:
    """Return the end of the rows that a part writes to a rolling buffer."""
    report = run.step.parts[run.part].report
    end = sum(report) if report is not None else access.sure
    return end if access.sure <= end <= access.end else access.sure


def _fetched(step: LayerStep, part: PartPlan, start: int) -> str:
    """Return the name of the constants of a part that begin at ``start`` of L2."""
    weights = step.weights
    assert weights is not None
    return constants_name(weights.offset + weights.chunks[part.chunk].offset - start)
