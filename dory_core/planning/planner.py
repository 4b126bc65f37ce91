"""From tiled layers to the Plan: the record of all that was decided."""

from __future__ import annotations

from collections.abc import Callable

from dory_core.checks.contents import verify_contents
from dory_core.hardware.target import DmaHal, OutputFile, TargetContext
from dory_core.kernels.convert import conversion_files
from dory_core.plan import DEFAULT_PREFIX, Plan, Roofline
from dory_core.plan.budgets import Budgets, memory_budgets
from dory_core.planning.code_room import shared
from dory_core.planning.constants import L3_IMAGE
from dory_core.planning.fitting import place_network
from dory_core.planning.front.streamed import Streamed
from dory_core.planning.planned import Planned
from dory_core.planning.problem import BELOW, HOME, is_streamed
from dory_core.planning.search import Trial
from dory_core.schedule.copies import l1_dma
from dory_core.schedule.costs import link_name
from dory_core.tiling.parts import Tilings


def make_plan(
    tiling: Tilings,
    ctx: TargetContext,
    budgets: Budgets,
    frontend: str,
    hal: DmaHal | None,
    prefix: str = DEFAULT_PREFIX,
    missing: str = "",
    show: Callable[[tuple[Trial, ...]], None] | None = None,
    least: bool = False,
) -> Plan:
    """Return the Plan of a network.

    Args:
        tiling: The tilings of the layers.
        ctx: The target.
        budgets: Bytes of each level.
        frontend: Name of the frontend, for the Plan.
        hal: What starts the target's transfers; None where it has no HAL.
        prefix: Prefix of the names in C.
        missing: What the target lacks that an application needs on the chip.
        show: Is told what the moves proposed.
        least: Whether the plan with the fewest bytes of L2 is wanted, in place of the fastest.

    Raises:
        NotSupported: When inputs or outputs cannot pass by rows, or nothing can make a copy.
        DoesNotFit: When no plan is within the budgets.
    """
    graph = tiling.graph
    budgets = shared(tiling, ctx, budgets)
    any_core = hal is not None and hal.any_core
    several = any_core and ctx.memory.cores > 1
    fitted = place_network(tiling, ctx, budgets, several, least)
    if least and is_streamed(ctx.memory):
        fitted = Streamed.of(tiling, ctx, budgets, several).smallest(fitted)
    found, program = fitted.planned, fitted.program
    if show is not None:
        show(found.trials)
    candidate = found.candidate
    arenas = memory_budgets(ctx.memory, HOME, budgets.bytes[HOME])
    if not any(packed.peak_bytes for packed in candidate.packings[1:]):
        arenas = arenas[:1]
    verify_contents(program, found.steps)
    return Plan(
        target=ctx.name,
        frontend=frontend,
        network=graph.name,
        prefix=prefix,
        reference=graph.reference,
        options=ctx.options,
        steps=found.steps,
        inputs=found.inputs,
        outputs=found.outputs,
        levels=found.levels(ctx, budgets),
        arena_bytes=_arena_bytes(found, budgets, arenas[0]),
        static_bytes={found.static_level: found.static_bytes},
        cores=ctx.memory.cores,
        any_core=any_core,
        dma_tickets=hal.tickets if hal is not None else 0,
        dma=l1_dma(ctx.memory),
        ext=ctx.memory.link(HOME) if found.transfers else None,
        files=_files(found, hal),
        transfers=found.transfers,
        final_conversions=candidate.final,
        states=candidate.states,
        more_l2_bytes=arenas[1:],
        arena_used=candidate.peak,
        constants_apart=found.constants_apart,
        has_far_constants=len(ctx.memory.constants_memories) > 1,
        program=program,
        code_bytes=fitted.code_bytes,
        timeline=candidate.timeline,
        roofline=_roofline(ctx),
        operating_point=ctx.operating_point,
        reason=budgets.reason,
        missing=missing,
        notes=graph.notes,
    )


def _arena_bytes(found: Planned, budgets: Budgets, first: int) -> dict[int, int]:
    """Return the bytes that the caller hands over of each level.

    Args:
        found: The network with everything in its place.
        budgets: Bytes of each level.
        first: Bytes of home's first memory.
    """
    sizes = {1: budgets.bytes[1], HOME: first - found.static_in(HOME)}
    if found.transfers:
        sizes[BELOW] = budgets.bytes[BELOW] + found.constants_apart
    return sizes


def _roofline(ctx: TargetContext) -> Roofline:
    links = {link_name(link): link.bytes_per_cycle for link in ctx.memory.links}
    return Roofline(ctx.memory.peak_macs_per_cycle, links, dict(ctx.memory.engine_peaks))


def _files(planned: Planned, hal: DmaHal | None) -> tuple[OutputFile, ...]:
    files: list[OutputFile] = list(hal.files) if hal is not None else []
    steps = planned.steps
    for tiled, step in zip(planned.candidate.residency.tiled, steps, strict=True):
        if not step.is_view:
            files += tiled.bound.sources
    if planned.conversions or not all(s.output.place.layout.is_hwc for s in steps):
        files += conversion_files()
    if planned.image:
        files.append(OutputFile(L3_IMAGE, planned.image))
    return tuple(files)
