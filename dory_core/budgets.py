"""How many bytes of each memory level a network may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from dory_core.errors import DoesNotFit, UsageError
from dory_core.hardware import Level, MemoryHierarchy

if TYPE_CHECKING:
    from dory_core.ir import Graph

#: Names of budgets on the command line, with the numbers of their levels.
BUDGET_NAMES = {"l1": 1, "l2": 2, "l3": 3}
#: Sizes of arenas are uint32_t in C.
MOST_BYTES = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Budgets:
    """Bytes usable by the network per level number.

    reason: why an application with these budgets cannot run on the chip, empty when it can.
    """

    bytes: Mapping[int, int]
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", MappingProxyType(dict(self.bytes)))


def memory_budgets(hierarchy: MemoryHierarchy, number: int, budget: int) -> tuple[int, ...]:
    """Return how ``budget`` bytes of a level are spread over its memories.

    Memories are filled in their order; what exceeds them all is added to the first.
    """
    sizes = []
    left = budget
    for memory in hierarchy.level(number).memories:
        sizes.append(min(left, memory.usable_bytes))
        left -= sizes[-1]
    sizes[0] += left
    return tuple(sizes)


def resolve_budgets(
    hierarchy: MemoryHierarchy, wanted: Mapping[int, int], l2_reserve: int = 0
) -> Budgets:
    """Return the budgets of all levels: what the user asked for, else size minus reserved.

    l2_reserve: bytes of L2 that the default leaves to the program around the network. A budget
    above the default is legal, but the application is then not deployable. Raises UsageError for a
    level that the target lacks, a size that is not from 1 to MOST_BYTES, or a reserve that leaves
    nothing or stands beside a budget of L2.
    """
    budgets = {level.number: level.usable_bytes for level in hierarchy.levels}
    if l2_reserve:
        budgets[2] = _less(l2_reserve, budgets, wanted)
    reasons = []
    for number, size in wanted.items():
        if number not in budgets:
            known = ", ".join(level.name for level in hierarchy.levels)
            raise UsageError(f"the target has no memory level L{number}", f"it has {known}")
        if not 0 < size <= MOST_BYTES:
            raise UsageError(
                f"--l{number} {size}: a budget is a number of bytes from 1 to {MOST_BYTES}",
                f"the target offers {budgets[number]} bytes of L{number} to networks",
            )
        level = hierarchy.level(number)
        if size > budgets[number]:
            total = level.size_bytes
            reasons.append(
                f"the {level.name} budget of {size} B exceeds the {level.usable_bytes} B that the "
                f"chip leaves to networks ({total} B less {total - level.usable_bytes} B reserved)"
            )
        budgets[number] = size
    return Budgets(budgets, "; ".join(reasons))


def _less(reserve: int, budgets: Mapping[int, int], wanted: Mapping[int, int]) -> int:
    """Return the budget of L2 less what the program keeps."""
    if 2 not in budgets:
        raise UsageError("--l2-reserve: the target has no L2", "leave the option out")
    if 2 in wanted:
        raise UsageError(
            f"--l2 {wanted[2]} and --l2-reserve {reserve} both set the bytes of L2 for the network",
            "leave one of them out",
        )
    if not 0 < reserve < budgets[2]:
        raise UsageError(
            f"--l2-reserve {reserve} leaves the network nothing",
            f"the target offers {budgets[2]} bytes of L2 in all",
        )
    return budgets[2] - reserve


def check_tensors(graph: Graph, hierarchy: MemoryHierarchy, budgets: Budgets) -> None:
    """Raise DoesNotFit for a tensor that is larger than every memory in which one lies whole, and
    for more layers than a memory has room for code.

    Such a network needs no search for tiles and no test vectors, which may be larger than the
    memory of the machine that searches. What exceeds a budget below that of the chip is left to
    the planner, which knows all that is needed.
    """
    for level in hierarchy.levels:
        check_code(level, len(graph.ops), budgets, functions=least_functions(graph))
    sizes = {
        level.name: max(budgets.bytes[level.number], level.usable_bytes)
        for level in hierarchy.levels
        if level.number > 1 and not all(memory.mapped for memory in level.memories)
    }
    name, most = max(sizes.items(), key=lambda item: item[1])
    for typed in graph.layers:
        for role, tensor in (*(("input", x) for x in typed.inputs), ("output", typed.output)):
            if tensor.size_bytes > most:
                raise DoesNotFit(
                    f"layer {typed.op.index} {typed.op.kind} '{typed.op.name}': its {role}"
                    f" of {tensor.channels} x {tensor.height} x {tensor.width} needs"
                    f" {tensor.size_bytes} B, {name} offers {most} B",
                    "make the image smaller, or take a target with more memory",
                )


def least_functions(graph: Graph) -> int:
    """Return how many functions the layers of a network run at least: layers of different kinds,
    windows or tensors never run the same one."""
    kinds = set()
    for typed in graph.layers:
        tensors = tuple((t.shape, t.type_name) for t in (*typed.inputs, typed.output))
        op = typed.op
        kinds.add((op.kind, getattr(op, "window", None), getattr(op, "groups", 1), tensors))
    return len(kinds)


def check_code(
    level: Level,
    layers: int,
    budgets: Budgets,
    streamed: bool = False,
    functions: int | None = None,
) -> None:
    """Raise DoesNotFit where the code of so many layers leaves a level no byte for their data.

    functions: how many the layers run; None: each its own. Budgets that the chip does not have are
    not checked: nothing else will run with them.
    """
    if budgets.reason or level.room_bytes(layers, streamed, functions) > 0:
        return
    text = code_text(level, layers, streamed, functions)
    raise DoesNotFit(
        f"{text}, the chip leaves {level.usable_bytes} B to networks", code_hint(level, layers)
    )


def code_text(level: Level, layers: int, streamed: bool, functions: int | None = None) -> str:
    """Return the sentence that says how many bytes of a level the code of layers takes."""
    room = level.room_bytes(layers, streamed, functions)
    code = level.usable_bytes - room
    what = "that are streamed " if streamed else ""
    if room != level.room_bytes(layers, streamed):
        what += f"in {functions} function{'s' if functions != 1 else ''} "
    return f"the code of {layers} layers {what}takes {code} B of {level.name}"


def code_hint(level: Level, layers: int) -> str:
    """Return the way out where code takes the room that data need."""
    return (
        f"the network has too many layers: {layers}. Code lies in {level.name} beside the data, so "
        f"that a larger --l{level.number} does not help: take fewer layers, or a target with more "
        "memory"
    )
