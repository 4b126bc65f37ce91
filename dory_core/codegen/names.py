"""What a layer is called in C: its function, its constants, and the arenas that it is given."""

from __future__ import annotations

from dory_core.plan import RESIDENT, LayerStep
from dory_core.plan.operations import l2_name


def weights_symbol(prefix: str, step: LayerStep) -> str:
    """Return the C name of a layer's constants. prefix: of the Plan."""
    return f"{prefix}_weights_{step.index:02d}"


def layer_symbol(prefix: str, step: LayerStep) -> str:
    """Return the C name of a layer's function. prefix: of the Plan."""
    return f"{prefix}_layer_{step.index:02d}"


def address(base: str, offset: int) -> str:
    """Return the C expression of the address ``offset`` bytes behind ``base``."""
    return f"{base} + {offset}" if offset else base


def layer_arenas(step: LayerStep) -> tuple[str, ...]:
    """Return the arenas that a layer uses, as parameters or arguments of its function."""
    moved = (t for t in (*step.inputs, step.output) if t.form != RESIDENT)
    memories = {t.place.memory for t in moved}
    if step.weights is not None and not step.weights.linked:
        memories.add(0)
    l1 = ("l1",) if step.l1 or step.found else ()
    return (*l1, *(l2_name(memory) for memory in sorted(memories)))


def layer_parameters(step: LayerStep) -> str:
    """Return the parameters of a layer's function: arenas, and which part of it when several."""
    number = ("uint32_t number",) if len(step.parts) > 1 else ()
    return ", ".join((*(f"uint8_t *{name}" for name in layer_arenas(step)), *number))
