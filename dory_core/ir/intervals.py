"""Reachable interval of every channel of every tensor, from the actual weights.

``dory_core.ir.ranges`` bounds whole tensors, which decides storage and arithmetic. Here each
channel has its own bounds, so that channels are found that have one value whatever the input is.
They never exceed those of the tensor: all arithmetic here fits 64 bits, as is proven there.
"""

from __future__ import annotations

import numpy as np

from dory_core.ir.bounds import Interval
from dory_core.ir.graph import Graph


def channel_intervals(graph: Graph) -> dict[str, Interval]:
    """Return the reachable interval of each channel of every tensor by name.

    An operator that says nothing about channels has the range of its output in all of them.
    """
    found = {name: Interval.whole(graph.tensors[name]) for name in graph.sources}
    for layer in graph.layers:
        op, output = layer.op, layer.output
        acc = op.channel_intervals([found[name] for name in op.inputs], layer.inputs)
        if acc is None:
            found[output.name] = Interval.whole(output)
            continue
        for step in op.requants:
            acc = acc.after(step)
        lo, hi = (np.clip(end, output.lo, output.hi) for end in (acc.lo, acc.hi))
        found[output.name] = Interval(lo, hi)
    return found
