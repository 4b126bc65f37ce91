"""About how few bytes of L2 suffice for a streamed network, found without a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dory_core.errors import DoesNotFit
from dory_core.hardware.code_sizes import CodeSizes
from dory_core.planning.cascade import in_smallest_parts
from dory_core.planning.code_room import kernel_bytes
from dory_core.planning.moves.coarsen import coarser
from dory_core.planning.problem import HOME, Problem
from dory_core.planning.sequence.part_sequence import PartSequence
from dory_core.planning.sequence.peaks import LiveBytes

#: The first try of the least budget of a streamed network is all bytes divided by it.
_SMALLEST = 64
#: The least budget of a streamed network is found to this share of it.
PRECISION = 1 / 128
#: Code of the parts that the cascade makes, by what is left for it: larger parts take less.
_MOST_CODE = 1.5


def least_room(needed: Callable[[int], int], most: int) -> int:
    """Return about the fewest bytes that suffice: with a small share less, something is missing.

    Args:
        needed: Tells of a number of bytes about how many are needed; 0 where it suffices.
        most: Bytes that suffice.
    """
    low, high, room = 0, most, max(1, most // _SMALLEST)
    while high - low > max(1, int(high * PRECISION)):
        more = needed(room)
        low, high = (room, high) if more else (low, room)
        room = max(more, low + int(low * PRECISION)) if more else high
        if room >= high:
            # Blocks of some budgets find no places: near the end no large steps pass them.
            room = (low + 3 * high) // 4 if 4 * low > 3 * high else (low + high) // 2
    return high


def needed_bytes(problems: Iterable[Problem], is_sure: bool = False) -> int:
    """Return about the bytes with which a network can be streamed; 0 where its budget suffices.

    No moves but one are searched: a plan within as many bytes exists, whatever it costs.

    Args:
        problems: Ways to compute the network, within one budget.
        is_sure: Whether the move is searched that makes parts larger: they may take less code.
    """
    found = list[int]()
    for problem in problems:
        found.append(_needed(problem, is_sure))
        if not found[-1]:
            break
    return min(found)


def _needed(problem: Problem, is_sure: bool) -> int:
    """Return about the bytes with which one way can be streamed, as :func:`needed_bytes`."""
    try:
        decision = in_smallest_parts(problem)
        level, room = problem.ctx.memory.level(HOME), problem.room
        if level.code is None or problem.budgets.reason:
            return 0
        usable = level.usable_bytes - problem.budgets.reserve
        left = max(1, usable - kernel_bytes(problem.tiled, level) - room)
        live = LiveBytes(problem)
        code = _parts_bytes(live.sequence(decision), level.code)
        if is_sure and code > left:
            decision = coarser(problem, decision) or decision
            code = _parts_bytes(live.sequence(decision), level.code)
    except DoesNotFit as error:
        return error.needed_bytes or problem.room + 1
    most = left if is_sure else left * _MOST_CODE
    return 0 if code <= most else max(room + 1, int(room * code / most))


def _parts_bytes(program: PartSequence, sizes: CodeSizes) -> int:
    """Return about the bytes of code for the parts of a streamed network.

    Each part runs and may end a piece of the output, and what passes through L2 is started and
    waited for: these are the entries of the table of transfers.
    """
    events = 2 * (program.end + len(program.chunks) + len(program.stripes))
    return round(sizes.part * program.end + sizes.event * events)
