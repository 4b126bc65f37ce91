"""The pipeline: an ONNX file becomes an application directory, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dory_core.budgets import Budgets, check_tensors, resolve_budgets
from dory_core.errors import VerificationFailed
from dory_core.hardware import OutputFile, TargetContext
from dory_core.ir import Graph
from dory_core.plan import Plan
from dory_core.plugins import Plugins
from dory_core.vectors import Vector

Progress = Callable[[str, int, int], None]
GRAPH_FILE = "vectors/graph.npz"
REPORT_FILE = "report.html"


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What the user asked for.

    budgets: bytes per level number. settings: target options as text. layer: index of the one layer
    to emit. golden: folders or .npz files, several for several vectors. input: test input.
    """

    onnx: Path
    target: str
    frontend: str
    output: Path | None = None
    golden: tuple[Path, ...] = ()
    input: Path | None = None
    input_bits: int = 8
    input_signed: bool = False
    budgets: Mapping[int, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    layer: int | None = None
    objective: str = "heuristic"
    plan_only: bool = False
    dump_stages: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "budgets", MappingProxyType(dict(self.budgets)))
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))


@dataclass(frozen=True, slots=True)
class CompileResult:
    """The outcome. output: the application, None when only planned. golden_exact: whether the
    imported Graph reproduces the golden, None without one."""

    plan: Plan
    graph: Graph
    output: Path | None
    golden_exact: bool | None


def _silent(stage: str, done: int, total: int) -> None:
    """Report no progress."""


def parse_network(options: CompileOptions, plugins: Plugins) -> Graph:
    """Return the network as the frontend reads it; raises NotSupported or UsageError."""
    from dory_core.frontend import FrontendOptions

    frontend = plugins.frontend(options.frontend)
    return frontend.parse(options.onnx, FrontendOptions(options.input_bits, options.input_signed))


def import_network(options: CompileOptions, plugins: Plugins, ctx: TargetContext | None) -> Graph:
    """Parse the network and fit it to the target; raises NotSupported or UsageError."""
    graph = parse_network(options, plugins)
    return graph if ctx is None else fit_to_target(graph, plugins, ctx)


def import_with_vectors(
    options: CompileOptions, plugins: Plugins, ctx: TargetContext, budgets: Budgets
) -> tuple[Graph, tuple[Vector, ...], bool | None]:
    """Return the network fitted to the target, its test vectors, and what goldens said about it.

    Where a pass of the target changes values, goldens are compared with the network as it was
    before, and notes say how the fitted one differs. Raises: what :func:`import_network` and
    :func:`make_vectors` raise, and DoesNotFit for a tensor beyond all memories of the target.
    """
    graph = parse_network(options, plugins)
    fitted = fit_to_target(graph, plugins, ctx)
    if options.layer is None:
        check_tensors(fitted, ctx.memory, budgets)
    if all(step.exact for step in plugins.passes(ctx)):
        return fitted, *make_vectors(fitted, options.golden, options.input)
    from dory_core.approximation import measure

    exact = fit_to_target(graph, plugins, ctx, exact=True)
    vectors, confirmed = make_vectors(exact, options.golden, options.input)
    return *measure(exact, fitted, vectors), confirmed


def fit_to_target(graph: Graph, plugins: Plugins, ctx: TargetContext, exact: bool = False) -> Graph:
    """Run the target's passes, or only the exact ones, and choose the storage of every tensor."""
    from dory_core.passes.storage import choose_storage

    for step in plugins.passes(ctx):
        if step.exact or not exact:
            graph = step.run(graph)
    widths = ctx.memory.storage_bits
    return choose_storage(graph, widths, lambda layer: plugins.kernels(ctx, layer))


def plan_network(
    graph: Graph,
    ctx: TargetContext,
    budgets: Budgets,
    plugins: Plugins,
    frontend: str,
    objective: str = "heuristic",
    progress: Progress = _silent,
) -> Plan:
    """Order, bind, tile and place the layers of ``graph``; raises NotSupported or DoesNotFit."""
    from dory_core.passes.order import order_branches
    from dory_core.planning.planner import make_plan
    from dory_core.tiling.network import NetworkTiler

    tiler = NetworkTiler(order_branches(graph), ctx, budgets.bytes[1], plugins, objective, progress)
    return make_plan(tiler, ctx, budgets, frontend, plugins.dma_hal(ctx))


def compile_network(
    options: CompileOptions, plugins: Plugins, progress: Progress | None = None
) -> CompileResult:
    """Compile ``options.onnx`` and write the application; raises the errors of each stage.

    Nothing is written before everything has succeeded.
    """
    from dory_core.codegen.writer import check_destination
    from dory_core.passes.extract import extract_layer

    progress = progress or _silent
    if options.output is not None and not options.plan_only:
        check_destination(options.output)
    ctx = plugins.context(options.target, options.settings)
    budgets = resolve_budgets(ctx.memory, options.budgets)
    progress("import", 0, 1)
    whole, vectors, exact = import_with_vectors(options, plugins, ctx, budgets)
    graph = whole
    if options.layer is not None:
        graph = extract_layer(whole, options.layer)
    _dump_graph(options, graph)
    plan = plan_network(graph, ctx, budgets, plugins, options.frontend, options.objective, progress)
    _dump_plan(options, plan)
    output = None
    if options.output is not None and not options.plan_only:
        progress("write", 0, 1)
        output = options.output
        write_network(output, graph, plan, vectors, plugins, ctx, report=True)
    return CompileResult(plan, graph, output, exact)


def make_vectors(
    graph: Graph, goldens: Sequence[Path], input_: Path | None
) -> tuple[tuple[Vector, ...], bool | None]:
    """Return the test vectors and whether goldens confirmed the import (None without goldens).

    They come from the goldens, compared layer by layer with the reference executor, else from the
    reference executor on the given input or a seeded random one.

    Raises: VerificationFailed naming the first layer and element that differ.
    """
    from dory_core import reference
    from dory_core.golden import compare, input_of, read_golden, read_input

    if not goldens:
        inputs = (
            reference.random_inputs(graph)
            if input_ is None
            else {graph.inputs[0]: read_input(input_, graph)}
        )
        return (reference.run(graph, inputs),), None
    vectors = []
    for path in goldens:
        golden = read_golden(path)
        values = reference.run(graph, {graph.inputs[0]: input_of(graph, golden)})
        comparison = compare(graph, golden, values)
        for layer in comparison.layers:
            if layer.first is not None:
                at = layer.first
                raise VerificationFailed(
                    f"the imported network does not reproduce {path}: layer {layer.index} "
                    f"'{layer.name}' differs in {layer.mismatches} values, first at (c, h, w) = "
                    f"({at.c}, {at.h}, {at.w}): expected {at.expected}, got {at.got}",
                    "check --frontend, --input-bits and --input-signed, and that the golden "
                    "belongs to this ONNX file",
                )
        vectors.append(values)
    return tuple(vectors), True


def _dump_graph(options: CompileOptions, graph: Graph) -> None:
    if options.dump_stages is not None:
        from dory_core.ir.text import graph_text

        _dump(options.dump_stages, "1_graph.txt", graph_text(graph))


def _dump_plan(options: CompileOptions, plan: Plan) -> None:
    if options.dump_stages is not None:
        import json

        _dump(options.dump_stages, "2_plan.json", json.dumps(plan.to_json(), indent=1) + "\n")


def _dump(directory: Path, name: str, text: str) -> None:
    from dory_core.errors import UsageError

    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {directory / name}: {error.strerror}", "choose another --dump-stages DIR"
        ) from error


def _report(plan: Plan) -> tuple[OutputFile, ...]:
    from dory_core.report.drawing import available

    if not available():
        return ()
    from dory_core.report.page import report_page

    return (OutputFile(REPORT_FILE, report_page(plan.to_json(), plan.timeline_json())),)


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

    report: with its page, too, where the extra that draws it is installed.
    """
    from dory_core.codegen.application import application_files
    from dory_core.codegen.writer import write_application
    from dory_core.ir.serial import graph_bytes
    from dory_core.vectors import vector_files

    files = application_files((*plan.files, *plugins.application(ctx, plan)), plan)
    files += vector_files(graph, vectors)
    files += (OutputFile(GRAPH_FILE, graph_bytes(graph)),)
    if report:
        files += _report(plan)
    write_application(output, files)
