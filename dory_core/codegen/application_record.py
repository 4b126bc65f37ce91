"""The record of an application that ``dory_application`` receives in addition to the context."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.expr import Expr
from dory_core.plan import Place, Plan
from dory_core.plan.operations import Copy, Value, all_operations
from dory_core.quoting import c_comment


@dataclass(frozen=True, slots=True)
class CopyShape:
    """The shape of a copy between L2 and L1; of copies whose size differs by tile, of the largest.

    Attributes:
        row_bytes: Bytes of a row.
        rows: Rows of a plane.
        planes: Planes.
        strides: Bytes from row to row and from plane to plane in L2; rows lie dense in L1.
        count: Number of such copies that share a ticket.
    """

    row_bytes: int
    rows: int
    planes: int
    strides: tuple[int, int]
    count: int = 1


@dataclass(frozen=True, slots=True)
class ApplicationLayer:
    """A layer of an application.

    Attributes:
        index: Index in the order of the file that was read.
        title: Name of the layer, for a comment of C.
        kind: Kind of its operator.
        engine: Engine that computes it, empty for the cores.
        inputs: Places of its input tensors.
        output: Place of its output tensor.
        declaration: Declaration of its C function; empty for a view, which moves nothing.
        row: The function's argument ``row`` for this layer; None when no other layer runs the
            function.
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

    Attributes:
        title: Name of the network, for a comment of C or of a Makefile.
        prefix: Prefix of its public names in C, as in ``PREFIX_network_run``.
        reported: The layers in the order in which they are reported, views included.
        inputs: Places of the network's inputs.
        outputs: Places of the network's outputs.
        cores: Number of cores that run it.
        l1_bytes: Used bytes of the arena in L1.
        l2_bytes: Used bytes of the arena in the first memory of L2.
        uses_l3: True when data moves between L2 and L3.
        l3_file: Path of the file with the initial contents of L3, empty without one.
        l3_read_only_bytes: Bytes from the start of L3 that lie in a memory only for constants.
        cycles: Estimated cycles of one inference.
        readme: The README, without the target's part.
        has_state: True when tensors are kept from one inference to the next; the vectors then say
            which of them start from the initial state.
        copies: Shapes of the copies between L2 and L1, each once.
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
    copies: tuple[CopyShape, ...] = ()

    @property
    def layers(self) -> tuple[ApplicationLayer, ...]:
        """The computed layers, in the order of execution."""
        return tuple(layer for layer in self.reported if layer.declaration)

    @property
    def by_index(self) -> tuple[ApplicationLayer, ...]:
        """The reported layers in the order of the file that was read, as vectors are numbered."""
        return tuple(sorted(self.reported, key=lambda layer: layer.index))

    def producer(self, output: Place) -> ApplicationLayer:
        """Return the layer that computes an output of the network. Raises StopIteration."""
        return next(one for one in self.reported if one.output.tensor.name == output.tensor.name)


def application_record(plan: Plan) -> Application:
    """Return the record of a plan for the target."""
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
        copies=_copy_shapes(plan),
    )


def _copy_shapes(plan: Plan) -> tuple[CopyShape, ...]:
    found = (
        _copy_shape(one)
        for program in plan.program.layers
        for one in all_operations(program)
        if isinstance(one, Copy)
    )
    return tuple(dict.fromkeys(found))


def _copy_shape(copy: Copy) -> CopyShape:
    elements, rows, planes = map(_most, copy.shape)
    count = 1 if copy.channels is None else _most(copy.channels)
    return CopyShape(elements * copy.element_bytes, rows, planes, copy.l2_strides, count)


def _most(value: Value) -> int:
    return value.bounds[1] if isinstance(value, Expr) else value
