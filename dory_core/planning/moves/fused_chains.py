"""Fused chains: tensors between their layers never leave L2 and never lie there whole.

Where tensors are too large for L2, a chain computes its last output one stripe after the other;
rows that are read again stay in rolling buffers. Which layers form chains is a shortest path
(:mod:`dory_core.planning.chains.paths`). The timeline of the whole network decides whether they are
used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dory_core.errors import DoesNotFit
from dory_core.plan.blocks import Request, fullest_step, owners
from dory_core.planning.chains.paths import Chains
from dory_core.planning.cutting import moved_groups, with_in_l2
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.moves.l1_residency import in_other_parts
from dory_core.planning.packing.heuristics import best_fit, peak_of
from dory_core.planning.problem import Problem
from dory_core.planning.sequence.part_sequence import PartSequence
from dory_core.planning.sequence.peaks import LiveBytes

NAME = "fused-chains"
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
    together, live, known = chains.all, LiveBytes(problem), list[Decision]()
    apart = [one.apart for one in together]
    for edges in (apart, together):
        limit = problem.room
        for _ in range(_ATTEMPTS):
            path = chains.cheapest(edges, limit)
            if path is None or not any(chain.splits for chain in path):
                break
            found = chains.decision(path)
            if found in known:
                break
            program = _sequence(live, found)
            if program and live.packed(program, problem.room).chosen.peak_bytes <= problem.room:
                known.append(found)
                yield from _in_l2(candidate, live, found, program)
                break
            # Blocks that fit in sum found no places: paths of this size and above are of no use.
            limit = max(chain.bytes for chain in path) - 1


def _in_l2(
    candidate: Candidate, live: LiveBytes, found: Decision, program: PartSequence
) -> Iterator[Decision]:
    """Yield a decision with chains and with what L2 has room for again, the largest first."""
    problem = live.problem
    for names in moved_groups(problem.network, found):
        if _may_fit(problem, program, names):
            trial = with_in_l2(problem, found, names)
            other = _sequence(live, trial)
            if other is not None and _fits(live, other):
                found, program = trial, other
    memory = live.packed(program, problem.room)
    if memory.chosen.peak_bytes > problem.room:
        return
    decision = in_other_parts(problem, candidate, found)
    for arena in (problem.room - problem.room % problem.alignment, 0):
        yield replace(decision, arena_bytes=arena)


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


def _sequence(live: LiveBytes, decision: Decision) -> PartSequence | None:
    """Return the sequence of a decision; None where a part has no tiles."""
    try:
        return live.sequence(decision)
    except DoesNotFit:
        return None


def _fits(live: LiveBytes, program: PartSequence) -> bool:
    """Return True when blocks find places at once, without a search for them."""
    room, unit = live.problem.room, live.problem.alignment
    if live.fullest(program) > room:
        return False
    requests = owners(tuple(program.requests.values()))
    return peak_of(requests, best_fit(requests, unit, room), unit) <= room
