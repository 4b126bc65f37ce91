"""Fused chains: tensors between their layers never leave L2 and never lie there whole.

Where tensors are too large for L2, a chain computes its last output one stripe after the other;
rows that are read again stay in rolling buffers. Which layers form chains is a shortest path
(:mod:`dory_core.planning.chains`). The timeline of the whole network decides whether they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dory_core.errors import DoesNotFit
from dory_core.plan.blocks import Request, fullest_step, owners
from dory_core.planning.chains import Chains
from dory_core.planning.cutting import moved_groups, with_in_l2
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate, early_arena
from dory_core.planning.heuristics import best_fit, peak_of
from dory_core.planning.moves.l1_residency import in_other_parts
from dory_core.planning.packing import MemoryPlan, plan_memory
from dory_core.planning.part_sequence import PartSequence
from dory_core.planning.problem import Chunks, Problem
from dory_core.planning.sequence import build_sequence

NAME = "fused-chains"
#: Parts of L2 for which chains are searched: stripes that leave room may let more tensors stay.
_ROOMS = (1.0, 15 / 16)
#: Paths that are tried where the blocks of the fastest one find no places.
_ATTEMPTS = 8


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield decisions with fused chains where tensors between layers are in L3, and all fits.

    Rolling buffers that lie in each other leave room for other tensors, or for longer chains: the
    chains are searched without and with it.
    """
    decision = candidate.decision
    if not decision.in_l3 or problem.link is None:
        return
    pairs = zip(candidate.steps, candidate.timeline.stalls, strict=False)
    single = [step.estimate.cycles + waits for step, waits in pairs]
    chains = Chains(problem, decision, single, problem.room)
    together, chunks, known = chains.all, problem.chunks(), list[Decision]()
    apart = [one.apart for one in together]
    for edges, fraction in (*((apart, one) for one in _ROOMS), (together, 1.0)):
        limit = int(problem.room * fraction)
        for _ in range(_ATTEMPTS):
            path = chains.cheapest(edges, limit)
            if path is None or not any(chain.splits for chain in path):
                break
            found = chains.decision(path)
            if found in known:
                break
            memory = _memory(problem, chunks, found)
            if memory is not None and memory.chosen.peak_bytes <= problem.room:
                known.append(found)
                yield from _in_l2(problem, candidate, chunks, found)
                break
            # Blocks that fit in sum found no places: paths of this size and above are of no use.
            limit = max(chain.bytes for chain in path) - 1


def _in_l2(
    problem: Problem, candidate: Candidate, chunks: Chunks, found: Decision
) -> Iterator[Decision]:
    """Yield a decision with chains and with what L2 has room for again, the largest first."""
    program = _sequence(problem, chunks, found)
    for names in moved_groups(problem.network, found):
        if program is None or not _may_fit(problem, program, names):
            continue
        trial = with_in_l2(problem, found, names)
        if _fits(problem, chunks, trial):
            found, program = trial, _sequence(problem, chunks, trial)
    memory = _memory(problem, chunks, found)
    if memory is None or memory.chosen.peak_bytes > problem.room:
        return
    for arena in dict.fromkeys((early_arena(problem, memory, problem.room), 0)):
        yield in_other_parts(problem, candidate, replace(found, arena_bytes=arena))


def _may_fit(problem: Problem, program: PartSequence, names: Sequence[str]) -> bool:
    """Return False when whole tensors are too large next to what else is live.

    Args:
        problem: The network.
        program: Its sequence without these tensors in L2.
        names: The tensors.
    """
    network = problem.network
    live = [one for one in owners(tuple(program.requests.values())) if one.id.tensor not in names]
    for name in names:
        users = network.layers_of(name)
        first, last = min(program.first[n] for n in users), max(program.last[n] for n in users)
        live.append(Request(network.wholes[name], network.sizes[name], first, last))
    return fullest_step(live, problem.alignment)[1] <= problem.room


def _sequence(problem: Problem, chunks: Chunks, decision: Decision) -> PartSequence | None:
    """Return the sequence of a decision; None where a part has no tiles."""
    splits = decision.splits
    try:
        return build_sequence(problem.network, decision, lambda n: chunks(n, splits[n], splits[n]))
    except DoesNotFit:
        return None


def _memory(problem: Problem, chunks: Chunks, decision: Decision) -> MemoryPlan | None:
    """Return the packing of a decision; None where a part has no tiles."""
    program = _sequence(problem, chunks, decision)
    if program is None:
        return None
    return plan_memory(tuple(program.requests.values()), problem.alignment, problem.room)


def _fits(problem: Problem, chunks: Chunks, decision: Decision) -> bool:
    """Return True when the blocks of a decision find places at once, without a search for them."""
    program, unit = _sequence(problem, chunks, decision), problem.alignment
    if program is None:
        return False
    requests = owners(tuple(program.requests.values()))
    if fullest_step(requests, unit)[1] > problem.room:
        return False
    offsets = best_fit(requests, unit, problem.room)
    return peak_of(requests, offsets, unit) <= problem.room
