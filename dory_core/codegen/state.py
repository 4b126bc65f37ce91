"""State of a network as C: its initial values, and what is copied when an inference ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dory_core.codegen.body import packed
from dory_core.codegen.cexpr import INDENT
from dory_core.codegen.network import place_address
from dory_core.plan import Plan, StatePlan
from dory_core.plan.moving import Moving


def state_parts(plan: Plan) -> str:
    """Return {memory, offset, bytes} of each state."""
    places = (state.place for state in plan.states)
    return "{" + ", ".join(f"{{{p.memory}u, {p.offset}u, {p.size_bytes}u}}" for p in places) + "}"


def table_rows(data: bytes) -> Iterator[str]:
    """Yield the lines of a table of bytes."""
    return packed([str(byte) for byte in data])


def initial_lines(state: StatePlan, number: int, cores: int) -> Iterator[str]:
    """Yield the statement that gives a state its initial values."""
    where, size = place_address(state.place), state.place.size_bytes
    if state.table_bytes:
        yield f"{'copy_bytes' if cores > 1 else 'memcpy'}({where}, initial_{number}, {size});"
    else:
        yield f"{'fill_bytes' if cores > 1 else 'memset'}({where}, {state.initial[0]}, {size});"


def is_filled(plan: Plan) -> bool:
    """Return True when several cores fill a state with a byte."""
    return plan.cores > 1 and any(not state.table_bytes for state in plan.states)


def through_l1(plan: Plan) -> bool:
    """Return True when the DMA moves what a state is next to its place."""
    moved = any(state.copied for state in plan.states)
    return moved and Moving(plan.dma, plan.cores).by_dma and plan.levels[0].used > 0


def kept_lines(plan: Plan) -> Iterator[str]:
    """Yield the statements that copy what states are next to their places."""
    copied = [state for state in plan.states if state.copied]
    if through_l1(plan):
        yield "if (dory_core_id() == 0) {"
        for state in copied:
            yield from (f"{INDENT}move_bytes(io->l1, {piece});" for piece in _pieces(plan, state))
        yield "}"
        return
    for number, state in enumerate(copied):
        target, source = place_address(state.place), place_address(state.left)
        size = state.place.size_bytes
        if not state.overlaps:
            yield f"{'copy_bytes' if plan.cores > 1 else 'memcpy'}({target}, {source}, {size});"
        elif plan.cores == 1:
            yield f"memmove({target}, {source}, {size});"
        else:
            if number:
                yield "dory_barrier(); /* others read what this writes over */"
            yield "if (dory_core_id() == 0) {"
            yield f"{INDENT}memmove({target}, {source}, {size});"
            yield "}"


def _pieces(plan: Plan, state: StatePlan) -> Iterator[str]:
    """Yield target, source and bytes of pieces for L1; none writes what a later one reads."""
    size, most = state.place.size_bytes, plan.levels[0].used
    starts = list(range(0, size, most))
    if state.place.offset > state.left.offset:
        starts.reverse()
    for start in starts:
        target, source = (
            place_address(replace(place, offset=place.offset + start))
            for place in (state.place, state.left)
        )
        yield f"{target}, {source}, {min(most, size - start)}"
