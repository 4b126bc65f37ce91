"""Layers in words, for comments and tables."""

from __future__ import annotations

from collections.abc import Iterable

from dory_core.kernels.kernel import Traits
from dory_core.plan import Form, LayerStep, OperandPlan, Plan
from dory_core.plan.operations import Copy, LayerProgram, Wait, all_operations
from dory_core.quoting import shortened


def describe_step(plan: Plan, step: LayerStep) -> tuple[str, ...]:
    """Return the tensors, tiles, memory and arithmetic of a layer, a line each."""
    schedule, tile, ranges = step.schedule, step.tiling.tile, step.layer.ranges
    lines = [_tensor_line("input", transfer) for transfer in step.inputs]
    lines.append(_tensor_line("output", step.output))
    lines += [
        f"kept      {shortened(p.tensor.name)}, {p.size_bytes} B at {p.offset} of L1, "
        "for a later layer"
        for p in step.kept
    ]
    if step.weights is not None:
        chunks = step.weights.chunks
        blocks = sum(len(outputs) for chunk in chunks for outputs in chunk.tiles)
        line = f"constants {step.weights.size} B in L{step.weights.level}, {_many(blocks, 'block')}"
        line += f", {len(chunks)} chunks" if len(chunks) > 1 else ""
        lines.append(line + _fetched(step.kernel.fetches))
    if len(step.parts) > 1:
        lines.append(f"parts     {len(step.parts)}, each with a tile loop of its own")
    lines += [
        f"tile      {tile.c_out} x {tile.h} x {tile.w} (C x H x W), {tile.c_in} input channels",
        f"loop      {_many(schedule.count, 'tile')}: "
        + ", ".join(f"{n} {len(getattr(schedule, n))}" for n in schedule.order.axes),
        f"L1        {step.l1_bytes} of {plan.levels[0].budget} B"
        + _listed(f"{b.name} {b.bytes} at {' and '.join(map(str, b.offsets))}" for b in step.l1),
        f"kernel    {step.kernel.symbol}",
        f"estimate  {step.estimate.cycles} cycles, bound by {step.estimate.bound}",
    ]
    if ranges.bits:
        lines.append(
            f"requant   {ranges.bits} bits: accumulator in [{ranges.acc_lo}, {ranges.acc_hi}], "
            f"mul * acc + add in [{ranges.value_lo}, {ranges.value_hi}]"
        )
    return tuple(lines)


def who_runs(plan: Plan, program: LayerProgram) -> str:
    """Return which cores run a layer and move its data."""
    operations = tuple(all_operations(program))
    copies = [op for op in operations if isinstance(op, Copy)]
    nothing = "Nothing is moved."
    if any(isinstance(op, Wait) for op in operations):
        nothing = "It waits for its constants, which an earlier layer has started to load."
    if plan.cores == 1:
        return "" if copies else nothing
    everyone = "Every core of the cluster calls it"
    if not copies:
        return f"{everyone}. {nothing}"
    if all(copy.carriage.by_cores for copy in copies):
        return f"{everyone} and copies its share of the data."
    own = "share of some of it" if any(c.carriage.by_cores for c in copies) else "channels"
    exception = f" except that each core copies its own {own}"
    each = any(copy.each_core for copy in copies)
    return f"{everyone}; core 0 moves the data{exception if each else ''}."


def _tensor_line(what: str, transfer: OperandPlan) -> str:
    tensor = transfer.place.tensor
    shape = " x ".join(str(n) for n in tensor.shape)
    return (
        f"{what:9} {shortened(tensor.name)} {tensor.type_name} {shape} (C x H x W), "
        f"L{transfer.place.level} + {transfer.place.offset}"
        f"{f' of memory {transfer.place.memory}' if transfer.place.memory else ''}, "
        f"{'' if transfer.layout.is_hwc else f'layout {transfer.layout.name}, '}"
        f"{_FORMS.get(transfer.form, f'by {transfer.form}')}"
    )


_FORMS = {Form.IN_PLACE: Form.IN_PLACE, Form.RESIDENT: "not moved"}


def _listed(texts: Iterable[str]) -> str:
    """Return texts as a list that follows a colon, nothing where there are none."""
    text = ", ".join(texts)
    return f": {text}" if text else ""


def _fetched(role: str) -> str:
    """Return how a kernel gets constants that are not loaded; empty for others."""
    if role == Traits.LINKED:
        return ", read where they are"
    return f", fetched by the kernel (memory for {role})" if role else ""


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
