"""What the template of a layer prints: one C file per layer."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.codegen.cexpr import comment
from dory_core.codegen.describe import describe_layer, describe_step, who_runs
from dory_core.codegen.printer import LayerText, copies_by_helper, print_layer
from dory_core.plan import LayerStep, Plan
from dory_core.program.lower import lower_layer


@dataclass(frozen=True, slots=True)
class LayerView:
    """What the template prints of a layer.

    header: lines of the comment on top. who: which cores run it. headers: that the kernel's call
    needs. helper: copies are made by functions of dory_copy.h. text: definitions and the layer's
    function.
    """

    index: int
    title: str
    header: tuple[str, ...]
    who: str
    headers: tuple[str, ...]
    helper: bool
    text: LayerText


def layer_view(plan: Plan, step: LayerStep) -> LayerView:
    """Return everything that the template prints for one layer."""
    program = lower_layer(step, plan.any_core and plan.cores > 1)
    return LayerView(
        index=step.index,
        title=f"{comment(step.layer.op.name)}: {describe_layer(step.layer)}",
        header=tuple(comment(line) for line in describe_step(plan, step)),
        who=who_runs(plan, program),
        headers=step.kernel.headers,
        helper=copies_by_helper(step.carriages.values()),
        text=print_layer(step, program, plan.cores),
    )
