"""Conversions of layouts between layers, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping

from dory_core.hardware.memories import MemoryHierarchy
from dory_core.plan import Conversion, Place
from dory_core.plan.block_ids import BlockId
from dory_core.planning.layouts import LayoutPlan, StoredTensor


def conversions_before(
    flow: LayoutPlan, n: int, blocks: Mapping[BlockId, Place], hierarchy: MemoryHierarchy
) -> tuple[Conversion, ...]:
    """Return the conversions before a layer; at the end for the number of layers.

    Args:
        flow: The forms of all tensors.
        n: Number of the layer; the number of layers for the end.
        blocks: Places of the blocks of L2.
        hierarchy: The memories of the target.
    """
    return tuple(
        Conversion(
            blocks[BlockId(source)], blocks[BlockId(target)], _cycles(flow.forms[target], hierarchy)
        )
        for source, target in flow.before[n]
    )


def _cycles(form: StoredTensor, hierarchy: MemoryHierarchy) -> int:
    """Return the estimated cycles of the conversion that makes a form."""
    filled = form.size_bytes if form.layout.padding_bytes(form.tensor) else 0
    copied = form.tensor.elements * hierarchy.conversion_cycles
    return round(copied + filled)
