"""Mutants of plans: one other number, order or operation in the plan, before it is printed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from dory_core.checks.contents import verify_contents
from dory_core.expr import Expr
from dory_core.ir import Layer, Tensor
from dory_core.ir.layout import Layout
from dory_core.kernels.call import FunctionCall
from dory_core.plan import KernelCall, LayerStep, Plan
from dory_core.plan.lower import lower_layer
from dory_core.plan.network_operations import Dead, Program, Report
from dory_core.plan.operations import (
    Barrier,
    Call,
    Copy,
    LayerFunction,
    LayerProgram,
    Loop,
    Mark,
    Wait,
    When,
)
from dory_core.plan.share import layer_functions
from dory_core.schedule.tiling import Tiling
from dory_core.schedule.timeline import LayerEstimate, PartTimeline

#: What no mutant changes: constants of the network, text, and what the simulation alone reads.
_LEFT_ALONE = (
    *(Layer, Tensor, Layout, FunctionCall, KernelCall, LayerEstimate, PartTimeline, Tiling),
    *(Mark, Dead, Report, str, bytes),
)
_OPERATIONS = (Barrier, Call, Copy, Loop, Wait, When)
#: Fields that only comments, reports and estimates read.
_SILENT = frozenset({"report", "cycles", "name", "operand", "of"})

Change = tuple[str, Callable[[], Any]]


def changes(value: Any, where: str = "") -> Iterator[Change]:
    """Yield what one change makes of a value: how it is called, and a function that makes it."""
    if isinstance(value, bool):
        yield f"{where}: {value} becomes {not value}", lambda: not value
    elif isinstance(value, (int, Expr)):
        for step in (-1, 1, 4):
            yield f"{where}: {value!r} becomes {step:+} of it", lambda step=step: value + step
    elif isinstance(value, tuple):
        yield from _of_tuple(value, where)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            for text, make in changes(item, f"{where}[{key}]"):
                yield text, lambda make=make, key=key: {**value, key: make()}
    elif hasattr(type(value), "__dataclass_fields__") and not isinstance(value, _LEFT_ALONE):
        name = type(value).__name__
        for field in fields(value):
            if field.name in _SILENT or not field.init:
                continue
            for text, make in changes(getattr(value, field.name), f"{where}.{name}.{field.name}"):
                yield text, lambda make=make, name=field.name: replace(value, **{name: make()})


def _of_tuple(value: tuple[Any, ...], where: str) -> Iterator[Change]:
    for n, item in enumerate(value):
        for text, make in changes(item, f"{where}[{n}]"):
            yield text, lambda make=make, n=n: (*value[:n], make(), *value[n + 1 :])
        if isinstance(item, _OPERATIONS):
            name = f"{where}[{n}] {type(item).__name__}"
            yield f"{name} is left out", lambda n=n: (*value[:n], *value[n + 1 :])
            after = value[n + 1 : n + 2]
            if after and isinstance(after[0], _OPERATIONS):
                other = type(after[0]).__name__
                yield (
                    f"{name} comes after {other}",
                    lambda n=n: (*value[:n], value[n + 1], value[n], *value[n + 2 :]),
                )


def _program(plan: Plan, steps: tuple[LayerStep, ...], layers: tuple[LayerProgram, ...]) -> Program:
    """Return the program of other layers, whose functions are made anew."""
    return Program(plan.program.operations, layers, layer_functions(steps, layers))


def unshared(plan: Plan) -> Plan:
    """Return a plan of which each layer has a function of its own."""
    layers = plan.program.layers
    own = [n for n, step in enumerate(plan.steps) if not step.is_view]
    functions = tuple(LayerFunction((n,), layers[n]) for n in own)
    return replace(plan, program=replace(plan.program, functions=functions))


def mutants(plan: Plan, draw: random.Random) -> tuple[str, Callable[[], Plan]]:
    """Return one change of a plan: of the operations, or of a layer before they are made of it."""
    kind = draw.choice(["layer program", "network", "step", "step"])
    if kind == "network":
        operations = plan.program.operations
        found = list(changes(operations, "network"))
        for n in range(len(operations) - 1):
            if isinstance(operations[n], (Dead, Report)) or isinstance(
                operations[n + 1], (Dead, Report)
            ):
                continue
            text = f"network[{n}] {type(operations[n]).__name__} comes after the next operation"
            swapped = (*operations[:n], operations[n + 1], operations[n], *operations[n + 2 :])
            found.append((text, lambda swapped=swapped: swapped))
        text, make = draw.choice(found)
        return text, lambda: replace(plan, program=replace(plan.program, operations=make()))
    number = draw.randrange(len(plan.steps))
    layers = plan.program.layers
    if kind == "layer program":
        found = list(changes(layers[number], f"program {number}"))
        text, make = draw.choice(found)

        def of_program() -> Plan:
            changed = (*layers[:number], make(), *layers[number + 1 :])
            return replace(plan, program=_program(plan, plan.steps, changed))

        return text, of_program
    steps = plan.steps
    text, make = draw.choice(list(changes(steps[number], f"step {number}")))

    def of_step() -> Plan:
        step = make()
        lowered = lower_layer(step, plan.any_core and plan.cores > 1)
        changed = (*layers[:number], lowered, *layers[number + 1 :])
        others = (*steps[:number], step, *steps[number + 1 :])
        return replace(plan, steps=others, program=_program(plan, others, changed))

    return text, of_step


def verify(plan: Plan) -> None:
    """Check a plan as the planner does at its end; raises DoryError."""
    verify_contents(plan.program, plan.steps)
