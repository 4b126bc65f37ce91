"""Graph passes: one pass per file, each from one Graph to an equivalent one."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from dory_core.errors import DoryError, PluginError, declared_in
from dory_core.ir import Graph


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewriting of the Graph that changes no value of any layer's output, unless it says so.

    Attributes:
        name: Unique, shown with ``-v`` and in errors, and used for the files of ``--dump-stages``.
        summary: One line that says what it does.
        run: Function that returns the new Graph, with the same layers and tensors by index and
            name, or the same object when there is nothing to do.
        exact: False for one that may change values because an option of the target asks for it; how
            many differ on the test vectors, and by how much, is then measured and reported.
        joins: True for one that may compute a layer inside of the only one that reads it: the outer
            one has index and output of the reader, the tensor between them is gone. Goldens are
            compared with the network without it.
    """

    name: str
    summary: str
    run: Callable[[Graph], Graph]
    exact: bool = True
    joins: bool = False


def run_passes(
    passes: Iterable[Pass], graph: Graph, show: Callable[[str, Graph], None] | None = None
) -> Graph:
    """Return the Graph after all passes, in order; ``show`` receives what each one returns.

    Raises: the errors of a pass with its name; DoryError when one loses or adds a layer, an input
    or an output.

    Raises:
        DoryError: An error of a pass with its name, or when one loses or adds a layer, an input or
            an output.
    """
    for step in passes:
        graph = _run(step, graph)
        if show is not None:
            show(step.name, graph)
    return graph


def _run(step: Pass, graph: Graph) -> Graph:
    try:
        after = step.run(graph)
    except DoryError as error:
        error.message = f"pass {step.name!r}: {error.message}"
        error.args = (error.message,)
        raise
    except Exception as error:
        module = declared_in(step.run)
        if module.startswith("dory_core."):
            raise
        raise PluginError(
            f"pass {step.name!r} of {module} failed: {type(error).__name__}: {error}",
            "report this to the authors of the pass",
        ) from error
    given: object = after
    if not isinstance(given, Graph):
        raise PluginError(
            f"pass {step.name!r} of {declared_in(step.run)} returned {type(given).__name__}, not a "
            "Graph",
            "report this to the authors of the pass",
        )
    kept = {op.output for op in (*after.ops, *(() if step.joins else graph.ops))}
    if _outline(after, kept) != _outline(graph, kept):
        raise DoryError(f"pass {step.name!r} changed which layers, inputs or outputs there are")
    return after


def _outline(graph: Graph, kept: Container[str]) -> tuple[object, ...]:
    """Return the parts that a pass may not change; kept: tensors whose layers it may not lose."""
    layers = sorted((op.index, op.output) for op in graph.ops if op.output in kept)
    states = [(state.name, state.read, state.written) for state in graph.states]
    return graph.inputs, graph.outputs, states, layers
