"""The inputs and expected values of a run: those that the user gives, else the embedded ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dory_core.driver.compiler import make_vectors
from dory_core.errors import UsageError
from dory_core.golden.vectors import Vector, float_bytes, read_vectors, reals_of

if TYPE_CHECKING:
    from dory_core.golden.inputs import GivenInputs
    from dory_core.ir import Graph
    from dory_core.plugins.manager import Plugins
    from dory_core.tiling.network import Progress

#: A file with inputs, or arrays by the name of the network's input (by any name for the only one).
Source = Path | Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The inputs that a user asks for.

    Attributes:
        inputs: Inputs in place of the embedded ones, each of one inference or of a batch.
        layout: Layout of their arrays, ``hwc`` or ``chw``, empty where the files tell.
        reals: True when floats in files are real numbers, which scale and zero point of the input
            quantise. In arrays they always are where the input has a scale.
        golden: Files or folders of test vectors, in place of the embedded ones.
    """

    inputs: Sequence[Source] = ()
    layout: str = ""
    reals: bool = False
    golden: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """Test vectors of a run.

    Attributes:
        names: Names of the user's vectors in order; empty for the embedded ones.
        floats: Inputs and outputs of each vector as float32, None for an application without
            ``--float-io``.
        notes: How each file was read.
    """

    vectors: Sequence[Vector]
    names: Sequence[str]
    floats: list[tuple[bytes, bytes]] | None
    notes: tuple[str, ...]


def given_vectors(
    directory: Path,
    plan: Mapping[str, Any],
    graph: Graph,
    asked: Asked,
    plugins: Plugins,
    progress: Progress | None = None,
) -> Given:
    """Return the vectors of goldens, then those of inputs; the embedded ones without both.

    progress: called for each inference of the reference executor.

    Raises: UsageError for files and arrays that are not those of this network.
    """
    float_io = bool(plan["network"].get("float_io"))
    read = [
        found
        for number, source in enumerate(asked.inputs)
        for found in _named(source, number, _read(source, number, plan, graph, asked, plugins))
    ]
    vectors: list[Vector] = []
    names: list[str] = []
    for path in asked.golden:
        found, _ = make_vectors(graph, [path])
        vectors += found
        names += [str(path)] if len(found) == 1 else [f"{path} run {n}" for n in range(len(found))]
    if read:
        vectors += make_vectors(graph, (), _told([one.values for _, one in read], progress))[0]
        names += [name for name, _ in read]
    vectors = vectors or list(read_vectors(directory / "vectors", graph))
    floats = None
    if float_io:  # the given inputs are the last vectors, after those of goldens
        own: list[Mapping[str, Any]] = [{} for _ in range(len(vectors) - len(read))]
        own += [one.reals for _, one in read]
        floats = [floats_of(graph, *pair) for pair in zip(vectors, own, strict=True)]
    return Given(vectors, names, floats, tuple(one.done for _, one in read if one.done))


def _told(inputs: Sequence[Vector], progress: Progress | None) -> Iterator[Vector]:
    """Yield the inputs; tell that each is computed."""
    for number, one in enumerate(inputs):
        if progress is not None:
            progress("reference", number, len(inputs))
        yield one


def floats_of(graph: Graph, vector: Vector, given: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return inputs and outputs as float32; ``given`` are inputs that the user gave as reals."""
    reals = reals_of(graph, vector)
    return float_bytes(graph.inputs, {**reals, **given}), float_bytes(graph.outputs, reals)


def _read(
    source: Source,
    number: int,
    plan: Mapping[str, Any],
    graph: Graph,
    asked: Asked,
    plugins: Plugins,
) -> tuple[GivenInputs, ...]:
    """Return the inferences of a source. number: its place among the sources."""
    from dory_core.golden.inputs import arrays_as_inputs, read_inputs

    float_io = bool(plan["network"].get("float_io"))
    if not isinstance(source, Path):
        ties = _ties_even(plan, plugins)
        return arrays_as_inputs(f"inputs[{number}]", source, graph, asked.layout, ties)
    reals = float_io or asked.reals
    if asked.reals:
        _check_scales(graph)
    ties = reals and _ties_even(plan, plugins)
    return read_inputs(source, graph, asked.layout, reals, ties)


def _named(
    source: Source, number: int, found: Sequence[GivenInputs]
) -> list[tuple[str, GivenInputs]]:
    """Return the inferences of a source with their names."""
    name = str(source) if isinstance(source, Path) else f"inputs[{number}]"
    names = [name] if len(found) == 1 else [f"{name}[{n}]" for n in range(len(found))]
    return list(zip(names, found, strict=True))


def _ties_even(plan: Mapping[str, Any], plugins: Plugins) -> bool:
    """Return how the format rounds ties; raises UsageError when its frontend is not installed."""
    if plan["network"].get("float_io"):
        return bool(plan["network"].get("ties_even"))
    return plugins.frontend(plan["frontend"]).ties_even


def _check_scales(graph: Graph) -> None:
    unknown = [name for name in graph.inputs if not graph.tensors[name].has_scale]
    if unknown:
        raise UsageError(
            f"the file of the network gives no scale and zero point for input '{unknown[0]}',"
            " so that real numbers cannot be quantised",
            "give integers, without --input-reals",
        )
