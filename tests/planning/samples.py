"""Small networks of known tensor sizes and random lifetimes for the planner's tests."""

from __future__ import annotations

from hypothesis import strategies as st

from dory_core.ir import Add, Array, Conv, Graph, LayerRanges, Tensor, Window
from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import ACTIVATIONS, Block, Request


def wanted(
    name: str,
    size_bytes: int,
    first: int,
    last: int,
    role: str = ACTIVATIONS,
    within: str = "",
    at_bytes: int = 0,
    persistent: bool = False,
) -> Request:
    """Return the Request for the block of a whole tensor."""
    whole = BlockId(within) if within else None
    return Request(BlockId(name), size_bytes, first, last, role, whole, at_bytes, persistent)


def at_offset(name: str, offset: int, size: int, first: int, last: int, memory: int = 0) -> Block:
    """Return the Block of a whole tensor."""
    return Block(BlockId(name), offset, size, first, last, memory)


def network(sizes: dict[str, int], *layers: tuple[str, ...], outputs: tuple[str, ...]) -> Graph:
    """Build a Graph of 8-bit tensors of the given bytes; a layer is (output, input[, input])."""
    tensors = {
        name: Tensor(name, size, 1, 1, lo=0, hi=255, bits=8, signed=False)
        for name, size in sizes.items()
    }
    built = []
    for index, (output, *inputs) in enumerate(layers):
        common = {"index": index, "name": f"n{index}", "inputs": tuple(inputs), "output": output}
        if len(inputs) == 2:
            built.append(Add(**common))
        else:
            built.append(Conv(**common, weights=Array([[[[1]]]]), window=Window(kernel=(1, 1))))
    produced = {layer.output for layer in built}
    return Graph(
        "test",
        tuple(n for n in sizes if n not in produced),
        outputs,
        tuple(built),
        tensors,
        (LayerRanges(0, 255, 0, 0, 0),) * len(built),
    )


@st.composite
def lifetimes(draw, most=12, steps=10, largest=64):
    count = draw(st.integers(1, most))
    result = []
    for i in range(count):
        first = draw(st.integers(-1, steps))
        last = draw(st.integers(first, min(steps + 1, first + draw(st.integers(0, steps)))))
        role = draw(st.sampled_from(("activations", "weights")))
        result.append(wanted(f"b{i}", draw(st.integers(1, largest)), first, last, role))
    return tuple(result)
