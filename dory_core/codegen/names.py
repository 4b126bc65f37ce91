"""Names of layers in C: functions, constants, and the arenas that a function receives."""

from __future__ import annotations

from dory_core.plan import Form, LayerStep
from dory_core.plan.memories import MemoryId, l2_memory
from dory_core.plan.operations import AHEAD, LayerFunction


def weights_symbol(prefix: str, step: LayerStep) -> str:
    """Return the C name of a layer's constants. prefix: of the Plan."""
    return f"{prefix}_weights_{step.index:02d}"


def table_symbol(prefix: str, table: MemoryId) -> str:
    """Return the C name of a table of another layer's constants. prefix: of the Plan."""
    return f"{prefix}_weights_{table.number:02d}"


def function_symbol(prefix: str, first: LayerStep, function: LayerFunction) -> str:
    """Return the C name of a function, which is also the name of its file.

    Args:
        prefix: Prefix of the Plan.
        first: The first step that runs the function. The name has its index: ``dory_layer_04``, or
            ``dory_layers_04`` when several layers run it.
        function: The function.
    """
    return f"{prefix}_layer{'s' if function.is_shared else ''}_{first.index:02d}"


def address(base: str, offset: int) -> str:
    """Return the C expression of the address ``offset`` bytes after ``base``."""
    return f"{base} + {offset}" if offset else base


def layer_arenas(step: LayerStep) -> tuple[str, ...]:
    """Return the arenas that a layer uses, as parameters or arguments of its function."""
    moved = (t for t in (*step.inputs, step.output) if t.form != Form.RESIDENT)
    memories = {t.place.memory for t in moved}
    if _loads_from_l2(step) or (step.ahead is not None and step.ahead.fetched):
        memories.add(0)
    l1 = ("l1",) if step.l1 or step.found or step.ahead is not None else ()
    return (*l1, *(str(l2_memory(memory)) for memory in sorted(memories)))


def _loads_from_l2(step: LayerStep) -> bool:
    """Return True when a layer itself loads constants that were fetched to L2."""
    if step.weights is None or step.weights.linked:
        return False
    blocks = [block for chunk in step.weights.chunks for row in chunk.tiles for block in row]
    return len(blocks) > 1 or not step.loaded_ahead


def function_parameters(step: LayerStep, function: LayerFunction) -> str:
    """Return the C parameters of the function that runs a step.

    They are the arenas, the row of the layer when several layers run the function, the number of
    the part when the layer has several, and the ticket that one layer leaves for the next.
    """
    row = ("uint32_t row",) if function.is_shared else ()
    number = ("uint32_t number",) if len(step.parts) > 1 else ()
    ahead = (f"dory_ticket_t *{AHEAD}",) if step.hands_on else ()
    arenas = (f"uint8_t *{name}" for name in layer_arenas(step))
    return ", ".join((*arenas, *row, *number, *ahead))
