"""Where state is found and left, once blocks have places."""

from __future__ import annotations

from collections.abc import Mapping

from dory_core.errors import DoryError
from dory_core.plan import Place, StatePlan
from dory_core.plan.block_ids import BlockId, BlockKind
from dory_core.planning.layouts import LayoutPlan
from dory_core.planning.problem import Problem


def ends_of(flow: LayoutPlan, places: Mapping[BlockId, Place]) -> dict[str, Place]:
    """Return the places of what outlives the last layer and lies in home, by name.

    Args:
        flow: The forms of all tensors.
        places: Of the blocks of home.
    """
    return {
        name: places[block]
        for name in flow.sinks
        for block in (BlockId(name), BlockId(name, BlockKind.BACK))
        if block in places
    }


def plan_states(problem: Problem, places: Mapping[BlockId, Place]) -> tuple[StatePlan, ...]:
    """Return where state is found and left; first what is copied from elsewhere.

    A copy that moves bytes within its block comes last: others may read what it writes over.

    Args:
        problem: The network.
        places: Of the blocks of home.
    """
    flow = problem.network.flow
    ends = ends_of(flow, places)
    names = (state.name for state in problem.tiling.graph.states)
    found = [
        StatePlan(name, places[BlockId(read)], ends[left], initial)
        for name, (read, left), initial in zip(
            names, flow.states, problem.initial_state, strict=True
        )
    ]
    for state in found:
        if state.place.size_bytes != state.left.size_bytes:
            raise DoryError(
                f"state '{state.name}' is read as {state.place.size_bytes} B and left as"
                f" {state.left.size_bytes} B",
                "a pass gave its tensors different storage: this is a bug in it",
            )
    return tuple(sorted(found, key=lambda state: state.overlaps))
