"""How many bytes the C of a network takes, counted from its program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dory_core.hardware.code_sizes import CodeSizes
from dory_core.kernels.call import FunctionCall, Local
from dory_core.plan import LayerStep
from dory_core.plan.network_operations import ExtStart, ExtWait, Program, Report, RunPart
from dory_core.plan.operations import (
    Barrier,
    Call,
    Copy,
    LayerFunction,
    Loop,
    Operation,
    Wait,
    When,
)

#: Operations that are entries of the table of a streamed network.
_EVENTS = (ExtStart, ExtWait, Report, RunPart)


def program_bytes(program: Program, steps: Sequence[LayerStep], sizes: CodeSizes) -> int:
    """Return the bytes of the functions and tables of a network, kernels apart."""
    functions = sum(function_bytes(one, steps, sizes) for one in program.functions)
    events = sizes.event * event_count(program)
    return sizes.network + sizes.layer * len(steps) + functions + events


def event_count(program: Program) -> int:
    """Return the entries of the table of transfers; 0 without a table.

    Two of them end what is before the first part and after the last one.
    """
    if not any(isinstance(one, ExtStart) for one in program.operations):
        return 0
    return 2 + sum(isinstance(one, _EVENTS) for one in program.operations)


def function_bytes(function: LayerFunction, steps: Sequence[LayerStep], sizes: CodeSizes) -> int:
    """Return the bytes of a function and its tables by the rule of a target."""
    held = Counter[str]()
    _count(function.program.operations, held)
    rows = len(function.steps)
    numbers = sum(len(column) for columns in function.columns.values() for column in columns)
    return (
        sizes.function
        + sizes.copy * held["copy"]
        + sizes.wait * held["wait"]
        + sizes.barrier * held["barrier"]
        + sizes.condition * held["condition"]
        + sizes.axis * held["axis"]
        + sizes.part * sum(len(steps[n].parts) for n in function.steps)
        + sizes.row * (rows if rows > 1 else 0)
        + sizes.number * numbers
        + sizes.line * held["line"]
    )


def _count(operations: Iterable[Operation], held: Counter[str]) -> None:
    for one in operations:
        if isinstance(one, Copy):
            held["copy"] += 1
        elif isinstance(one, Wait):
            held["wait"] += 1
        elif isinstance(one, Barrier):
            held["barrier"] += 1
        elif isinstance(one, When):
            held["condition"] += 1
            _count(one.body, held)
        elif isinstance(one, Call):
            held["line"] += sum(map(_lines, (*one.call.before, *one.call.after)))
        elif isinstance(one, Loop):
            held["axis"] += len(one.axes)
            _count(one.body, held)


def _lines(one: Local | FunctionCall) -> int:
    """Return the lines of a statement before or after the call of a kernel."""
    return one.rows + 2 if isinstance(one, Local) and one.rows else 1
