"""Order of execution: branches in the order that needs the least memory."""

from __future__ import annotations

from dataclasses import replace

from dory_core.ir import Graph
from dory_core.plan.blocks import fullest_step, requests


def order_branches(graph: Graph) -> Graph:
    """Return the Graph with its layers in the order of execution; indices and values stay.

    Tried are the order of the file, the longest branch first (section 4.4.1 of the TC 2021 paper)
    and the shortest first; the one whose activations need the least memory at once is taken, that
    of the file among equals.
    """
    consumers = {name: len(graph.consumers(name)) for name in graph.tensors}
    if max(consumers.values(), default=0) < 2 and len(graph.sources) == 1:
        return graph  # a chain
    orders = [
        list(range(len(graph.ops))),
        _depth_first(graph, longest=True),
        _depth_first(graph, longest=False),
    ]
    best = min(orders, key=lambda order: fullest_step(requests(graph, order))[1])
    return _in_order(graph, best)


def numbered_order(graph: Graph) -> Graph:
    """Return the Graph with its layers in the order of their indices, as imported."""
    order = sorted(range(len(graph.ops)), key=lambda n: graph.ops[n].index)
    return _in_order(graph, order)


def _in_order(graph: Graph, order: list[int]) -> Graph:
    if order == list(range(len(graph.ops))):
        return graph
    return replace(
        graph,
        ops=tuple(graph.ops[n] for n in order),
        ranges=tuple(graph.ranges[n] for n in order),
    )


def _depth_first(graph: Graph, longest: bool) -> list[int]:
    """Return a topological order that follows one branch to its end before it takes the next."""
    makers = {layer.output: n for n, layer in enumerate(graph.ops)}
    readers: list[list[int]] = [[] for _ in graph.ops]
    missing = []
    for n, layer in enumerate(graph.ops):
        sources = {makers[name] for name in layer.inputs if name in makers}
        missing.append(len(sources))
        for source in sources:
            readers[source].append(n)
    depth = [0] * len(graph.ops)  # layers up to the end of the network
    for n in reversed(range(len(graph.ops))):
        depth[n] = 1 + max((depth[m] for m in readers[n]), default=0)

    def key(n: int) -> tuple[int, int]:
        return (depth[n] if longest else -depth[n], -n)

    ready = sorted((n for n in range(len(graph.ops)) if missing[n] == 0), key=key)
    order: list[int] = []
    while ready:
        n = ready.pop()
        order.append(n)
        free = []
        for m in readers[n]:
            missing[m] -= 1
            if missing[m] == 0:
                free.append(m)
        ready += sorted(free, key=key)
    return order
