"""The record that a plugin contributes for a file format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from dory_core.ir import Graph, Layer

    # Tensors of a Graph by name, shape (C, H, W), integers as in the file.
    Tensors = Mapping[str, npt.NDArray[Any]]


# What every other file with a network is called.
_ANY_NETWORK = frozenset({"graph", "model", "net", "network"})


def network_name(path: Path) -> str:
    """Return what a network is called: as its file, or as the folder of a ``net.onnx``."""
    name = Path(path).stem
    folder = Path(path).absolute().parent.name
    return folder if folder and name.lower() in _ANY_NETWORK else name


@dataclass(frozen=True, slots=True)
class FrontendOptions:
    """What the file does not say about the network input.

    Attributes:
        input_bits: Significant bits, 1 to 16.
        input_signed: Two's complement.
    """

    input_bits: int = 8
    input_signed: bool = False


@dataclass(frozen=True, slots=True)
class DesktopRun:
    """One inference of an interpreter for desktop computers.

    Attributes:
        interpreter: How users call it.
        tensors: What it computed, and what its inputs were: tensors of the Graph by name, shape (C,
            H, W).
        refused: Why it does not run the network, else empty.
    """

    interpreter: str
    tensors: Tensors
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Desktop:
    """Interpreters of a format that people run on desktop computers, loaded with one network.

    Attributes:
        name: Package and version.
        graph: The network.
        run: Every interpreter on network inputs by name, shape (C, H, W), with state as it is at
            first.
        explain: Why an interpreter's result of a layer is another one: called with its name, the
            layer, its operands and its result; one sentence.
    """

    name: str
    graph: Graph
    run: Callable[[Tensors], Sequence[DesktopRun]]
    explain: Callable[[str, Layer, Sequence[npt.NDArray[Any]], npt.NDArray[Any]], str]


@dataclass(frozen=True, slots=True)
class ReadOperator:
    """An operator of a format that is read: a row of ``dory --list-operators``.

    Attributes:
        name: In the file.
        becomes: Kinds of layers.
        constraints: What it must be like, a sentence each.
    """

    name: str
    becomes: str
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoldenRequest:
    """What a format's reference computes for ``dory golden``.

    Attributes:
        inputs: Files with one inference each.
        runs, seed: Inferences on random inputs, where no file is given.
    """

    inputs: tuple[Path, ...] = ()
    runs: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Frontend:
    """A way to read networks of one file format.

    Attributes:
        name: What ``--frontend`` takes.
        summary: One line for ``dory frontends``.
        reader: Reads a file; it imports what it needs when it is called.
        recognises: Tells from a file's bytes that it is of this format, so that ``--frontend`` may
            be left out; None where the file does not show it. It imports nothing heavy.
        desktop: Loads the interpreters of this format that are installed, for ``dory check
            --compare-desktop``; it raises ToolMissing when none is. None where the format has none.
        ties_even: How the format makes integers of real numbers (``--float-io``): ties go to even,
            else away from zero.
        operators: Lists what is read, by name; it imports what it needs when it is called. None
            where the format has no operators that one could list.
        golden: Runs the format's reference on a file and returns the arrays of a golden; it raises
            ToolMissing when the reference is not installed. None where the format has none.
    """

    name: str
    summary: str
    reader: Callable[[Path, FrontendOptions], Graph]
    recognises: Callable[[Path], bool] | None = None
    desktop: Callable[[Path], Desktop] | None = None
    ties_even: bool = False
    operators: Callable[[], Sequence[ReadOperator]] | None = None
    golden: Callable[[Path, GoldenRequest], Tensors] | None = None

    def parse(self, path: Path, options: FrontendOptions | None = None) -> Graph:
        """Return the integer network of a file.

        A network that is called as its file gets the name of :func:`network_name`. Outputs that
        are inputs become copies. Raises: UsageError when the file is missing, NotSupported when it
        cannot be computed exactly.
        """
        import numpy as np

        from dory_core.ir.passed import copy_passed_inputs

        # Constants that are no numbers are refused by name: what numpy says of them names nothing.
        with np.errstate(all="ignore"):
            graph = copy_passed_inputs(self.reader(Path(path), options or FrontendOptions()))
        if graph.name != Path(path).stem:
            return graph
        return replace(graph, name=network_name(path))
