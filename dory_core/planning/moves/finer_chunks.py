"""Constants are fetched in chunks of half the size, for which L2 has a place earlier."""

from __future__ import annotations

from collections.abc import Iterator

from dory_core.planning.cutting import ChunkBytes, least_groups, with_split
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.moves.early_fetch import within_more
from dory_core.planning.moves.l1_residency import in_other_parts
from dory_core.planning.problem import Problem


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with smaller chunks."""
    if not candidate.decision.streamed or problem.link is None:
        return
    decision = candidate.decision.in_parts()
    large = ChunkBytes.of(problem.link).finer.large
    for n, groups in enumerate(least_groups(problem, large)):
        split = decision.splits[n]
        if not split.takes_turns and split.groups < groups:
            decision = with_split(problem, decision, n, split._replace(groups=groups))
    if decision.splits == candidate.decision.splits:
        return
    decision = in_other_parts(problem, candidate, decision)
    yield from within_more(problem, decision, candidate.peak)
