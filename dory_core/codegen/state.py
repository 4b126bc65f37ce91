"""State of a network as C: its initial values, and what is copied when an inference ends."""

from __future__ import annotations

from collections.abc import Iterator

from dory_core.codegen.body import packed
from dory_core.codegen.network import place_address
from dory_core.plan import Plan, StatePlan


def state_parts(plan: Plan) -> str:
    """Return {memory, offset, bytes} of each state."""
    places = (state.place for state in plan.states)
    return "{" + ", ".join(f"{{{p.memory}u, {p.offset}u, {p.size_bytes}u}}" for p in places) + "}"


def table_rows(data: bytes) -> Iterator[str]:
    """Yield the lines of a table of bytes."""
    return packed([str(byte) for byte in data])


def initial_lines(state: StatePlan, number: int, cores: int) -> Iterator[str]:
    """Yield the statements that give a state its initial values."""
    where, size = place_address(state.place), state.place.size_bytes
    if state.table_bytes:
        copy = "copy_bytes" if cores > 1 else "memcpy"
        yield f"{copy}({where}, initial_{number}, {size});"
        return
    fill = f"memset({where}, {state.initial[0]}, {size});"
    yield from _by_core_0(fill, cores)


def kept_lines(state: StatePlan, cores: int) -> Iterator[str]:
    """Yield the statement that copies what a state is next to its place."""
    target, source = place_address(state.place), place_address(state.left)
    if state.overlaps:
        move = f"memmove({target}, {source}, {state.place.size_bytes});"
        yield from _by_core_0(move, cores)
    else:
        copy = "copy_bytes" if cores > 1 else "memcpy"
        yield f"{copy}({target}, {source}, {state.place.size_bytes});"


def _by_core_0(statement: str, cores: int) -> tuple[str, ...]:
    """Return a statement that core 0 executes."""
    if cores == 1:
        return (statement,)
    return ("if (dory_core_id() == 0) {", f"  {statement}", "}")
