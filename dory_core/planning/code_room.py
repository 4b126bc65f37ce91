"""The bytes of L2 that the code of a network takes, and what it leaves to the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dory_core.errors import DoesNotFit
from dory_core.hardware.memories import Level
from dory_core.hardware.target import TargetContext
from dory_core.plan.blocks import align_up, level_alignment
from dory_core.plan.budgets import Budgets, Code
from dory_core.plan.code import program_bytes
from dory_core.plan.network_operations import Program
from dory_core.planning.planned import Planned
from dory_core.planning.problem import HOME
from dory_core.tiling.parts import Tilings
from dory_core.tiling.tiled import TiledLayer


def shared(tiling: Tilings, ctx: TargetContext, budgets: Budgets) -> Budgets:
    """Return the budgets with what scratch memory leaves of L2, where both are one memory."""
    if not ctx.memory.one_memory:
        return budgets
    alignment = level_alignment(ctx.memory, HOME)
    scratch = align_up(max(one.l1_bytes for one in tiling.best), alignment)
    left = {1: scratch, HOME: max(0, budgets.bytes[HOME] - scratch)}
    return replace(budgets, bytes={**budgets.bytes, **left})


def l2_after_code(
    ctx: TargetContext, budgets: Budgets, code: Code, streamed: bool = False
) -> Budgets:
    """Return the budgets with no more of L2 than the code of a network leaves.

    Budgets that the chip does not have stay as they are: nothing else will run with them.

    Args:
        ctx: The target.
        budgets: Bytes of each level.
        code: What lies in home next to the data.
        streamed: Whether the network is streamed, which takes more code.
    """
    level = ctx.memory.level(HOME)
    room = level.usable_bytes - budgets.reserve - code.bytes_in(level, streamed)
    if budgets.reason or budgets.bytes[HOME] <= room:
        return budgets
    return replace(budgets, bytes={**budgets.bytes, HOME: max(room, 0)})


def next_to_code(
    error: DoesNotFit, ctx: TargetContext, budgets: Budgets, code: Code, streamed: bool
) -> DoesNotFit:
    """Return the error, which says that code takes what is missing where this is so.

    Args:
        error: What does not fit.
        ctx: The target.
        budgets: Bytes of each level.
        code: What lies in home next to the data.
        streamed: As for :func:`l2_after_code`.
    """
    level = ctx.memory.level(HOME)
    beside = l2_after_code(ctx, budgets, code, streamed)
    too_large_without = error.needed_bytes is not None and error.needed_bytes > budgets.bytes[HOME]
    if level.name not in error.message or too_large_without or beside == budgets:
        return error
    return DoesNotFit(f"{error.message}; {code.text(level, streamed)}", code.hint(level, budgets))


def code_bytes(planned: Planned, program: Program, level: Level, layers: int) -> int:
    """Return the bytes of code of a plan in the level of home, by the rule of the target.

    Args:
        planned: The network with everything in its place.
        program: Its operations.
        level: The level of home.
        layers: Number of its layers.
    """
    kernels = kernel_bytes(planned.candidate.residency.tiled, level)
    if level.code is not None:
        return kernels + program_bytes(program, planned.steps, level.code)
    code = Code(layers, len(program.functions), kernels)
    return code.bytes_in(level, bool(planned.transfers))


def kernel_bytes(layers: Iterable[TiledLayer], level: Level) -> int:
    """Return the bytes of the kernels that layers call, which lie in a level."""
    if level.code is None:
        return 0
    called = {one.bound.symbol: one.bound for one in layers if not one.view}
    found, shared = 0, dict[str, int]()
    for symbol, bound in called.items():
        found += level.code.of_kernel(symbol, bound.code_bytes)
        shared |= bound.shared_code
    return found + sum(shared.values())


def takes_less(one: Code, other: Code, ctx: TargetContext, budgets: Budgets) -> bool:
    """Return True when one code leaves more of L2 to data than another.

    Args:
        one: The code that may leave more.
        other: The other one.
        ctx: The target.
        budgets: Bytes of each level.
    """
    ways = (False, True)
    left, least = (
        [l2_after_code(ctx, budgets, code, way).bytes[HOME] for way in ways]
        for code in (one, other)
    )
    return any(a > b for a, b in zip(left, least, strict=True))
