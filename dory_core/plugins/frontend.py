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


# Names of files that do not tell networks apart.
_ANY_NETWORK = frozenset({"graph", "model", "net", "network"})


def network_name(path: Path) -> str:
    """Return the name of a network: that of its file, or of the folder of a ``net.onnx``."""
    name = Path(path).stem
    folder = Path(path).absolute().parent.name
    return folder if folder and name.lower() in _ANY_NETWORK else name


@dataclass(frozen=True, slots=True)
class FrontendOptions:
    """Properties of the network input that the file does not state.

    Attributes:
        input_bits: Significant bits, 1 to 16.
        input_signed: True for two's complement.
    """

    input_bits: int = 8
    input_signed: bool = False


@dataclass(frozen=True, slots=True)
class DesktopRun:
    """One inference of an interpreter for desktop computers.

    Attributes:
        interpreter: Name of the interpreter, for users.
        tensors: Its inputs and results: tensors of the Graph by name, shape (C, H, W).
        refused: Why the interpreter does not run the network; empty when it does.
    """

    interpreter: str
    tensors: Tensors
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Desktop:
    """Interpreters of a format that people run on desktop computers, loaded with one network.

    Attributes:
        name: Package and version of the interpreters.
        graph: The network.
        run: Function that runs every interpreter from the initial state on network inputs by name,
            shape (C, H, W).
        explain: Function that says in one sentence why an interpreter's result of a layer differs.
            Its arguments are the interpreter's name, the layer, its operands and its result.
    """

    name: str
    graph: Graph
    run: Callable[[Tensors], Sequence[DesktopRun]]
    explain: Callable[[str, Layer, Sequence[npt.NDArray[Any]], npt.NDArray[Any]], str]


@dataclass(frozen=True, slots=True)
class ReadOperator:
    """An operator that a frontend reads: a row of ``dory --list-operators``.

    Attributes:
        name: Name of the operator in the file.
        becomes: Kinds of layers that the operator becomes.
        constraints: What the operator has to fulfil, a sentence each.
    """

    name: str
    becomes: str
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoldenRequest:
    """The inferences that ``dory golden`` asks of a format's reference.

    Attributes:
        inputs: Files with the inputs of one inference each.
        runs: Number of inferences on random inputs when no file is given.
        seed: Seed of the random inputs.
    """

    inputs: tuple[Path, ...] = ()
    runs: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Frontend:
    """A way to read networks of one file format.

    Attributes:
        name: The name that ``--frontend`` takes.
        summary: One line for ``dory frontends``.
        reader: Function that reads a file. It imports what it needs when it is called.
        recognises: Function that tells from a file's bytes that it has this format, so that
            ``--frontend`` may be left out. It imports nothing heavy. None where the bytes do not
            tell.
        desktop: Function that loads the installed interpreters of this format, for ``dory check
            --compare-desktop``. It raises ToolMissing when none is installed. None where the format
            has no interpreter.
        ties_even: Rounding of real numbers to integers in this format (``--float-io``): True for
            ties to even, False for ties away from zero.
        operators: Function that lists the operators that are read, by name. It imports what it
            needs when it is called. None where the format has no list of operators.
        golden: Function that runs the format's reference on a file and returns the arrays of a
            golden. It raises ToolMissing when the reference is not installed. None where the format
            has no reference.
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

        A network with the name of its file gets the name of :func:`network_name`. Outputs that are
        inputs become copies. Raises: UsageError when the file is missing, NotSupported when it
        cannot be computed exactly.
        """
        import numpy as np

        from dory_core.ir.passed import copy_passed_inputs

        # Constants that are not numbers are refused later, with their names; numpy's warnings have
        # none.
        with np.errstate(all="ignore"):
            graph = copy_passed_inputs(self.reader(Path(path), options or FrontendOptions()))
        if graph.name != Path(path).stem:
            return graph
        return replace(graph, name=network_name(path))
