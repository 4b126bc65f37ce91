"""Inputs and outputs of the network by rows: why they cannot pass so, where they cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dory_core.errors import DoesNotFit, DoryError, NotSupported
from dory_core.hardware.options import INPUT_ROWS, OUTPUT_ROWS
from dory_core.plan.budgets import more_room
from dory_core.planning.chains.paths import Chain, Chains
from dory_core.planning.front.plans import whole
from dory_core.planning.problem import HOME, Problem
from dory_core.planning.sequence.network_parts import NetworkParts


def refusal(problem: Problem, room: int) -> DoryError:
    """Return why a network does not run with inputs or outputs by rows.

    Args:
        problem: A network for which no chains were found.
        room: Bytes of home for blocks and linked constants.
    """
    start, network = whole(problem), problem.network
    chains = Chains(problem, start)
    reason = next(_reasons(chains), "")
    least = least_bytes(chains)
    if reason or least is None:
        reason = reason or "no chain of layers reads, or makes, all of them by rows"
        options = [
            f"--{option.name.replace('_', '-')}"
            for option in (INPUT_ROWS, OUTPUT_ROWS)
            if problem.ctx.options.get(option.name)
        ]
        return NotSupported(
            f"{network.name} cannot pass by rows: {reason}",
            f"compile it without {' and '.join(options)}",
        )
    needed = least + problem.static_bytes(start, problem.residency(start))
    needed = max(needed, room + 1)
    linked = ", none of which is fetched from L3 where rows pass" if problem.streams else ""
    return DoesNotFit(
        f"{network.name} needs about {needed} B of L2 with stripes of one row, {room} B are "
        f"available: activations {least} B, constants {needed - least} B{linked}",
        more_room(problem.ctx.memory.level(HOME), needed),
        needed,
    )


def least_bytes(chains: Chains) -> int | None:
    """Return the bytes of L2 of the execution that needs least; None where there is none."""
    edges = chains.all
    while True:
        path = _smallest(edges, len(chains.single))
        unknown = [at for at in path or () if edges[at].rows is not None]
        for at in unknown:
            edges[at] = chains.placed(edges[at])
        if not unknown:
            return None if path is None else max(edges[at].bytes for at in path)


def _smallest(edges: Sequence[Chain], layers: int) -> list[int] | None:
    """Return the numbers of the chains of the execution with the fewest bytes, or None.

    Args:
        edges: As of :attr:`Chains.all`.
        layers: Number of layers.
    """
    best: list[tuple[int, list[int]] | None] = [(0, []), *([None] * layers)]
    for at, chain in enumerate(edges):
        before, after = best[chain.first], best[chain.last + 1]
        if before is None:
            continue
        needed = max(before[0], chain.bytes)
        if after is None or needed < after[0]:
            best[chain.last + 1] = (needed, [*before[1], at])
    end = best[layers]
    return None if end is None else end[1]


def _reasons(chains: Chains) -> Iterator[str]:
    """Yield what is in the way, with the layer and its tensor."""
    network = chains.problem.network
    for name in network.by_rows:
        what = f"{'input' if network.makers[name] < 0 else 'output'} '{name}'"
        yield from _of_tensor(network, name, what)
        users = {n for n in (network.makers[name], *network.readers[name]) if n >= 0}
        for n in range(min(users), max(users) + 1):
            if not chains.may_join(n, max(users)):
                use = f"reads {what}" if n in users else f"stands between layers that read {what}"
                use = f"makes {what}" if n == network.makers[name] else use
                why = "cannot be computed row by row"
                if chains.is_read_half_made(n, max(users)):
                    why = "its output is needed as a whole"
                yield f"{_title(network, n)} {use}, and {why}"


def _of_tensor(network: NetworkParts, name: str, what: str) -> Iterator[str]:
    """Yield what is in the way of one input or output."""
    if network.makers[name] < 0 and not network.readers[name]:
        yield f"no layer reads {what}"
    if network.makers[name] < 0 and name in network.outlive:
        yield f"{what} is an output, or state, as well"
    for n, pairs in enumerate(network.flow.before):
        for source, target in pairs:
            if name in (source, target):
                layout = network.flow.forms[target].layout.name
                where = _title(network, min(n, len(network.layers) - 1))
                yield f"{where} has {what} as {layout}, and it is converted as a whole"
    if name in network.views.groups:
        others = [one for one in network.views.groups[name] if one != name]
        yield f"{what} has its bytes in common with '{others[0]}'"
    if name in network.fixed:
        yield f"{what} is state"
    if not network.is_read_by_rows(name):
        for n in network.readers[name]:
            yield f"{_title(network, n)} reads all of {what} for each row of its output"


def _title(network: NetworkParts, n: int) -> str:
    op = network.layers[n].op
    return f"layer {op.index} {op.kind} '{op.name}'"
