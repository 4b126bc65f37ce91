"""Running an application directory: ``dory run``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dory_core.driver.compiler import GRAPH_FILE
from dory_core.driver.given import Asked, Given, Source, floats_of, given_vectors
from dory_core.errors import UsageError
from dory_core.golden.extremes import find_extremes
from dory_core.golden.vectors import Vector, hwc, input_bytes, starts
from dory_core.ir import Graph, Operator
from dory_core.ir.layout import HWC, Layout
from dory_core.ir.reference import run as execute
from dory_core.plan import TIMELINE_FILE
from dory_core.plan.schema import check_plan, check_timeline
from dory_core.plugins.manager import Plugins
from dory_core.simulate.counts import check_counts
from dory_core.simulate.request import DMA_MODES, RunRequest
from dory_core.simulate.result import LayerOutput, RunResult
from dory_core.simulate.runner import HOST_RUNNER, Runner
from dory_core.tiling.network import Progress

_CHEAP_MACS = 20_000_000  # of all inferences: well below a second on any machine
_SEARCHES = 48  # executions of the network in search of extreme values


def read_plan(directory: Path) -> dict[str, Any]:
    """Return plan.json of an application; raises UsageError when dory did not write it."""
    path = directory / "plan.json"
    if not directory.is_dir():
        from dory_core.codegen.replace import recover

        recover(directory.absolute())
    if not directory.is_dir():
        raise UsageError(
            f"{directory} is no directory",
            "compile a network first: dory --target NAME NETWORK -o DIR",
        )
    return check_plan(path, _content(path, f"{directory} is no application of dory: plan.json"))


def read_timeline(directory: Path) -> dict[str, Any]:
    """Return timeline.json of an application; raises UsageError."""
    path = directory / TIMELINE_FILE
    return check_timeline(path, _content(path, str(path)))


def _content(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        hint = "give the directory that `dory ... -o DIR` wrote"
        raise UsageError(f"{what} {_reason(error)}", hint) from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "is missing"
    return f"cannot be read ({error.strerror if isinstance(error, OSError) else error})"


def read_graph(directory: Path, operators: Iterable[type[Operator]] = ()) -> Graph:
    """Return the integer network of an application; raises UsageError.

    operators: kinds of layers that plugins add.
    """
    from dory_core.ir.parse import parse_graph

    path = directory / GRAPH_FILE
    try:
        return parse_graph(path.read_text(encoding="utf-8"), operators)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} {_reason(error)}", "compile the network again") from error


@dataclass(frozen=True, slots=True)
class Choice:
    """A runner, and the reason of its choice; empty where none is needed."""

    runner: Runner
    reason: str = ""

    @property
    def note(self) -> str:
        """The choice and its reason, empty without a reason."""
        return f"runner {self.runner.name}: {self.reason}" if self.reason else ""


def find_runner(
    name: str | None, plan: dict[str, Any], plugins: Plugins, host: bool = False
) -> Choice:
    """Return the runner called ``name``.

    Args:
        name: Name of the runner; None for the one that the target prefers, else the host
            simulation.
        plan: The document plan.json of the application.
        plugins: Plugins that provide runners.
        host: True when only the host simulation can do what the user asks. Only the host simulation
            runs an application that is not deployable.

    Raises:
        UsageError: For an unknown name; the message lists the known ones.
    """
    if name == HOST_RUNNER.name:
        return Choice(HOST_RUNNER)
    runners = {runner.name: runner for runner in known_runners(plan, plugins)}
    if name is None:
        return _default_runner(runners, plan, host)
    if name not in runners:
        raise UsageError(
            f"target {plan['target']} has no runner {name!r}", f"known: {', '.join(runners)}"
        )
    return Choice(runners[name])


def known_runners(plan: dict[str, Any], plugins: Plugins) -> tuple[Runner, ...]:
    """Return the runners of an application: the host simulation and the runners of its target."""
    ctx = plugins.context(plan["target"], _settings(plan))
    return (HOST_RUNNER, *plugins.runners(ctx))


def _default_runner(runners: Mapping[str, Runner], plan: dict[str, Any], host: bool) -> Choice:
    """Return the default runner, with the reason where the target has another one."""
    wanted = [one for one in runners.values() if one.preferred or one.missing]
    if not wanted:
        return Choice(HOST_RUNNER)
    [best, *_] = sorted(wanted, key=lambda one: not one.preferred)
    if host:
        return Choice(HOST_RUNNER, f"{best.name} has no DMA modes and sanitizers")
    if not plan.get("deployable", True):
        return Choice(HOST_RUNNER, f"{best.name} cannot run it: {plan['reason']}")
    if best.preferred:
        return Choice(best, f"target {plan['target']} prefers it")
    return Choice(HOST_RUNNER, f"{best.name} cannot run: {best.missing}")


def _layouts(plan: dict[str, Any]) -> dict[int, Layout]:
    """Return the layout of the output of each layer by its index; raises UsageError."""
    try:
        return {
            layer["index"]: Layout.from_json(layer["output"]["layout"])
            for layer in plan["layers"]
            if "layout" in layer["output"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"plan.json has a layout that this dory does not know: {error}",
            "compile the network again",
        ) from error


def _settings(plan: dict[str, Any]) -> dict[str, str]:
    return {
        k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in plan["options"].items()
    }


def run_application(
    directory: Path,
    *,
    plugins: Plugins,
    inputs: Sequence[Source] = (),
    input_layout: str = "",
    input_reals: bool = False,
    golden: Sequence[Path] = (),
    dump: Path | None = None,
    dma: str | None = DMA_MODES[0],
    seed: int = 1,
    repeat: int = 1,
    sanitize: str | None = None,
    runner: str | None = None,
    all_layers: bool = False,
    progress: Progress | None = None,
) -> RunResult:
    """Build and run an application and compare every layer, element by element.

    State passes from one input to the next, and from one inference of a golden to the next.

    Args:
        directory: Directory of the application.
        plugins: Plugins that provide the target's runners.
        inputs: Files or arrays with test inputs, in place of the embedded ones.
        input_layout: ``hwc`` or ``chw``, empty where the files tell.
        input_reals: True when floats in the files are real numbers.
        golden: Files or folders of test vectors, in place of the embedded ones. A golden must agree
            with the reference executor on the embedded network.
        dump: Directory for every layer's output.
        dma: When transfers move their bytes; None for every mode if the host simulation needs
            little time for all of them.
        seed: Of the random moments of transfers.
        repeat: Number of executions of each input.
        sanitize: Sanitizers of the C compiler, with commas between them.
        runner: Name of the runner; None for the one that the target prefers, or for the host
            simulation when only that has the given dma or sanitize.
        all_layers: True to keep the values of every layer in the result, not only the outputs.
        progress: Function called with (stage, steps done, total steps).

    Raises:
        UsageError: For invalid arguments.
        ToolMissing: When a compiler or a tool of the runner is missing.
        VerificationFailed: When the program was stopped. Values that differ are in the result.
    """
    with _opened(directory, plugins) as (plan, graph):
        host = dma not in (None, DMA_MODES[0]) or sanitize is not None
        chosen = find_runner(runner, plan, plugins, host=host)
        asked = Asked(inputs, input_layout, input_reals, golden)
        given = given_vectors(directory, plan, graph, asked, plugins, progress)
        request = _request(plan, graph, given)
        kept = request.layers if all_layers else _outputs(request)
        request = replace(
            request,
            keep=[layer.index for layer in kept],
            dma=dma or DMA_MODES[0],
            seed=seed,
            repeat=repeat,
            sanitize=sanitize,
            dump=dump,
        )
        if progress is not None:
            progress("build and run", 0, 0)
        modes = (dma,) if dma else _modes(chosen.runner, plan, request)
        result = _in_modes(directory, chosen.runner, plan, request, modes[1:])
        searched = ""
        if len(modes) > 1 and not given.names and result.exact:
            found = given.vectors
            result, searched = _run_extremes(
                directory, chosen.runner, graph, request, found, result
            )
    floats = _float_notes(graph, given.floats, result.runner)
    notes = filter(None, (chosen.note, *given.notes, *floats, searched))
    return replace(result, reference=graph.reference, notes=tuple(notes), outputs=_outputs(request))


@contextmanager
def _opened(directory: Path, plugins: Plugins) -> Iterator[tuple[dict[str, Any], Graph]]:
    """Yield plan and network of an application, which no process replaces meanwhile."""
    from dory_core.codegen.replace import in_use
    from dory_core.codegen.writer import check_files

    plan = read_plan(directory)
    with in_use(directory):
        check_files(directory)
        yield plan, read_graph(directory, plugins.operators())


def _request(plan: dict[str, Any], graph: Graph, given: Given) -> RunRequest:
    """Return the request of a run with these vectors."""
    layouts = _layouts(plan)
    layers = [
        LayerOutput(
            one.op.index,
            one.op.name,
            one.output,
            one.macs,
            layouts.get(one.op.index, HWC),
            one.op.tensor,
        )
        for one in graph.layers
    ]
    order = {one["name"]: n for n, one in enumerate(plan["network"].get("states", ()))}
    states = sorted(graph.states, key=lambda state: order[state.name])
    producers = {layer.output: layer.index for layer in graph.ops}
    return RunRequest(
        layers=layers,
        expected=_expected(graph, layers, given.vectors),
        inputs=[input_bytes(graph, one) for one in given.vectors] if given.names else None,
        input_names=given.names or None,
        output_layers=[producers[name] for name in graph.outputs],
        floats=given.floats,
        state_layers=[producers[state.written] for state in states],
        starts=starts(graph, given.vectors) if graph.states else (),
        target=plan["target"],
    )


def _outputs(request: RunRequest) -> tuple[LayerOutput, ...]:
    """Return the layers that make the network's outputs, in their order."""
    layers = {layer.index: layer for layer in request.layers}
    return tuple(layers[index] for index in request.output_layers)


def _in_modes(
    directory: Path, runner: Runner, plan: dict[str, Any], request: RunRequest, more: Sequence[str]
) -> RunResult:
    """Run an application, and once more in each further DMA mode until values differ.

    Raises: as :func:`check_counts`.
    """
    result = runner.run(directory, request)
    check_counts(result, plan)
    for mode in more:
        if result.exact:
            other = runner.run(directory, replace(request, dma=mode, dump=None))
            check_counts(other, plan)
            result = replace(result, dma=f"{result.dma}, {mode}") if other.exact else other
    return result


def _expected(
    graph: Graph, layers: Sequence[LayerOutput], vectors: Sequence[Vector]
) -> list[dict[int, Any]]:
    """Return the values of each layer, (H, W, C) by its index, for each vector."""
    return [
        {
            layer.index: one.full(hwc(vector[layer.output]))
            for layer, one in zip(graph.ops, layers, strict=True)
        }
        for vector in vectors
    ]


def _run_extremes(
    directory: Path,
    runner: Runner,
    graph: Graph,
    request: RunRequest,
    vectors: Sequence[Vector],
    result: RunResult,
) -> tuple[RunResult, str]:
    """Run inputs that drive layers to ends of their ranges that the vectors do not reach.

    Return the result, or that of these inputs where it is not exact, and a note about the search.
    """
    found = find_extremes(graph, _SEARCHES, known=vectors)
    if not found.inputs:
        return result, ""
    more = [execute(graph, inputs) for inputs in found.inputs]
    own = replace(
        request,
        expected=_expected(graph, request.layers, more),
        inputs=[input_bytes(graph, vector) for vector in more],
        input_names=[f"searched input {n}" for n in range(len(more))],
        floats=request.floats and [floats_of(graph, vector, {}) for vector in more],
        starts=starts(graph, more) if graph.states else (),
        dma=DMA_MODES[-1],
        repeat=1,
        dump=None,
    )
    extreme = runner.run(directory, own)
    if not extreme.exact:
        return extreme, ""
    count = f"{len(more)} searched input{'s' if len(more) > 1 else ''}"
    ends = f"{len(found.reached)} end{'s' if len(found.reached) > 1 else ''}"
    return result, f"{count}: exact; {ends} of ranges reached that the vectors do not reach"


def _modes(runner: Runner, plan: dict[str, Any], request: RunRequest) -> tuple[str, ...]:
    """Return the DMA modes of a run without ``--dma``."""
    macs = plan["network"]["macs"] * request.executions
    cheap = runner is HOST_RUNNER and request.sanitize is None and macs <= _CHEAP_MACS
    return DMA_MODES if cheap else DMA_MODES[:1]


def _float_notes(
    graph: Graph, floats: list[tuple[bytes, bytes]] | None, runner: str
) -> tuple[str, ...]:
    if floats is None:
        return ()
    if runner != HOST_RUNNER.name:
        return (f"runner {runner} compares the integers, not the floats made of them",)
    count = sum(graph.tensors[name].elements for name in graph.outputs)
    return (f"float input and output: {count} outputs are equal to the bit",)
