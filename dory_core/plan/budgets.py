"""How many bytes of each memory level a network may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from dory_core.errors import DoesNotFit, UsageError
from dory_core.hardware.memories import Level, MemoryHierarchy

if TYPE_CHECKING:
    from dory_core.ir import Graph, Layer, Tensor

#: Names of budgets on the command line, with the numbers of their levels.
BUDGET_NAMES = {"l1": 1, "l2": 2, "l3": 3}
_SMALLER = "make the image smaller, or take a target with more memory"
#: Level of whose bytes ``--l2-reserve`` keeps some.
RESERVED_LEVEL = 2
#: Least budget that is proposed for applications that run only in the simulation.
_SIMULATED_MIB = 16
#: Sizes of arenas are uint32_t in C.
MOST_BYTES = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Budgets:
    """The bytes that the network may use.

    Attributes:
        bytes: By level number.
        reason: Why an application with these budgets cannot run on the chip, empty when it can.
        reserve: Bytes of L2 that the program around the network keeps in addition to its code.
    """

    bytes: Mapping[int, int]
    reason: str = ""
    reserve: int = 0

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

    A budget above the default is legal, but the application is then not deployable.

    Args:
        hierarchy: The memories of the target.
        wanted: Bytes that the user asked for, by level number.
        l2_reserve: Bytes of L2 that the default leaves to the program around the network.

    Raises:
        UsageError: For a level that the target lacks, a size that is not from 1 to MOST_BYTES, or a
            reserve that leaves nothing or stands next to a budget of L2.
    """
    budgets = {level.number: level.usable_bytes for level in hierarchy.levels}
    if l2_reserve:
        budgets[RESERVED_LEVEL] = _less(l2_reserve, budgets, wanted)
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
    return Budgets(budgets, "; ".join(reasons), l2_reserve)


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
    """Refuse networks that no plan fits, before tiles are searched and test vectors are made.

    Of a tensor between layers, a row may be all that lies in memory. What exceeds a budget below
    that of the chip is left to the planner, which knows all that is needed.

    Raises:
        DoesNotFit: For a tensor that is larger than every memory in which one lies whole, for a
            layer whose input and output exceed L2 where nothing lies below it, and for more layers
            than a memory has room for code.
    """
    for level in hierarchy.levels:
        check_code(level, Code(len(graph.ops), least_functions(graph)), budgets)
    sizes = {
        level.name: max(budgets.bytes[level.number], level.usable_bytes)
        for level in hierarchy.levels
        if level.number > 1 and not all(memory.mapped for memory in level.memories)
    }
    name, most = max(sizes.items(), key=lambda item: item[1])
    largest = next(level for level in hierarchy.levels if level.name == name)
    small = max(budgets.bytes[1], hierarchy.level(1).usable_bytes)  # what may stay in L1
    whole = {*graph.sources, *graph.sinks} if len(sizes) == 1 else graph.tensors.keys()
    for typed in graph.layers:
        for role, tensor in (*(("input", x) for x in typed.inputs), ("output", typed.output)):
            if _least_bytes(tensor, whole) > most:
                raise DoesNotFit(
                    f"layer {typed.op.index} {typed.op.kind} '{typed.op.name}': its {role}"
                    f" of {tensor.channels} x {tensor.height} x {tensor.width} needs"
                    f" {tensor.size_bytes} B, {name} offers {most} B",
                    _way_out(largest, tensor.size_bytes),
                )
    for typed in graph.layers if len(sizes) == 1 else ():
        pair = [tensor for tensor in _apart(graph, typed) if tensor.size_bytes > small]
        least = [_least_bytes(tensor, whole) for tensor in pair]
        needed = sum(least)
        if needed > most:
            raise DoesNotFit(
                f"layer {typed.op.index} {typed.op.kind} '{typed.op.name}' needs {needed} B of"
                f" {name} for its input of {least[0]} B and its output of {least[1]} B,"
                f" {most} B are available",
                _way_out(largest, needed),
            )


def _least_bytes(tensor: Tensor, whole: Collection[str]) -> int:
    """Return the least bytes of a tensor in memory: a row of it, a column where it has one row.

    Args:
        tensor: The tensor.
        whole: Names of the tensors that lie in memory as a whole.
    """
    if tensor.name in whole:
        return tensor.size_bytes
    return tensor.size_bytes // (tensor.height if tensor.height > 1 else tensor.width)


def _apart(graph: Graph, typed: Layer) -> tuple[Tensor, ...]:
    """Return the largest input of a layer and its output where they lie apart at the same time."""
    states = {name for state in graph.states for name in (state.read, state.written)}
    pair = (max(typed.inputs, key=lambda tensor: tensor.size_bytes), typed.output)
    one_place = typed.op.is_view or any(tensor.name in states for tensor in pair)
    return () if one_place else pair


def _way_out(level: Level, needed: int) -> str:
    """Return the hint for a network with a tensor that is too large for a level."""
    ways = (level.remedy, _SMALLER) if level.remedy else (_SMALLER,)
    return f"{', or '.join(ways)}; {for_simulation(level.number, needed)}"


def more_room(level: Level, needed: int) -> str:
    """Return the hint for a network that needs a number of bytes of a level."""
    has_budget = level.number in BUDGET_NAMES.values()
    ways = [f"raise --l{level.number} if the chip has more"] if has_budget else []
    ways += [way for way in (level.remedy, "make the network smaller") if way]
    simulated = f"; {for_simulation(level.number, needed)}" if has_budget else ""
    return f"{', or '.join(ways)}{simulated}"


def for_simulation(level: int, needed: int) -> str:
    """Return the options that write an application which needs a number of bytes of a level."""
    size = _SIMULATED_MIB
    while size << 20 < 2 * needed:
        size *= 2
    return f"`--l{level} {size}M --not-deployable-ok` writes it for the simulation"


def least_functions(graph: Graph) -> int:
    """Return how many functions the layers of a network run at least.

    Layers of different kinds, windows or tensors never run the same one.
    """
    kinds = set()
    for typed in graph.layers:
        tensors = tuple((t.shape, t.type_name) for t in (*typed.inputs, typed.output))
        op = typed.op
        kinds.add((op.kind, getattr(op, "window", None), getattr(op, "groups", 1), tensors))
    return len(kinds)


@dataclass(frozen=True, slots=True)
class Code:
    """The code of a network, as far as it is known.

    Attributes:
        layers: Number of layers.
        functions: Number of functions that they run.
        kernels: Bytes of the kernels that they call.
        measured: Bytes of all code of a plan of the network, None before there is one.
    """

    layers: int
    functions: int
    kernels: int = 0
    measured: int | None = None

    def bytes_in(self, level: Level, streamed: bool) -> int:
        """Return the bytes that it takes of a level."""
        if self.measured is not None:
            return self.measured
        room = level.room_bytes(self.layers, streamed, self.functions)
        return level.usable_bytes - room + self.kernels

    def text(self, level: Level, streamed: bool) -> str:
        """Return the sentence that says how many bytes of a level it takes."""
        what = " with their kernels" if self.kernels else ""
        what += " that are streamed" if streamed else ""
        alone = Code(self.layers, self.layers, self.kernels)
        if self.bytes_in(level, streamed) != alone.bytes_in(level, streamed):
            what += f" in {self.functions} function{'s' if self.functions != 1 else ''}"
        taken = self.bytes_in(level, streamed)
        layers = f"{self.layers} layer{'s' if self.layers != 1 else ''}"
        return f"the code of {layers}{what} takes {taken} B of {level.name}"

    def hint(self, level: Level, budgets: Budgets) -> str:
        """Return the way out where it takes the room that data need."""
        simulated = for_simulation(level.number, level.usable_bytes)
        if budgets.reserve:
            return (
                f"give a smaller --l2-reserve than {budgets.reserve}: code lies in {level.name} "
                f"beside the data and what is reserved; in its place {simulated}"
            )
        return (
            f"the network has too many layers: {self.layers}. Code lies in {level.name} beside the "
            f"data, so that a larger --l{level.number} does not help: take fewer layers, or a "
            f"target with more memory; {simulated}"
        )


def check_code(level: Level, code: Code, budgets: Budgets, streamed: bool = False) -> None:
    """Refuse a network whose code leaves a level no byte for its data.

    Budgets that the chip does not have are not checked: nothing else will run with them.

    Args:
        level: The level.
        code: The code, as far as it is known.
        budgets: Bytes of each level.
        streamed: Whether the network is streamed, which takes more code.

    Raises:
        DoesNotFit: When no byte is left.
    """
    left = level.usable_bytes - (budgets.reserve if level.number == RESERVED_LEVEL else 0)
    if budgets.reason or left > code.bytes_in(level, streamed):
        return
    text = code.text(level, streamed)
    raise DoesNotFit(f"{text}, {left} B are left to networks", code.hint(level, budgets))
