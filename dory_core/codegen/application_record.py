"""What targets are told of an application, beside its context: ``dory_application`` receives it."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.plan import Place, Plan
from dory_core.quoting import c_comment


@dataclass(frozen=True, slots=True)
class ApplicationLayer:
    """A layer of an application.

    index: in the order of the file that was read. title: its name, for a comment of C.
    kind: of its operator. engine: that computes it, empty for the cores. inputs, output: where its
    tensors lie. declaration: of its C function; empty for a view, which names bytes anew. row: what
    the function's parameter ``row`` is for this layer; None where no other layer runs it.
    """

    index: int
    title: str
    kind: str
    engine: str
    inputs: tuple[Place, ...]
    output: Place
    declaration: str
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Application:
    """A network as it is compiled for a target.

    title: name of the network, for a comment of C or of a Makefile. prefix: of its public names in
    C, as in ``PREFIX_network_run``. reported: the layers in the
    order in which they are reported, views included. inputs, outputs: of the network. cores: that
    run it. l1_bytes, l2_bytes: of the arenas, as far as they are used, of L2 in the first memory.
    uses_l3: data moves between L2 and L3. l3_file: path of the file with what L3 holds before the
    first inference, empty without one.
    l3_read_only_bytes: from the start of L3, how many lie in a memory for constants alone. cycles:
    estimate of one inference. readme: the README without what the target adds. has_state: tensors
    live from one inference to the next; its vectors then say which of them begin with the initial
    state.
    """

    title: str
    target: str
    prefix: str
    reported: tuple[ApplicationLayer, ...]
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    cores: int
    l1_bytes: int
    l2_bytes: int
    uses_l3: bool
    l3_file: str
    l3_read_only_bytes: int
    cycles: int
    readme: str
    has_state: bool = False

    @property
    def layers(self) -> tuple[ApplicationLayer, ...]:
        """The layers that are computed, in the order of execution."""
        return tuple(layer for layer in self.reported if layer.declaration)

    @property
    def by_index(self) -> tuple[ApplicationLayer, ...]:
        """What is reported, in the order of the file that was read, as vectors are numbered."""
        return tuple(sorted(self.reported, key=lambda layer: layer.index))

    def producer(self, output: Place) -> ApplicationLayer:
        """Return the layer that makes an output of the network. Raises StopIteration."""
        return next(one for one in self.reported if one.output.tensor.name == output.tensor.name)


def application_record(plan: Plan) -> Application:
    """Return what the target is told of a plan."""
    from dory_core.codegen.application import render
    from dory_core.codegen.names import function_parameters, function_symbol
    from dory_core.codegen.network import l3_image_bytes
    from dory_core.planning.constants import L3_IMAGE

    functions = plan.program.by_step

    def declaration(number: int) -> str:
        if number not in functions:
            return ""
        function, _ = functions[number]
        first = plan.steps[function.steps[0]]
        symbol = function_symbol(plan.prefix, first, function)
        return f"void {symbol}({function_parameters(first, function)});"

    def row(number: int) -> int | None:
        function, row = functions.get(number, (None, 0))
        return row if function is not None and function.is_shared else None

    reported = tuple(
        ApplicationLayer(
            step.index,
            c_comment(step.layer.op.name),
            step.layer.op.kind,
            step.kernel.engine,
            tuple(operand.place for operand in step.inputs),
            step.output.place,
            declaration(number),
            row(number),
        )
        for number, step in enumerate(plan.steps)
    )
    return Application(
        title=c_comment(plan.network),
        target=plan.target,
        prefix=plan.prefix,
        reported=reported,
        inputs=plan.inputs,
        outputs=plan.outputs,
        cores=plan.cores,
        l1_bytes=plan.levels[0].used,
        l2_bytes=plan.arena_used,
        uses_l3=bool(plan.transfers),
        l3_file=L3_IMAGE if l3_image_bytes(plan) else "",
        l3_read_only_bytes=plan.constants_apart,
        cycles=plan.cycles,
        readme=render("README.md.mako", plan=plan, chip_hal=True),
        has_state=bool(plan.states),
    )
