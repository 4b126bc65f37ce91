"""What a decision costs: where its blocks lie, the steps of its layers, and its timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dory_core.errors import DoesNotFit
from dory_core.ir.layout import HWC
from dory_core.plan import Conversion, ExtTransfer, LayerStep, Place, StatePlan
from dory_core.plan.block_ids import BlockId, BlockKind
from dory_core.plan.blocks import Block, Packing, packing
from dory_core.plan.network import lower_network
from dory_core.plan.network_timeline import network_timeline
from dory_core.plan.timeline import NetworkTimeline
from dory_core.planning.decision import Decision, Residency
from dory_core.planning.layouts import conversions_before
from dory_core.planning.packing.bins import pack_bins
from dory_core.planning.packing.one_memory import MemoryPlan, plan_memory
from dory_core.planning.problem import BELOW, HOME, Problem
from dory_core.planning.sequence.build import build_sequence
from dory_core.planning.sequence.part_sequence import PartSequence, waits_before_prefetch
from dory_core.planning.sequence.prefetch import prefetch
from dory_core.planning.sequence.transfers import transfers
from dory_core.planning.states import plan_states
from dory_core.planning.steps import make_steps


@dataclass(frozen=True, slots=True)
class Candidate:
    """A network as it runs by a decision, before constants and L3 have their places.

    Attributes:
        decision: The decision.
        residency: The tiles and resident tensors of the layers.
        program: The sequence of parts, with early fetches.
        chunks: Bytes of each layer's groups of constants that are fetched.
        memory: The packing of home as one memory, and what others would have cost.
        packings: The packing of each memory of home.
        places: The places of the blocks of home.
        below: Tensors in the level below, which have no offset yet.
        steps: The layers without their constants.
        final: Conversions of network outputs.
        states: Where state is found and left.
        timeline: The timeline of one inference.
        slack: Cycles for which a block from L3 is there before its first use, by block; below
            zero where the cores wait for it.
        static_bytes: Bytes of constants that are linked into home.
        straddles: As in the memory map.
    """

    decision: Decision
    residency: Residency
    program: PartSequence
    chunks: tuple[tuple[int, ...], ...]
    memory: MemoryPlan
    packings: tuple[Packing, ...]
    places: Mapping[BlockId, Place]
    below: Mapping[str, Place]
    steps: tuple[LayerStep, ...]
    final: tuple[Conversion, ...]
    states: tuple[StatePlan, ...]
    timeline: NetworkTimeline
    slack: Mapping[BlockId, float]
    static_bytes: int
    straddles: str = ""

    @property
    def cycles(self) -> int:
        """Cycles of one inference."""
        return self.timeline.cycles

    @property
    def peak(self) -> int:
        """Bytes of the first memory of home for blocks."""
        return self.packings[0].peak_bytes

    @property
    def home_bytes(self) -> int:
        """Bytes of home for blocks and linked constants."""
        return self.static_bytes + sum(packed.peak_bytes for packed in self.packings)


def evaluate(problem: Problem, decision: Decision) -> Candidate:
    """Return the costs of a decision: a complete candidate.

    Whether everything fits is for the caller to see: where the blocks of a resident network do
    not, the candidate tells how much they need.

    Raises:
        DoesNotFit: A part of a layer, or the blocks of a streamed network.
        NotSupported: Neither the DMA nor the cores can make a copy.
    """
    network = problem.network
    residency = problem.residency(decision)
    chunks = _chunks(problem, decision, residency)
    program = build_sequence(network, decision, chunks.__getitem__)
    enough = problem.room if decision.streamed else 0
    memory = plan_memory(tuple(program.requests.values()), problem.alignment, enough)
    if decision.streamed and memory.chosen.peak_bytes > problem.room:
        peak = memory.chosen.peak_bytes
        raise DoesNotFit(f"blocks take {peak} B of L2, {problem.room} B are available", "", peak)
    static = problem.static_bytes(decision, residency)
    packings, straddles = _pack(problem, program, memory, static)
    if len(packings) == 1 and decision.arena_bytes:
        arena = max(memory.chosen.peak_bytes, decision.arena_bytes)
        program, offsets = prefetch(program, packings[0].blocks, arena, problem.alignment)
        wanted = program.requests.values()
        packings = (packing(wanted, offsets, problem.alignment, packings[0].method),)
    users = {n: user for n, (user, _) in decision.prefetches.items()}
    program = waits_before_prefetch(program, users)
    places = {
        block.id: _place(problem, block, number)
        for number, packed in enumerate(packings)
        for block in packed.blocks
    }
    forms = network.flow.forms
    below = {n: Place(forms[n].tensor, BELOW, 0, 0, forms[n].layout) for n in decision.in_l3}
    in_stripes = below | {n: passing(problem, n, places) for n in decision.fused}
    steps = make_steps(
        network, program, residency, places, in_stripes, problem.ctx.memory, decision
    )
    final = conversions_before(network.flow, len(steps), places, problem.ctx.memory)
    states = plan_states(problem, places)
    timeline, slack = _timeline(problem, program, places, steps, final, states)
    return Candidate(
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
        states=states,
        timeline=timeline,
        slack=slack,
        static_bytes=static,
        straddles=straddles,
    )


def _chunks(
    problem: Problem, decision: Decision, residency: Residency
) -> tuple[tuple[int, ...], ...]:
    """Return the bytes of each layer's groups of constants that are fetched."""
    numbers = range(len(residency.tiled))
    if not decision.streamed:
        return ((),) * len(numbers)
    return tuple(map(problem.fetched, numbers, residency.tiled, decision.splits))


def _pack(
    problem: Problem, program: PartSequence, memory: MemoryPlan, static: int
) -> tuple[tuple[Packing, ...], str]:
    """Return the packing of each memory of home, and why there is none that keeps to them.

    Several memories are used only when the first is too small.
    """
    bins = problem.bins(static)
    if len(bins) > 1 and static > problem.first_memory:
        why = f"constants of {static} B lie in {bins[0].name}, which has {problem.first_memory}"
        return (memory.chosen,), why
    if len(bins) == 1 or memory.chosen.peak_bytes <= bins[0].usable_bytes:
        return (memory.chosen,), ""
    try:
        packings = pack_bins(tuple(program.requests.values()), bins)
    except DoesNotFit as error:
        return (memory.chosen,), error.message
    return tuple(packings[b.name] for b in bins), ""


def _place(problem: Problem, block: Block, memory: int) -> Place:
    """Return the place of a block of home; of constants that of any tensor."""
    form = problem.network.flow.forms.get(block.id.tensor)
    if form is None or not block.id.is_whole:
        return Place(problem.network.layers[0].output, HOME, block.offset, memory, HWC)
    return Place(form.tensor, HOME, block.offset, memory, form.layout)


def passing(problem: Problem, name: str, places: Mapping[BlockId, Place]) -> Place:
    """Return the place of a tensor that is never whole in home: one of a fused chain."""
    form = problem.network.flow.forms[name]
    first = places[BlockId(name, BlockKind.ROLLING)]
    return replace(first, tensor=form.tensor, layout=form.layout, passing=True)


def _timeline(
    problem: Problem,
    program: PartSequence,
    places: Mapping[BlockId, Place],
    steps: Sequence[LayerStep],
    final: tuple[Conversion, ...],
    states: tuple[StatePlan, ...],
) -> tuple[NetworkTimeline, dict[BlockId, float]]:
    """Return the timeline of a network, and the slack of its blocks from L3."""
    slack: dict[BlockId, float] = {}

    def arrived(transfer: ExtTransfer, cycles: float) -> None:
        slack[transfer.block] = min(cycles, slack.get(transfer.block, cycles))

    found = transfers(problem.link, program, places, lambda _: 0)
    operations = lower_network(steps, found, final=final, states=states)
    link = problem.link if found else None
    once = problem.ctx.memory.network_cycles
    return network_timeline(operations, steps, link, arrived, problem.moving, once), slack
