"""Ways to run a network: what is streamed, what stays in L1, where every block of L2 lies.

A network that fits is the way in which every layer has one part and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

from dory_core.errors import DoesNotFit
from dory_core.hardware.memories import Link
from dory_core.hardware.target import TargetContext
from dory_core.ir.layout import HWC
from dory_core.ir.packing import pack
from dory_core.plan import Conversion, ExtTransfer, LayerStep, Place, initial_table_bytes
from dory_core.plan.blocks import Bin, Block, Packing, align_up, level_alignment, packing
from dory_core.plan.budgets import Budgets, memory_budgets
from dory_core.plan.network import lower_network
from dory_core.plan.network_timeline import network_timeline
from dory_core.plan.timeline import NetworkTimeline
from dory_core.planning.ahead import LONG_WAIT, LoadsAhead, plan_ahead
from dory_core.planning.bins import pack_bins
from dory_core.planning.chains import ChainProblem, chained, chained_alike
from dory_core.planning.constants import chunk_sizes
from dory_core.planning.fit import ChunkBytes, Fitted, fit_network, fixed_tensors
from dory_core.planning.joined import (
    can_be_joined,
    fetched_earlier,
    only_of,
    unless_waiting,
    with_two_copies,
)
from dory_core.planning.layouts import plan_layouts
from dory_core.planning.packing import MemoryPlan, plan_memory
from dory_core.planning.prefetch import prefetch
from dory_core.planning.residence import MOVED, Residency, plan_residency
from dory_core.planning.sequence import Decision, Fetch, PartSequence, Sequencer, Store
from dory_core.planning.splits import Splits
from dory_core.planning.steps import (
    JoinedStep,
    conversions_before,
    join_steps,
    make_steps,
    schedules_of,
)
from dory_core.planning.views import Views, plan_views
from dory_core.schedule.loops import Schedule
from dory_core.schedule.moves import weight_unit
from dory_core.tiling.outer import UNCUT, Cuts, Split
from dory_core.tiling.parts import Tilings, split_is_whole
from dory_core.tiling.tiled import TiledLayer

#: Level of whole tensors, and that from which networks are streamed for which it is too small.
HOME = 2
BELOW = HOME + 1


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run a network.

    program: with early fetches. chunks: bytes of each layer's groups of constants that are fetched.
    packings: of each memory of home. places: of its blocks. below: of tensors in the level below,
    which are not placed there yet. steps: without constants. straddles: see MemoryMap.
    """

    decision: Decision
    residency: Residency
    program: PartSequence
    chunks: tuple[tuple[int, ...], ...]
    memory: MemoryPlan
    packings: tuple[Packing, ...]
    places: Mapping[str, Place]
    below: Mapping[str, Place]
    steps: tuple[LayerStep, ...]
    final: tuple[Conversion, ...]
    timeline: NetworkTimeline
    straddles: str = ""

    @property
    def peak(self) -> int:
        """Bytes of the first memory of home."""
        return self.packings[0].peak_bytes


#: Waiting for the level below is much when it takes more than such a fraction of all cycles.
_MUCH = 50
#: How often it is looked which parts of layers to join.
_JOININGS = 4


def _add(waits: dict[str, float], transfer: ExtTransfer, cycles: float) -> None:
    waits[transfer.name] = waits.get(transfer.name, 0.0) + cycles


@dataclass(frozen=True, slots=True)
class Problem:
    """What all ways of a network share."""

    tiling: Tilings
    ctx: TargetContext
    budgets: Budgets
    network: Sequencer
    tiled: tuple[TiledLayer, ...]

    @classmethod
    def of(
        cls, tiling: Tilings, ctx: TargetContext, budgets: Budgets, views: bool = True
    ) -> Problem:
        """Return the problem of a network within budgets. views: tensors may be slices of others,
        so that nothing copies them."""
        outer = [link for link in ctx.memory.links if link.upper == HOME]
        unit = max((link.alignment_bytes for link in outer), default=1)
        flow = plan_layouts(tiling.graph, [(one.layer, one.traits) for one in tiling.best])
        alignment = level_alignment(ctx.memory, HOME)
        named = plan_views(tiling.graph.layers, flow, alignment) if views else Views()
        tiled = tuple(
            one.as_view() if n in named.layers else one for n, one in enumerate(tiling.best)
        )
        cuts = tuple(
            UNCUT if one.view else Cuts.of(one.layer, one.traits, one.in_place, unit)
            for one in tiled
        )
        network = Sequencer(tiling.graph, flow, cuts, named, unit)
        return cls(tiling, ctx, budgets, network, tiled)

    def part(self, n: int, split: Split) -> TiledLayer:
        """Return the tiling of the largest part of a layer."""
        if split_is_whole(split):
            return self.tiled[n]
        return self.tiling.part(n, split, self.network.stripes_in_chain(n, split))

    @property
    def alignment(self) -> int:
        """Blocks of home start on multiples of it."""
        return level_alignment(self.ctx.memory, HOME)

    @property
    def link(self) -> Link | None:
        """The link between home and the level below."""
        return next((link for link in self.ctx.memory.links if link.upper == HOME), None)

    @property
    def streams(self) -> bool:
        """Whether data that home has no room for can be streamed from the level below."""
        hierarchy = self.ctx.memory
        if self.link is None or hierarchy.constants_level == BELOW:
            return False
        return not all(memory.mapped for memory in hierarchy.level(BELOW).memories)

    @property
    def linked_elsewhere(self) -> bool:
        """Whether constants lie in a level of their own, from where they are loaded into L1."""
        return self.ctx.memory.constants_level != HOME

    @property
    def room(self) -> int:
        """Bytes of the first memory of home: the one that the DMA of the level below reaches."""
        return memory_budgets(self.ctx.memory, HOME, self.budgets.bytes[HOME])[0]

    def bins(self, static: int) -> tuple[Bin, ...]:
        """Return the memories of home; static: bytes of constants that are linked into it."""
        memory = self.ctx.memory
        sizes = list(memory_budgets(memory, HOME, self.budgets.bytes[HOME]))
        sizes[0] = max(0, sizes[0] - static)
        links = max(link.alignment_bytes for link in memory.links if link.upper <= HOME)
        return tuple(
            Bin(m.name, size, max(m.alignment_bytes, links), m.holds)
            for m, size in zip(memory.level(HOME).memories, sizes, strict=True)
        )

    # -- ways ---------------------------------------------------------------------------------

    def constants(self, n: int, tiled: TiledLayer, split: Split) -> tuple[int, ...]:
        """Return the bytes of the groups of constants of a layer that is tiled and cut so."""
        return chunk_sizes(self.network.layers[n], tiled, split, weight_unit(self.ctx.memory))

    def fetched(self, n: int, tiled: TiledLayer, split: Split) -> tuple[int, ...]:
        """Return those that pass through home when the network is streamed."""
        return () if self.linked_elsewhere else self.constants(n, tiled, split)

    @property
    def initial_state(self) -> tuple[bytes, ...]:
        """What each state is in front of the first inference, in storage form."""
        graph = self.tiling.graph
        return tuple(
            pack(state.initial.values.transpose(1, 2, 0), graph.tensors[state.read])
            for state in graph.states
        )

    @property
    def state_tables(self) -> int:
        """Bytes of the tables of initial values of state."""
        return sum(map(initial_table_bytes, self.initial_state))

    @property
    def linked_home(self) -> int:
        """Bytes of constants in home that are never fetched: the tables of state."""
        return 0 if self.linked_elsewhere else self.state_tables

    def least_static(self) -> int:
        """Return the least bytes of constants that are linked into home when all fits."""
        if self.linked_elsewhere:
            return 0
        return self.state_tables + sum(
            min(sum(self.constants(n, tiled, cuts.whole)) for tiled in one.tilings)
            for n, (one, cuts) in enumerate(zip(self.tiling.layers, self.network.cuts, strict=True))
        )

    def resident(self) -> Way:
        """Return the way without transfers, whether it fits or not.

        A layer whose output stays in L1 runs in one tile. Where it waits long for its constants,
        several tiles with an output that is stored are tried.
        """
        way = self._resident()
        moved = frozenset[str]()
        for name in self._outputs_of_waiting(way):
            other = self._resident(moved | {name})
            less = other.timeline.cycles < way.timeline.cycles
            if less and other.peak <= way.peak and self._static(other) <= self._static(way):
                way, moved = other, moved | {name}
        return way

    def _resident(self, moved: Collection[str] = ()) -> Way:
        """Return the way without transfers. moved: tensors that do not stay in L1."""
        decision = Decision(Splits.of(cuts.whole for cuts in self.network.cuts))
        residency = self._residency(decision, self.tiled, moved)
        decision = replace(decision, nearer=residency.tensors)
        static = self._constants_home(residency, decision.splits)
        return self._way(decision, residency, ((),) * len(residency.tiled), static)

    def _static(self, way: Way) -> int:
        """Return the bytes of constants that are linked into home when none are fetched."""
        return self._constants_home(way.residency, way.decision.splits)

    def _constants_home(self, residency: Residency, splits: Splits) -> int:
        if self.linked_elsewhere:
            return 0
        sizes = map(self.constants, range(len(residency.tiled)), residency.tiled, splits)
        return self.linked_home + sum(map(sum, sizes))

    def _outputs_of_waiting(self, way: Way) -> list[str]:
        """Return the outputs that stay in L1 of layers that wait long for constants."""
        stays, limit = way.residency.stays, way.timeline.cycles / LONG_WAIT
        return [
            self.network.flow.writes[n]
            for n, step in enumerate(way.steps)
            if n > 0
            and stays[n].leaves
            and way.residency.tiled[n].schedule.has_weights
            and not step.loaded_ahead
            and step.estimate.stall_cycles > limit
        ]

    def streamed(self) -> Way:
        """Return the best way to stream the network. Raises: DoesNotFit.

        Where the cores wait long for the level below, smaller chunks are tried.
        """
        assert self.link is not None
        bounds = ChunkBytes.of(self.link)
        way = self._streamed(bounds)
        waiting = sum(way.timeline.stalls)
        largest = max((size for sizes in way.chunks for size in sizes), default=0)
        if waiting * _MUCH <= way.timeline.cycles or largest <= bounds.finer.large:
            return way
        try:
            other = self._streamed(bounds.finer, way.decision)
        except DoesNotFit:
            return way
        better = other.timeline.cycles < way.timeline.cycles and other.peak <= way.peak
        return other if better else way

    def _streamed(self, bounds: ChunkBytes, like: Decision | None = None) -> Way:
        """Return a way to stream the network. bounds: of chunks. like: with layers that take turns
        where this one has some, and without where it has none. Raises: DoesNotFit."""
        room = max(0, self.room - self.linked_home)
        fitted = fit_network(self.network, self.part, self.fetched, room, self.alignment, bounds)
        if like is not None and like.passing:
            fitted = self._in_chains(fitted, room, like) or fitted
        way = self._of_fitted(fitted, room)
        if like is None and sum(way.timeline.stalls) * _MUCH > way.timeline.cycles:
            room = min(room, way.peak)
            taking_turns = self._in_chains(fitted, room, way)
            other = way if taking_turns is None else self._of_fitted(taking_turns, room)
            way = min(way, other, key=lambda one: one.timeline.cycles)
        return self._joined(way)

    def _in_chains(self, fitted: Fitted, room: int, like: Way | Decision) -> Fitted | None:
        """Return a network that fits with layers that take turns; None where none should.

        like: how it runs without such layers, or a decision with the same chains.
        """
        network, link = self.network, self.link
        if not fitted.decision.in_l3 or link is None:
            return None

        def chunks(n: int, split: Split) -> tuple[int, ...]:
            return self.fetched(n, fitted.tiled[n], split)

        def build(decision: Decision) -> PartSequence:
            return network.build(decision, lambda n: chunks(n, decision.splits[n]))

        whole = [sum(chunks(n, cuts.whole)) for n, cuts in enumerate(network.cuts)]
        fixed = fixed_tensors(network) | set(network.flow.sinks)
        problem = ChainProblem(
            network, self.tiled, whole, build, room, self.alignment, link, frozenset(fixed)
        )
        if isinstance(like, Decision):
            decision = chained_alike(problem, fitted.decision, like)
        else:
            pairs = zip(like.steps, like.timeline.stalls, strict=False)
            alone = [step.estimate.cycles + waiting for step, waiting in pairs]
            decision = chained(problem, fitted.decision, alone)
        if decision is None:
            return None
        try:
            tiled = tuple(self.part(n, split) for n, split in enumerate(decision.splits))
        except DoesNotFit:
            return None  # a part with the rows that it has in common with another one
        sizes = tuple(map(self.fetched, range(len(tiled)), tiled, decision.splits))
        program = network.build(decision, sizes.__getitem__)
        memory = plan_memory(tuple(program.requests.values()), self.alignment)
        if memory.chosen.peak_bytes > room:
            return None
        return Fitted(decision, memory, tiled, sizes)

    def _of_fitted(self, fitted: Fitted, room: int) -> Way:
        """Return the best way to run a network that fits ``room`` bytes, without joined parts."""
        network, alignment = self.network, self.alignment
        # What the stack would have needed is free for fetching early: the peak stays below its own.
        arena = max(fitted.memory.chosen.peak_bytes, min(fitted.memory.stack_bytes, room))
        moved = Residency(fitted.tiled, (MOVED,) * len(fitted.tiled), frozenset())
        arena -= arena % alignment
        static = self.linked_home
        way = self._way(fitted.decision, moved, fitted.chunks, static, fitted.memory, arena)
        residency = self._residency(fitted.decision, fitted.tiled)
        if residency.stays == moved.stays:
            return way
        decision = replace(fitted.decision, nearer=residency.tensors)
        chunks = tuple(
            self.fetched(n, tiled, split)
            for n, (tiled, split) in enumerate(zip(residency.tiled, decision.splits, strict=True))
        )
        program = network.build(decision, chunks.__getitem__)
        wanted = tuple(program.requests.values())
        memory = plan_memory(wanted, alignment)
        if memory.chosen.peak_bytes > fitted.memory.chosen.peak_bytes:
            # Fewer blocks, none larger: they fit where they lay.
            offsets = {block.name: block.offset for block in fitted.memory.chosen.blocks}
            memory = replace(memory, chosen=packing(wanted, offsets, alignment, "as without"))
        other = self._way(decision, residency, chunks, static, memory, way.peak)
        better = other.timeline.cycles < way.timeline.cycles and other.peak <= way.peak
        return other if better else way

    def _residency(
        self, decision: Decision, tiled: Sequence[TiledLayer], moved: Collection[str] = ()
    ) -> Residency:
        """Return what stays in L1 of a network that is cut so. moved: tensors that do not."""
        network, flow = self.network, self.network.flow
        # What layers read and write that take turns.
        chained = [n for n, split in enumerate(decision.splits) if split.chain > 1]
        in_chains = {name for n in chained for name in (*flow.reads[n], flow.writes[n])}

        def in_one_tile(n: int) -> TiledLayer | None:
            return self.tiling.in_one_tile(n) if split_is_whole(decision.splits[n]) else None

        def parts(n: int, one: TiledLayer) -> tuple[Schedule, ...]:
            return schedules_of(network.layers[n], one, network.parts_of(n, decision.splits[n]))

        return plan_residency(
            network.layers,
            tiled,
            network.flow,
            self.ctx.memory,
            self.budgets.bytes[1],
            in_one_tile,
            parts,
            decision.in_l3 | decision.spilled | network.views.groups.keys() | in_chains | {*moved},
        )

    def _way(
        self,
        decision: Decision,
        residency: Residency,
        chunks: tuple[tuple[int, ...], ...],
        static: int,
        memory: MemoryPlan | None = None,
        arena: int = 0,
    ) -> Way:
        """Return the way of a decision.

        static: bytes of constants that are linked into home. memory: where blocks lie, when that is
        known. arena: bytes of home for fetching early.
        """
        network, flow, hierarchy = self.network, self.network.flow, self.ctx.memory
        program = network.build(decision, chunks.__getitem__)
        if memory is None:
            memory = plan_memory(tuple(program.requests.values()), self.alignment)
        packings, straddles = self._pack(program, memory, static)
        if len(packings) == 1:
            program, offsets = prefetch(program, packings[0].blocks, arena, self.alignment)
            wanted = program.requests.values()
            packings = (packing(wanted, offsets, self.alignment, packings[0].method),)
        places = {
            block.name: self._place(block, number)
            for number, packed in enumerate(packings)
            for block in packed.blocks
        }
        stored = {name: flow.forms[name] for name in decision.in_l3}
        below = {n: Place(form.tensor, BELOW, 0, 0, form.layout) for n, form in stored.items()}
        ahead = self._ahead(program, residency, chunks)
        residency = ahead.residency
        in_stripes = below | {
            name: replace(self._place_of(name, places[f"{name}.0"]), passing=True)
            for name in decision.passing
        }
        steps = make_steps(network, program, residency, places, in_stripes, hierarchy, ahead.loads)
        final = conversions_before(flow, len(steps), places, hierarchy)
        timeline = self._timeline(program, places, steps, final)
        return Way(
            decision=decision,
            residency=residency,
            program=program,
            chunks=chunks,
            memory=memory,
            packings=packings,
            places=places,
            below=below,
            steps=steps,
            final=final,
            timeline=timeline,
            straddles=straddles,
        )

    def _timeline(
        self,
        program: PartSequence,
        places: Mapping[str, Place],
        steps: Sequence[LayerStep],
        final: tuple[Conversion, ...],
        waited: Callable[[ExtTransfer, float], None] | None = None,
    ) -> NetworkTimeline:
        """Return the timeline of a network. waited: see ``network_timeline``."""
        transfers = self.transfers(program, places, lambda _: 0)
        operations = lower_network(steps, transfers, final=final)
        return network_timeline(operations, steps, self.link if transfers else None, waited)

    def _joined(self, way: Way) -> Way:
        """Return a way whose parts load first constants for the next ones where that is faster."""
        hierarchy, best = self.ctx.memory, way
        parts = [len(step.parts) for step in way.steps]
        doubled = with_two_copies(way.residency, parts, self.budgets.bytes[1])
        joined = can_be_joined(way.steps, doubled, hierarchy)
        known: dict[int, JoinedStep] = {}
        for _ in range(_JOININGS):
            if not joined:
                break
            residency = only_of(joined, doubled, way.residency)
            program, waits = fetched_earlier(way.program, joined), dict[str, float]()
            steps = join_steps(way.steps, residency, joined, hierarchy, known)
            timeline = self._timeline(program, way.places, steps, way.final, partial(_add, waits))
            if timeline.cycles < best.timeline.cycles:
                best = replace(
                    way, residency=residency, program=program, steps=steps, timeline=timeline
                )
            left = unless_waiting(joined, program, waits)
            if left == joined:
                break
            joined = left
        return best

    def _ahead(
        self, program: PartSequence, residency: Residency, chunks: tuple[tuple[int, ...], ...]
    ) -> LoadsAhead:
        """Return which layers load constants ahead. chunks: of each layer, those to be fetched."""
        whole = (first == last for first, last in zip(program.first, program.last, strict=True))
        linked = [n for n, one in enumerate(whole) if one and not chunks[n]]
        writes, budget = self.network.flow.writes, self.budgets.bytes[1]
        smaller = self.tiling.smaller
        return plan_ahead(residency, writes, linked, self.ctx.memory, budget, smaller)

    def _pack(
        self, program: PartSequence, memory: MemoryPlan, static: int
    ) -> tuple[tuple[Packing, ...], str]:
        """Return the packing of each memory of home, and why there is none that keeps to them.

        Several memories are used only when the first is too small.
        """
        bins = self.bins(static)
        if len(bins) > 1 and static > self.room:
            why = f"constants of {static} B lie in {bins[0].name}, which has {self.room}"
            return (memory.chosen,), why
        if len(bins) == 1 or memory.chosen.peak_bytes <= bins[0].usable_bytes:
            return (memory.chosen,), ""
        try:
            packings = pack_bins(tuple(program.requests.values()), bins)
        except DoesNotFit as error:
            return (memory.chosen,), error.message
        return tuple(packings[b.name] for b in bins), ""

    def _place_of(self, name: str, block: Place) -> Place:
        """Return the place of a tensor where a block lies."""
        form = self.network.flow.forms[name]
        return Place(form.tensor, HOME, block.offset, block.memory, form.layout)

    def _place(self, block: Block, memory: int) -> Place:
        """Return the place of a block of home; of constants that of any tensor."""
        form = self.network.flow.forms.get(block.name.removesuffix(".back"))
        if form is None:
            return Place(self.network.layers[0].output, HOME, block.offset, memory, HWC)
        return Place(form.tensor, HOME, block.offset, memory, form.layout)

    def transfers(
        self,
        program: PartSequence,
        places: Mapping[str, Place],
        source: Callable[[Fetch | Store], int],
    ) -> tuple[ExtTransfer, ...]:
        """Return all transfers in order of their start, with a ticket slot each.

        source: byte of the level below at which each one starts or ends.
        """
        events: list[Fetch | Store] = [*program.fetches, *program.stores]
        if not events:
            return ()
        link = self.link
        assert link is not None
        transfers = [
            piece
            for event in events
            for piece in _pieces(link, event, places[event.block].offset, source(event))
        ]
        transfers.sort(key=itemgetter(5, 4, 6))  # start, incoming, wait
        busy: list[int] = []  # per slot: the position at which its transfer is waited for
        placed = []
        for transfer in transfers:
            start, wait = transfer[5:]
            # A slot may be taken again at the position of its wait: waits come before starts, but a
            # transfer that blocks is waited for after others have started.
            slot = next((i for i, until in enumerate(busy) if until < start), len(busy))
            busy[slot : slot + 1] = [wait]
            placed.append(ExtTransfer(*transfer, slot))
        return tuple(placed)


#: Fields of an ExtTransfer but for its slot.
_Piece = tuple[str, int, int, int, bool, int, int]


def _pieces(link: Link, event: Fetch | Store, block: int, below: int) -> Iterator[_Piece]:
    """Yield a transfer in pieces that the link can move; one where it has no limit."""
    if isinstance(event, Fetch):
        incoming, here, wait = True, block, event.use
    else:
        incoming, here, wait = False, block + event.block_offset, event.wait
    # Blocks start on multiples of the unit, and what lies behind them up to one is nobody's.
    unit = link.alignment_bytes
    size = align_up(event.size, unit)
    assert here % unit == below % unit == 0, event
    most = link.piece_bytes or size
    for at in range(0, size, most):
        length = min(most, size - at)
        yield event.block, here + at, below + at, length, incoming, event.start, wait
