"""The bidirectional buffer stack of the TC 2021 paper, section 4.4.1.

Two last-in-first-out stacks grow towards each other from the ends of one memory. The blocks that
one step allocates all go to the same end; the next step takes the other one, so that the input and
the output of a layer lie at opposite ends. A block leaves only from the top of its stack: a
residual that is still needed keeps everything below it in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import ACTIVATIONS, Packing, Request, align_up, packing


def bidirectional_stack(requests: Sequence[Request], alignment: int) -> Packing:
    """Return the placement of the stack; its peak is the largest sum of both stacks over time.

    Without residuals the peak is that of the paper's formula: the largest
    ``x + w + y + (next layer's w)``. Weight blocks may be among the requests: one that is streamed
    lives one step longer than its layer, from the step before it.
    """
    if not requests:
        return Packing((), 0, "stack")
    # Within one step activations lie below weights and long lifetimes below short ones, so that
    # what dies first is on top.
    ordered = sorted(
        requests, key=lambda r: (r.first, r.role != ACTIVATIONS, -r.last, -r.size_bytes, r.id)
    )
    stacks: tuple[list[Request], list[Request]] = ([], [])
    heights = [0, 0]
    peak = 0
    position: dict[BlockId, tuple[int, int]] = {}  # side, height of the lower edge
    for turn, (step, group) in enumerate(groupby(ordered, key=lambda r: r.first)):
        for side in (0, 1):
            while stacks[side] and stacks[side][-1].last < step:
                heights[side] -= align_up(stacks[side].pop().size_bytes, alignment)
        side = turn % 2
        for request in group:
            stacks[side].append(request)
            position[request.id] = (side, heights[side])
            heights[side] += align_up(request.size_bytes, alignment)
        peak = max(peak, sum(heights))
    offsets = {
        r.id: height if side == 0 else peak - height - align_up(r.size_bytes, alignment)
        for r in requests
        for side, height in (position[r.id],)
    }
    placed = packing(requests, offsets, alignment, "stack")
    return Packing(placed.blocks, peak, "stack")
