"""A network file becomes an application directory: the stages, test vectors, files."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dory_core.codegen.float_border import with_float_border
from dory_core.driver.pipeline import IMPORTED, PASSES, Dump, Source, passes_of, run
from dory_core.driver.setup import Setup, Watch, setup_for
from dory_core.errors import DoesNotFit, UsageError, VerificationFailed
from dory_core.golden.vectors import Vector
from dory_core.hardware.options import INPUT_ROWS, KEEP_CONSTANT_CHANNELS, OUTPUT_ROWS
from dory_core.hardware.target import OutputFile, TargetContext
from dory_core.ir import Graph
from dory_core.passes import run_passes
from dory_core.passes.extract import extract_layer
from dory_core.passes.order import numbered_order
from dory_core.plan import DEFAULT_PREFIX, Plan
from dory_core.plan.budgets import check_tensors
from dory_core.plugins.manager import Plugins
from dory_core.tiling.network import Progress

if TYPE_CHECKING:
    from dory_core.golden.layers import Golden, GoldenReport
    from dory_core.golden.tensors import Compared, TensorGolden

GRAPH_FILE = "vectors/graph.txt"
#: Random inferences of a network with state.
_RANDOM_SEQUENCE = 3

_LOG = logging.getLogger("dory")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of a compilation.

    Attributes:
        network: File of the network.
        target: Name of the target.
        frontend: Name of the frontend.
        input_bits: Bits of the network input where the file does not state them.
        input_signed: Signedness of the network input where the file does not state it.
        budgets: Bytes by level number.
        settings: Target options as text.
        output: Directory of the application.
        objective: What is made best: ``cycles`` (or ``heuristic``), ``latency`` (with tiles of the
            fewest cycles) or ``ram`` (the fewest bytes of L2, of such plans the fastest).
        layer: Index of the only layer to emit, None for the whole network.
        golden: Folders or .npz files of test vectors.
        input: File with a test input.
        input_layout: Layout of the arrays of the input, ``hwc`` or ``chw``; empty when not given.
        plan_only: True to plan without writing an application.
        prefix: Prefix of all public names in C.
        float_io: True for an application with float input and output.
        dump_stages: Directory for the result of each stage.
        l2_reserve: Bytes of L2 that the surrounding program needs.
        deployable_only: True to refuse an application that cannot run on the chip.
    """

    network: Path
    target: str
    frontend: str
    output: Path | None = None
    golden: tuple[Path, ...] = ()
    input: Path | None = None
    input_layout: str = ""
    input_bits: int = 8
    input_signed: bool = False
    budgets: Mapping[int, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    layer: int | None = None
    float_io: bool = False
    objective: str = "heuristic"
    plan_only: bool = False
    dump_stages: Path | None = None
    prefix: str = DEFAULT_PREFIX
    l2_reserve: int = 0
    deployable_only: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "budgets", MappingProxyType(dict(self.budgets)))
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    @property
    def source(self) -> Source:
        """The network file and its frontend."""
        return Source(self.network, self.frontend, self.input_bits, self.input_signed)

    def setup(
        self, plugins: Plugins, progress: Progress | None = None, watch: Watch | None = None
    ) -> Setup:
        """Return the data that the stages share; raises UsageError for unknown names and sizes.

        A layer that is emitted as a function keeps all channels and stays a layer, because its
        caller reads its output.
        """
        kept = {} if self.layer is None else {KEEP_CONSTANT_CHANNELS.name: "yes"}
        setup = setup_for(
            plugins,
            self.target,
            {**self.settings, **kept},
            self.budgets,
            frontend=self.frontend,
            objective=self.objective,
            progress=progress,
            watch=watch,
            prefix=self.prefix,
            l2_reserve=self.l2_reserve,
        )
        return replace(setup, joins=self.layer is None)


@dataclass(frozen=True, slots=True)
class CompileResult:
    """The result of a compilation.

    Attributes:
        plan: The plan of the network.
        output: Directory of the application, None when the network was only planned.
        golden: Layers that goldens confirmed, None without a golden.
        passes: Names of the passes, in order.
    """

    plan: Plan
    graph: Graph
    output: Path | None
    golden: GoldenReport | None
    passes: tuple[str, ...] = ()

    @property
    def golden_exact(self) -> bool | None:
        """True when the imported Graph reproduces the goldens, None without a golden."""
        return None if self.golden is None else True


def plan_only(options: CompileOptions, plugins: Plugins) -> Plan:
    """Import and plan ``options.network``; compute no values and write nothing.

    Raises: the errors of each stage.
    """
    plan: Plan = run(options.source, options.setup(plugins))
    return plan


def compile_network(
    options: CompileOptions, plugins: Plugins, progress: Progress | None = None
) -> CompileResult:
    """Compile ``options.network`` and write the application; raises the errors of each stage.

    Nothing is written before everything has succeeded.
    """
    from dory_core.codegen.writer import check_destination

    if options.output is not None and not options.plan_only:
        check_destination(options.output)
    dump = Dump(options.dump_stages) if options.dump_stages is not None else None
    setup = options.setup(plugins, progress=progress, watch=dump)
    by_rows = any(setup.ctx.options.get(one.name) for one in (INPUT_ROWS, OUTPUT_ROWS))
    if options.float_io and by_rows:
        raise UsageError(
            "--float-io converts whole inputs and outputs, which do not exist where rows pass",
            "leave it out and convert each row, or leave --input-rows and --output-rows out",
        )
    if progress is not None:
        progress("import", 0, 1)
    imported = run(options.source, setup, until=IMPORTED)
    graph = run(imported, setup, after=IMPORTED, until=PASSES)
    graph, vectors, golden = with_vectors(imported, graph, options, setup)
    if options.layer is not None:
        graph = extract_layer(graph, options.layer)
        setup.show(f"layer_{options.layer:02d}", graph)
    plan = run(graph, setup, after=PASSES)
    for line in _foreign(plan, plugins.foreign_kernels(options.target)):
        _LOG.info(line)
    if options.deployable_only and not options.plan_only and plan.reason:
        raise DoesNotFit(
            f"the application could not run on the chip: {plan.reason}",
            "lower the budget, or give --not-deployable-ok for one that runs only in simulation",
        )
    if options.float_io:
        frontend = plugins.frontend(options.frontend)
        plan = with_float_border(plan, frontend.ties_even)
    plan = replace(plan, file_digest=_digest(options.network))
    output = None
    if options.output is not None and not options.plan_only:
        if progress is not None:
            progress("write", 0, 1)
        output = options.output
        write_network(output, graph, plan, vectors, plugins, setup.ctx, report=True)
    return CompileResult(plan, graph, output, golden, tuple(p.name for p in passes_of(setup)))


def _digest(network: Path) -> str:
    """Return the SHA-256 of a file as tools print it, of a folder an empty text."""
    if not network.is_file():
        return ""
    with network.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _foreign(plan: Plan, kernels: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each layer whose kernel comes from another plugin than the target's.

    kernels: labels of these plugins by the names of their kernels.
    """
    for plugin in dict.fromkeys(kernels.values()):
        layers = [
            f"{step.index:02d} ({step.kernel.name})"
            for step in plan.steps
            if kernels.get(step.kernel.name) == plugin
        ]
        computed = f"layers {', '.join(layers)}" if layers else "no layer"
        yield f"kernels of plugin {plugin} compute {computed}"


def with_vectors(
    imported: Graph, graph: Graph, options: CompileOptions, setup: Setup
) -> tuple[Graph, tuple[Vector, ...], GoldenReport | None]:
    """Return the network after the passes, its test vectors, and the report of goldens.

    Goldens are compared with the network after all exact passes that join no layers, whose vectors
    have every layer. When a pass changes values, the vectors are those of ``graph``, and its notes
    say how it differs. Raises: the errors of :func:`make_vectors`, and DoesNotFit for a tensor
    beyond all memories of the target.
    """
    if options.layer is None:  # before the vectors, which may be larger than the machine's memory
        check_tensors(graph, setup.ctx.memory, setup.budgets)
    passes = passes_of(setup)
    compared = [step for step in passes if step.exact and not step.joins]
    if all(step.exact for step in passes):
        whole = len(graph.ops) == len(imported.ops)
        return graph, *_make_vectors(graph if whole else run_passes(compared, imported), options)
    from dory_core.golden.approximation import measure

    exact = run_passes(compared, imported)
    vectors, confirmed = _make_vectors(exact, options)
    return *measure(exact, graph, vectors), confirmed


def _make_vectors(
    graph: Graph, options: CompileOptions
) -> tuple[tuple[Vector, ...], GoldenReport | None]:
    from dory_core.golden.inputs import read_inputs

    if options.input is None or options.golden:
        return make_vectors(graph, options.golden)
    given = read_inputs(options.input, graph, options.input_layout)
    _LOG.info(given[0].done)
    return make_vectors(graph, (), [one.values for one in given])


def make_vectors(
    graph: Graph, goldens: Sequence[Path], inputs: Iterable[Vector] = ()
) -> tuple[tuple[Vector, ...], GoldenReport | None]:
    """Return the test vectors and the report of goldens (None without goldens).

    Vectors come from goldens, which are compared layer by layer with the reference executor.
    Without goldens they come from the reference executor on the given inputs or on seeded random
    ones, several for a network with state. State passes from one inference of a golden to the next,
    and from one given input to the next.

    Raises: VerificationFailed naming the first layer and element that differ.
    """
    from dory_core.ir import reference

    graph = numbered_order(graph)
    if not goldens:
        sequence = inputs or [
            reference.random_inputs(graph, seed)
            for seed in range(_RANDOM_SEQUENCE if graph.states else 1)
        ]
        return tuple(reference.run_sequence(graph, sequence)), None
    from dory_core.golden.layers import read_goldens, report

    vectors: list[Vector] = []
    compared: list[Sequence[Compared]] = []
    for path in goldens:
        for values, layers in _confirmed(graph, read_goldens(path)):
            vectors.append(values)
            compared.append(layers)
    return tuple(vectors), report(graph.reference, compared)


def _confirmed(
    graph: Graph, goldens: Sequence[Golden | TensorGolden]
) -> Iterator[tuple[Vector, tuple[Compared, ...]]]:
    """Yield the vectors of the inferences of one golden, in order.

    When the golden does not hold the state before an inference, this is the state that the previous
    inference left, or the initial state where only that reproduces the golden.

    Raises: VerificationFailed like :func:`make_vectors`.
    """
    from dory_core.ir import reference

    values: Vector = {}
    for number, golden in enumerate(goldens):
        begins, inputs = golden.begins(graph), golden.values_of_inputs(graph)
        state = None if begins else reference.next_state(graph, values)
        values = reference.run(graph, inputs, state)
        compared = golden.compare(graph, values)
        if begins is None and not all(one.result.exact for one in compared):
            restarted = reference.run(graph, inputs)
            others = golden.compare(graph, restarted)
            if all(one.result.exact for one in others):
                values, compared = restarted, others
        for layer in (one.result for one in compared):
            if layer.first is not None:
                at = layer.first
                where = f" in run {number}" if len(goldens) > 1 else ""
                raise VerificationFailed(
                    f"the imported network does not reproduce {golden.source}{where}: layer "
                    f"{layer.index} '{layer.name}' differs in {layer.mismatches} values, "
                    f"first at (c, h, w) = ({at.c}, {at.h}, {at.w}): expected {at.expected}, "
                    f"got {at.got}",
                    "check --frontend, --input-bits and --input-signed, and that the golden "
                    "belongs to this file",
                )
        yield values, compared


def write_network(
    output: Path,
    graph: Graph,
    plan: Plan,
    vectors: Sequence[Vector],
    plugins: Plugins,
    ctx: TargetContext,
    *,
    report: bool = False,
) -> None:
    """Write the application of ``plan`` with its vectors; raises UsageError.

    report: True to write also the files of ``dory_reports``.
    """
    from dory_core.codegen.application import application_files
    from dory_core.codegen.application_record import application_record
    from dory_core.codegen.writer import write_application
    from dory_core.golden.vectors import vector_files
    from dory_core.ir.text import graph_text

    graph = numbered_order(graph)
    provided = plugins.application(ctx, application_record(plan))
    files = application_files((*plan.files, *provided), plan)
    files += vector_files(graph, vectors, floats=plan.float_io)
    files += (OutputFile(GRAPH_FILE, graph_text(graph, constants=True)),)
    if report:
        taken = {file.path for file in files}
        files += plugins.reports(plan.to_json(), plan.timeline_json(), taken)
    write_application(output, files)
