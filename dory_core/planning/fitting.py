"""A network within its budgets: all in L2 when it fits, else in fused chains, else streamed.

One sequence of parts, one set of blocks with live ranges over its positions and one function that
makes steps of them serve all; :mod:`dory_core.planning.front.plans` has the decisions for what
stays in L2, :mod:`dory_core.planning.cascade` those for what is fetched from the level below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from dory_core.errors import DoesNotFit
from dory_core.hardware.target import TargetContext
from dory_core.plan.blocks import level_alignment, with_padding
from dory_core.plan.budgets import Budgets, Code, check_code, least_functions
from dory_core.plan.network import lower, lower_network
from dory_core.plan.network_operations import Program
from dory_core.planning.cascade import streamed
from dory_core.planning.chains.by_rows import refusal
from dory_core.planning.code_room import (
    code_bytes,
    kernel_bytes,
    l2_after_code,
    next_to_code,
    shared,
    takes_less,
)
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate, evaluate
from dory_core.planning.front.plans import (
    Executions,
    executions,
    fastest,
    fastest_of,
    price,
    smallest,
    whole,
)
from dory_core.planning.moves import fused_chains
from dory_core.planning.placement import placed, searched, verify_planned
from dory_core.planning.planned import Planned
from dory_core.planning.problem import HOME, Problem
from dory_core.tiling.parts import Tilings

#: What begins and ends a network, and what lies elsewhere once, runs functions beyond the least.
_MORE_FUNCTIONS = 8
#: Plans that are made, each with room for the code of the one before. Five do not reach the plan
#: that has the input in the next level as well, where the first ones have only the output there.
_ATTEMPTS = 8
#: Part of L2 for which the cascade cuts layers a second time.
_LESS_ROOM = 2 / 3


@dataclass(frozen=True, slots=True)
class Fitted:
    """A network within its budgets.

    Attributes:
        planned: How it runs, and where everything lies.
        program: Its operations.
        code_bytes: Bytes of its code in L2, by the rule of the target.
    """

    planned: Planned
    program: Program
    code_bytes: int

    @property
    def l2_bytes(self) -> int:
        """Bytes of L2 in all: data and code."""
        return self.planned.home_bytes + self.code_bytes

    @property
    def cycles(self) -> int:
        """Cycles of one inference."""
        return self.planned.cycles


def place_network(
    tiling: Tilings,
    ctx: TargetContext,
    budgets: Budgets,
    any_core: bool,
    least: bool = False,
    problems: Sequence[Problem] = (),
) -> Fitted:
    """Place a network within the budgets.

    Constants and activations stay in L2 when they all fit; otherwise they are streamed from the
    next level, where the target has one. Code is counted as if each layer had its own; only where
    that leaves too little room is it asked how many functions the layers run: that is known when
    everything has its place.

    Args:
        tiling: The tilings of the layers.
        ctx: The target.
        budgets: Bytes of each level.
        any_core: Whether each core may start transfers between L2 and L1.
        least: Whether as few bytes of L2 as possible are wanted, where the network is not streamed.
        problems: Those of the network within other budgets, where these are known: what was
            computed for them is not computed again.

    Raises:
        NotSupported: When inputs or outputs cannot pass by rows, or nothing can make a copy.
        DoesNotFit: When no plan is within the budgets.
    """
    problems = problems or problems_of(tiling, ctx, budgets)
    layers, fewest = len(tiling.graph.ops), least_functions(tiling.graph)
    code = Code(layers, layers, kernel_bytes(tiling.best, ctx.memory.level(HOME)))
    functions = min(fewest + fewest // 2 + _MORE_FUNCTIONS, max(fewest, layers - 1))
    sharing = replace(code, functions=functions)
    codes = (code, sharing) if takes_less(sharing, code, ctx, budgets) else (code,)
    return _linked(problems, ctx, budgets, any_core, codes, least)


def _linked(
    problems: Sequence[Problem],
    ctx: TargetContext,
    budgets: Budgets,
    any_core: bool,
    codes: Sequence[Code],
    least: bool,
) -> Fitted:
    """Return a plan that fits together with its own code.

    The code of a plan is known when there is one. Where it is larger than was taken for granted,
    another plan is made with that much less room.

    Args:
        problems: The network with and without views, within any budgets.
        ctx: The target.
        budgets: Bytes of each level.
        any_core: As for :func:`place_network`.
        codes: What is taken for granted at first, and where no plan is beside that.
        least: As for :func:`place_network`.

    Raises:
        NotSupported: When inputs or outputs cannot pass by rows, or nothing can make a copy.
        DoesNotFit: When no plan is within the budgets.
    """
    level, alignment = ctx.memory.level(HOME), level_alignment(ctx.memory, HOME)
    code, planned = codes[0], None
    for _ in range(_ATTEMPTS):
        try:
            planned = _placed(problems, ctx, budgets, code, least)
        except DoesNotFit:
            if planned is not None or code is codes[-1]:
                raise
            code = codes[-1]
            continue
        program = _lower(planned, alignment, any_core)
        found = replace(code, functions=len(program.functions), measured=None)
        taken = code_bytes(planned, program, level, found.layers)
        needed = planned.home_bytes + taken
        if budgets.reason or needed <= level.usable_bytes - budgets.reserve:
            return Fitted(planned, program, taken)
        code = replace(found, measured=max(taken, code.measured or 0))
    assert planned is not None
    raise DoesNotFit(
        f"{code.text(level, bool(planned.transfers))}, its data {planned.home_bytes} B, "
        f"{level.usable_bytes - budgets.reserve} B are left to networks",
        code.hint(level, budgets),
    )


def _placed(
    problems: Sequence[Problem], ctx: TargetContext, budgets: Budgets, code: Code, least: bool
) -> Planned:
    """Place a network next to code.

    Args:
        problems: The network with and without views, within any budgets.
        ctx: The target.
        budgets: Bytes of each level.
        code: What lies in home next to the data.
        least: As for :func:`place_network`.

    Raises:
        NotSupported: When inputs or outputs cannot pass by rows.
        DoesNotFit: When no plan leaves room for the code.
    """
    within = l2_after_code(ctx, budgets, code)
    limits, name = within.bytes, problems[0].network.name
    problems = [replace(problem, budgets=within) for problem in problems]
    if problems[0].network.by_rows:
        return _by_rows(problems, limits, least)
    refusals: list[DoesNotFit] = []
    fitting: list[tuple[Problem, Planned]] = []
    for problem in problems:
        if problem.streams and problem.least_static() > limits[HOME]:
            continue
        found = _resident(problem)
        constants_fit = found.static_bytes <= limits[found.static_level]
        fits = constants_fit and found.home_bytes <= limits[HOME] and not found.candidate.straddles
        if fits and (problem.streams or not least):
            verify_planned(found, problem)
            return found
        if constants_fit and fused_chains.NAME not in problem.switched_off:
            most = limits[HOME] if problem.streams else None
            ways = executions(problem, most)
            chosen = smallest(problem, ways, limits[HOME]) if least else None
            chosen = chosen or fastest(problem, ways, limits[HOME])
            if chosen is not None:
                fitting.append((problem, chosen))
            elif not problem.streams:
                refusals.append(_too_large(problem, ways, name))
        elif not problem.streams or (problem.linked_elsewhere and not constants_fit):
            refusals.append(found.too_large(name, problem.budgets, problem.ctx.memory))
        if fits:
            fitting.append((problem, found))
            break
    if refusals and not fitting:
        raise next_to_code(refusals[0], ctx, budgets, code, streamed=False)
    if problems[0].streams and not refusals:
        found_below = _below(problems, ctx, budgets, code, needed=not fitting)
        fitting += [] if found_below is None else [found_below]
    problem, planned = min(fitting, key=lambda one: price(one[1], least))
    verify_planned(planned, problem)
    return planned


def _resident(problem: Problem) -> Planned:
    """Return the plan layer by layer, whether it fits or not."""
    return searched(problem, evaluate(problem, whole(problem)))


def _by_rows(problems: Sequence[Problem], limits: Mapping[int, int], least: bool) -> Planned:
    """Place a network whose inputs or outputs pass by rows.

    Raises:
        NotSupported: When they cannot.
        DoesNotFit: When no plan is within the limits.
    """
    found: list[tuple[Problem, Planned]] = []
    for problem in problems:
        ways = executions(problem, limits[HOME] if problem.streams and not least else None)
        chosen = (smallest if least else fastest)(problem, ways, limits[HOME])
        if chosen is not None:
            found.append((problem, chosen))
    if not found:
        raise refusal(problems[-1], limits[HOME])
    problem, planned = min(found, key=lambda one: price(one[1], least))
    if planned.static_bytes > limits[planned.static_level]:
        raise planned.too_large(problem.network.name, problem.budgets, problem.ctx.memory)
    verify_planned(planned, problem)
    return planned


def _below(
    problems: Sequence[Problem], ctx: TargetContext, budgets: Budgets, code: Code, needed: bool
) -> tuple[Problem, Planned] | None:
    """Return the network as it is streamed from the level below, with its problem.

    Args:
        problems: The network with and without views.
        ctx: The target.
        budgets: Bytes of each level.
        code: What lies in home next to the data.
        needed: Whether there is no other plan.

    Raises:
        DoesNotFit: Where it is needed, and what passes through home has no room.
    """
    refusals: list[DoesNotFit] = []
    try:
        check_code(ctx.memory.level(HOME), code, budgets, streamed=True)
        left = l2_after_code(ctx, budgets, code, streamed=True)
        for problem in problems:
            problem = replace(problem, budgets=left)
            ways, refused = _streamed(problem)
            refusals += refused
            if ways:
                return problem, min(ways, key=price)
        raise next_to_code(refusals[0], ctx, budgets, code, streamed=True)
    except DoesNotFit:
        if needed:
            raise
    return None


def _streamed(problem: Problem) -> tuple[list[Planned], list[DoesNotFit]]:
    """Return the fastest plans of a streamed network, and the errors of what does not fit.

    First is the least error of what fits L2 and not the level below.

    Tensors that stay in L1 leave L2 to others. Where the cascade does not count on them, and cuts
    layers for less L2, smaller constants are there earlier, which may be faster within all of L2.
    """
    found, known = list[Planned](), list[Decision]()
    refusals, below = list[DoesNotFit](), list[DoesNotFit]()
    most = problem.budgets.bytes[HOME]
    rooms = {True: most, False: int(most * _LESS_ROOM)} if problem.thorough else {True: most}
    for residents, room in rooms.items():
        within = replace(problem.budgets, bytes={**problem.budgets.bytes, HOME: room})
        try:
            decisions = streamed(replace(problem, budgets=within), residents)
            starts, refused = _evaluated(problem, [one for one in decisions if one not in known])
        except DoesNotFit as error:
            refusals.append(error)
            continue
        known += decisions
        refusals += refused
        try:
            found += [fastest_of(problem, starts)] if starts else []
        except DoesNotFit as error:
            below.append(error)
    below.sort(key=lambda error: error.needed_bytes or inf)
    return found, [*below, *refusals]


def problems_of(tiling: Tilings, ctx: TargetContext, budgets: Budgets) -> list[Problem]:
    """Return the problem of a network, the fastest one first.

    Where it has views, also that without them; where it is streamed, also with fewer constants.
    """
    problems = [Problem.of(tiling, ctx, budgets)]
    if problems[0].network.views.layers:
        # A block lives as long as any tensor in it: copies may need less memory.
        problems.append(Problem.of(tiling, ctx, budgets, views=False))
    if problems[0].streams and (light := problems[-1].lighter) is not None:
        problems.append(light)
    return problems


def _too_large(problem: Problem, ways: Executions, name: str) -> DoesNotFit:
    """Return the error of a network of which no execution fits: what the smallest one needs."""
    needs_least = min(ways.candidates, key=lambda one: one.home_bytes)
    error = placed(problem, needs_least).too_large(name, problem.budgets, problem.ctx.memory)
    return DoesNotFit(
        error.message, f"{error.hint}; `dory check --least` tells more", error.needed_bytes
    )


def _evaluated(
    problem: Problem, starts: Iterable[Decision]
) -> tuple[list[Candidate], list[DoesNotFit]]:
    """Return the candidates of decisions, and the errors of those that do not fit."""
    found, refused = list[Candidate](), list[DoesNotFit]()
    for start in starts:
        try:
            found.append(evaluate(problem, start))
        except DoesNotFit as error:
            refused.append(error)
    return found, refused


def resident_plan(tiling: Tilings, ctx: TargetContext, budgets: Budgets) -> Planned:
    """Return the plan without transfers, whether it fits or not."""
    budgets = shared(tiling, ctx, budgets)
    graph = tiling.graph
    kernels = kernel_bytes(tiling.best, ctx.memory.level(HOME))
    code = Code(len(graph.ops), least_functions(graph), kernels)
    within = l2_after_code(ctx, budgets, code)
    problem = Problem.of(tiling, ctx, within)
    return _resident(problem)


def _lower(found: Planned, alignment: int, any_core: bool) -> Program:
    """Return the operations of a network with everything in its place.

    Args:
        found: The network.
        alignment: Granule of blocks of home, in bytes.
        any_core: As for :func:`place_network`.
    """
    operations = lower_network(
        found.steps,
        found.transfers,
        found.inputs,
        found.outputs,
        found.candidate.final,
        with_padding(found.blocks[HOME], alignment),
        found.candidate.states,
    )
    return lower(found.steps, operations, any_core)
