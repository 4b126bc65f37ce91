"""Independent check of what lies where when it is read. It shares no code with the planners.

The operations are executed on ranges of bytes: what is written ends whatever it overlaps, and what
is read must lie there, whole and in a layout that serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from dory_core.expr import evaluate
from dory_core.ir import Concat
from dory_core.ir.layout import HWC
from dory_core.ir.views import offsets_of
from dory_core.kernels.kernel import OPERANDS
from dory_core.plan import LayerStep, OperandPlan, PartPlan
from dory_core.plan.accesses import (
    L2Access,
    LayerAccesses,
    bounds,
    buffers_of_tiles,
    executed,
    first_copies,
)
from dory_core.plan.operations import (
    AHEAD,
    L1,
    BeginStates,
    Convert,
    Copy,
    Dead,
    EndStates,
    ExtStart,
    ExtWait,
    Inputs,
    LayerProgram,
    Mark,
    Outputs,
    Program,
    Report,
    RunPart,
    View,
    constants_of,
    is_constants,
    l2_name,
)


def verify_contents(program: Program, steps: Sequence[LayerStep]) -> None:
    """Raise DoryError (a bug) unless every part finds its inputs, and the end outputs and state.

    Tensors in L2 and L3 keep their bytes until something overlaps them, those in L1 until the next
    layer that does not find them there as its input. What a transfer brings is there when it is
    waited for, and until then its bytes in both levels belong to it. Tiles cover each output, and
    constants lie apart.
    """
    verify_tiles(steps)
    verify_constants(steps)
    memory = _Memory()
    layer_of = cache(lambda number: _Layer.of(steps[number], program.layers[number]))
    for place in program.given:
        memory.take(memory_of(place), range_of(place))
    for operation in program.operations:
        if isinstance(operation, ExtStart):
            memory.start(operation.transfer)
        elif isinstance(operation, ExtWait):
            memory.wait(operation.transfer)
        elif isinstance(operation, Inputs):
            for place in operation.places:
                if place.level == 2:
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
            memory.take(l2_name(block.memory), Range(block.offset, block.end))
        elif isinstance(operation, RunPart):
            memory.run(_Run(layer_of(operation.step), operation.part))
        elif isinstance(operation, View):
            memory.view(steps[operation.step])
        elif isinstance(operation, Report):
            memory.report(operation)
        elif isinstance(operation, Outputs):
            for place in operation.places:
                memory.read(place, HWC, "the end")
    memory.end()


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """A layer. accesses: of its operations. used: what its buffers take of L1, by name."""

    step: LayerStep
    accesses: LayerAccesses
    used: Mapping[str, Range]

    @classmethod
    def of(cls, step: LayerStep, program: LayerProgram) -> _Layer:
        """Return a layer with the program that it runs."""
        accesses = LayerAccesses(program)
        used = {name: Range(*bytes_) for name, bytes_ in accesses.used_l1.items()}
        return cls(step, accesses, used)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """A part of a layer."""

    layer: _Layer
    part: int

    @property
    def step(self) -> LayerStep:
        """The step of the layer."""
        return self.layer.step

    @property
    def program(self) -> LayerProgram:
        """The operations of the layer."""
        return self.layer.accesses.program

    @property
    def who(self) -> str:
        """The layer, for messages."""
        return f"layer {self.step.index} '{self.step.layer.op.name}'"

    def operand(self, name: str) -> OperandPlan:
        """Return how an operand lies and moves."""
        return self.step.output if name == "y" else self.step.inputs[OPERANDS.index(name)]


#: Bytes of a memory, and what lies there.
_Source = tuple[tuple[str, int, int], tuple[Range, ...]]


@dataclass(frozen=True, slots=True)
class _Coming:
    """Constants on their way into L1: memory and first byte of the source, target, bytes."""

    memory: str
    source: int
    start: int
    size: int


@dataclass(slots=True)
class _Memory(Held):
    """What lies where while layers run. layer: that ran last. ahead: what it loads for the next
    one, or for its own next part. inputs: what its last part has loaded in one piece, and from
    where."""

    layer: LayerStep | None = None
    ahead: _Coming | None = None
    inputs: dict[str, _Source] = field(default_factory=dict)

    def end(self) -> None:
        """Check that nothing is on its way."""
        for one in self.flying:
            raise bug(f"{one.name} is never waited for")
        if self.ahead is not None:
            raise bug("constants are loaded behind the last layer")

    def keep_states(self, operation: EndStates) -> None:
        """Copy new state to its places, and check that all of it lies there in the end."""
        for state in operation.states:
            if state.copied:
                self.read(state.left, HWC, f"the copy of state '{state.name}'")
                self.take(memory_of(state.place), range_of(state.at_end))
        for state in operation.states:
            self.read(state.at_end, HWC, f"the next inference, state '{state.name}',")

    # -- layers ------------------------------------------------------------------------------------

    def run(self, run: _Run) -> None:
        """Run a part of a layer: its inputs, its buffers in L1, its output."""
        step, who, output = run.step, run.who, run.step.output
        if self.layer is not step:
            self.inputs = {}
        self.layer = step
        reads, writes = run.layer.accesses.l2(run.part)
        found = {access.operand for access in reads}
        for name, plan in zip(OPERANDS, step.inputs, strict=False):
            if plan.place.level != 1 and name not in found:
                raise bug(f"{who} never loads {plan.place.tensor.name}")
        done = executed(run.program, run.part)
        copies = [(copy, tile) for copy, tile in done if isinstance(copy, Copy)]
        skipped = run.layer.accesses.skipped_operands(copy for copy, _ in copies)
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
            for other in reads:
                if other.memory == access.memory and written.meets(Range(other.start, other.sure)):
                    of = output.place.tensor.name, run.operand(other.operand).place.tensor.name
                    raise bug(f"{who} writes {of[0]} over {of[1]}, which it reads")
            if output.place.passing:  # also what of it was handed out before
                written = replace(written, tensor=output.place.tensor.name, layout=output.layout)
            self.take(access.memory, written)
        if run.part == run.program.parts - 1:
            self._keep(run)
        self._loads_ahead(run, copies)

    def view(self, step: LayerStep) -> None:
        """Let the output of a view lie where all of its bytes are those of its inputs."""
        who, place = f"layer {step.index} '{step.layer.op.name}'", step.output.place
        offsets = offsets_of(step.layer)
        if offsets is None:
            raise bug(f"{who} does more than to name bytes")
        for plan, offset in zip(step.inputs, offsets, strict=True):
            self.read(plan.place, plan.layout, who)
            start = plan.place.offset + offset
            if isinstance(step.layer.op, Concat):
                start = plan.place.offset - offset
            if start != place.offset or memory_of(plan.place) != memory_of(place):
                raise bug(f"{who} names {place.tensor.name}, whose bytes lie elsewhere")
        self.ranges[memory_of(place)].append(range_of(place))

    def report(self, report: Report) -> None:
        """Let the output that a layer has written be there for its readers."""
        if self.layer is None or self.layer.index != report.layer:
            return  # of a view
        place = self.layer.output.place
        if report.level == 2 and not place.passing:  # else each part says what is there
            end = report.offset + report.bytes
            new = Range(report.offset, end, place.tensor.name, place.layout)
            self.take(l2_name(report.memory), new)

    def _reads(self, run: _Run, access: L2Access) -> None:
        """Check that what a part reads of an operand lies where it reads it."""
        if access.operand == "w":
            name = _fetched(run.step, run.step.parts[run.part], access.start)
            self.pieces(access.memory, Range(access.start, access.end, name), run.who)
            return
        plan = run.operand(access.operand)
        tensor, place = plan.place.tensor, plan.place
        if place.level == 2 and not place.passing:  # the whole tensor is there, not a stripe
            self.read(place, plan.layout, run.who)
        wanted = Range(access.start, access.sure, tensor.name, plan.layout)
        self.pieces(access.memory, wanted, run.who, tensor)

    def _use_l1(self, run: _Run) -> None:
        """Let everything in L1 end that the layer's buffers overlap, but for the inputs that it
        finds there; its whole output lies there when that is one tile."""
        who, step, used = run.who, run.step, run.layer.used
        for (name, one), (other, two) in combinations(used.items(), 2):
            if one.meets(two):
                raise bug(f"{who}: buffers {name} and {other} of L1 overlap")
        for mark in run.layer.accesses.keeps:
            if mark.text:  # else what the part before has loaded
                self._finds(run, mark)
        operands = dict(zip(OPERANDS, step.inputs, strict=False))
        stay = {plan.place.tensor.name for plan in operands.values() if plan.place.level == 1}
        for name, plan in {**operands, "y": step.output}.items():
            if plan.place.level == 1 and used[name].start != plan.place.offset:
                raise bug(f"{who} does not have {plan.place.tensor.name} in L1 where it lies")
        left = [
            r
            for r in self.ranges.get(L1, ())
            if r.tensor in stay or not any(r.meets(one) for one in used.values())
        ]
        if run.program.loop is None and run.program.parts == 1 and "y" in used:
            tensor, start = step.output.place.tensor, used["y"].start
            end = start + step.output.place.size_bytes
            left.append(Range(start, end, tensor.name, step.output.layout))
        self.ranges[L1] = left

    def _same_input(self, run: _Run, access: L2Access) -> None:
        """Check that the part before has loaded what a part finds in L1."""
        before, now = self.inputs.get(access.operand), self._source(access)
        # A block of the same bytes that was fetched again is another one.
        if before is None or before[0] != now[0] or [*map(id, before[1])] != [*map(id, now[1])]:
            raise bug(f"{run.who} does not load its input, nor has the part before it")

    def _source(self, access: L2Access) -> _Source:
        """Return what an input is loaded from: the bytes, and what lies there."""
        here = Range(access.start, access.end)
        there = tuple(r for r in self.ranges.get(access.memory, ()) if r.meets(here))
        return (access.memory, access.start, access.end), there

    def _loaded_ahead(self, run: _Run) -> None:
        """Check that the constants which a part does not load first are on their way to it."""
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
        source = (constants_of(step.index), chunk.offset + first.offset)
        if not weights.linked:
            source = (L2, (part.weights or 0) + first.offset)
        if (coming.memory, coming.source) != source:
            raise bug(f"other constants than those of {run.who} are loaded ahead for it")
        start = int(buffers_of_tiles(run.program, run.part, "w")[0])
        if (coming.start, coming.size) != (start, first.size):
            raise bug(f"the constants of {run.who} are loaded ahead to where it has none")

    def _loads_ahead(self, run: _Run, copies: Sequence[tuple[Copy, int]]) -> None:
        """Check that what a part loads for a later one finds room beside what is in L1.

        copies: that the part makes, with the number of a tile that does.
        """
        found = [(copy, tile) for copy, tile in copies if copy.operand == AHEAD]
        if not found:
            return
        (copy, tile), *more = found
        own = copy.l2.operand == "w"  # for the layer's next part, not for another layer
        if more or (own and run.part == run.program.parts - 1):
            raise bug(f"{run.who} loads constants ahead twice, or for no part")
        coming = self.ahead = _coming(run, copy)
        taken = Range(coming.start, coming.start + coming.size)
        buffers = self._own_buffers(run, coming, tile) if own else _buffers(run)
        if any(taken.meets(other) for other in (*buffers, *self.ranges[L1])):
            raise bug(f"{run.who} loads constants ahead over what it has in L1")
        if own and not is_constants(coming.memory):
            following = run.step.parts[run.part + 1]
            name = _fetched(run.step, following, following.weights or 0)
            end = coming.source + coming.size
            self.pieces(coming.memory, Range(coming.source, end, name), run.who)

    def _own_buffers(self, run: _Run, coming: _Coming, tile: int) -> list[Range]:
        """Return what a part has in L1 from a tile on, and check that what comes for the next part
        goes to a copy of the buffer of constants."""
        buffer, rest = run.step.block("w"), buffers_of_tiles(run.program, run.part, "w")[tile:]
        assert buffer is not None
        if coming.start not in buffer.offsets or coming.size > buffer.bytes:
            raise bug(f"{run.who} loads constants ahead to outside of their buffer")
        copies = [Range(int(at), int(at) + buffer.bytes) for at in set(rest.tolist())]
        return [*_buffers(run, but="w"), *copies]

    def _finds(self, run: _Run, mark: Mark) -> None:
        """Check that what a mark keeps lies in L1 when a layer begins."""
        assert mark.address is not None
        (start, _), (size, _) = bounds(mark.address.offset), bounds(mark.bytes)
        found = self.at(L1, start)
        if found is None or (found.start, found.end) != (start, start + size):
            raise not_there(run.who, mark.text, L1, start)
        self.pieces(L1, Range(start, start + size, mark.text), run.who)
        for plan in run.step.inputs:
            if plan.place.tensor.name == mark.text and plan.place.level == 1:
                self.read(plan.place, plan.layout, run.who)

    def _keep(self, run: _Run) -> None:
        """Let what the layer keeps in L1 lie there, and nothing else."""
        there = {(r.start, r.end, r.tensor): r for r in self.ranges[L1]}
        kept = []
        for place in run.step.kept:
            wanted = range_of(place)
            found = there.get((wanted.start, wanted.end, wanted.tensor))
            if place.level != 1 or found is None:
                raise bug(
                    f"{run.who} keeps {place.tensor.name} at {place.offset} of L{place.level}, "
                    "where it does not lie"
                )
            kept.append(found)
        self.ranges[L1] = kept


def _buffers(run: _Run, but: str = "") -> list[Range]:
    """Return the buffers in L1 that a part uses, without one."""
    return [bytes_ for name, bytes_ in run.layer.used.items() if name != but]


def _coming(run: _Run, copy: Copy) -> _Coming:
    """Return what a copy of constants for later brings."""
    values = {"part": run.part}
    start, source = (int(evaluate(a.offset, values)) for a in (copy.l1, copy.l2))
    memory = copy.l2.memory
    if is_constants(memory) and copy.l2.operand == "w":
        memory = constants_of(run.step.index)
    return _Coming(memory, source, start, int(evaluate(copy.shape[0], values)))


def _fetched(step: LayerStep, part: PartPlan, start: int) -> str:
    """Return what a part's constants are called that begin at ``start`` of L2."""
    weights = step.weights
    assert weights is not None
    return constants_name(weights.offset + weights.chunks[part.chunk].offset - start)
