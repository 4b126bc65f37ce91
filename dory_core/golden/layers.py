"""Goldens: the values of every layer that a quantiser computed, and the comparison with them.

Two forms are read: ``golden.npz`` with the arrays ``input``, ``layer_00``, ``layer_01``, ..., and a
folder of text files ``input.txt``, ``out_layer0.txt``, ... with one value per line. Both are
flattened in HWC order. Goldens of tensors by name: :mod:`dory_core.golden.tensors`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from dory_core.documents import row
from dory_core.errors import UsageError
from dory_core.golden.arrays import Values, integers, load_arrays, read_numbers
from dory_core.golden.tensors import Compared, TensorGolden, tensor_goldens
from dory_core.ir import Graph, Operator, Tensor
from dory_core.ir.channels import file_channels
from dory_core.ir.passed import is_copy_of_input
from dory_core.simulate.result import LayerOutput, LayerResult, compare_layer

# Names of arrays in goldens of both forms; other arrays of an archive are ignored.
_NAMES = r"input|layer_\d+|(?:in|run)\d+__.+"
_ARRAYS_HINT = "write it with numpy.savez and the arrays input, layer_00, layer_01, ..."


@dataclass(frozen=True, slots=True, eq=False)
class Golden:
    """Values of the network input and of layer 0, 1, ..., each flattened in HWC order.

    Attributes:
        source: Path of the golden, for messages.
        input: Values of the network input.
        layers: Values of each layer.
        names: File or array of the input and of each layer.
    """

    source: Path
    input: Values
    layers: tuple[Values, ...]
    names: tuple[str, ...]

    def title(self, position: int) -> str:
        """Return the file or array of the input (0) or of a layer (from 1), for messages."""
        return f"{self.source}: '{self.names[position]}'"

    def values_of_inputs(self, graph: Graph) -> dict[str, Values]:
        """Return the network input by name, shape (C, H, W); raises UsageError."""
        return {graph.inputs[0]: input_of(graph, self)}

    def begins(self, graph: Graph) -> bool | None:
        """Return True: a golden of this form is one inference."""
        return True

    def compare(
        self, graph: Graph, outputs: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[Compared, ...]:
        """Compare every layer: see :func:`compare`."""
        results = compare(graph, self, outputs)
        return tuple(Compared(one, self.layers[one.index].size) for one in results)


@dataclass(frozen=True, slots=True)
class LayerGolden:
    """A layer that goldens confirmed.

    Attributes:
        name: Name of the layer.
        elements: Number of elements that were compared, over all inferences.
        apart: Number of elements that are a step from the golden, because the reference computes
            the layer in real numbers.
    """

    index: int
    name: str
    tensor: str
    elements: int
    apart: int


@dataclass(frozen=True, slots=True)
class GoldenReport:
    """The layers of a network that goldens confirmed, in the order of the file.

    Attributes:
        reference: The program whose arithmetic the goldens hold.
        inferences: Number of inferences.
        layers: The layers.
    """

    reference: str
    inferences: int
    layers: tuple[LayerGolden, ...]

    @property
    def apart(self) -> tuple[LayerGolden, ...]:
        """The layers with elements that are a step from the golden."""
        return tuple(layer for layer in self.layers if layer.apart)

    def to_json(self) -> dict[str, Any]:
        """Return the object ``golden`` of ``dory check --json``."""
        return {**row(self, "reference", "inferences"), "layers": [asdict(n) for n in self.layers]}


def report(reference: str, inferences: Sequence[Sequence[Compared]]) -> GoldenReport:
    """Return the report of compared layers over all inferences."""
    found: dict[int, LayerGolden] = {}
    for one in (one for inference in inferences for one in inference):
        result = one.result
        before = found.get(result.index)
        elements, apart = (before.elements, before.apart) if before else (0, 0)
        found[result.index] = LayerGolden(
            result.index, result.name, result.tensor, elements + one.elements, apart + one.apart
        )
    return GoldenReport(reference, len(inferences), tuple(found[n] for n in sorted(found)))


def read_golden(path: Path) -> Golden:
    """Read ``golden.npz``, or a folder with the text files or with a ``golden.npz``.

    Raises: UsageError for a missing or unreadable file, gaps in the layers, or values that are not
    integers; the message names the file.
    """
    path = Path(path)
    if path.is_dir():
        if (path / "input.txt").is_file():
            return _read_texts(path)
        if (path / "golden.npz").is_file():
            return _read_npz(path / "golden.npz")
        raise UsageError(
            f"{path}: the folder holds neither input.txt nor golden.npz",
            "a text golden is input.txt with out_layer0.txt, out_layer1.txt, ...",
        )
    if not path.is_file():
        raise UsageError(f"{path}: golden does not exist", "give a folder or a .npz file")
    return _read_npz(path)


def read_goldens(path: Path) -> tuple[Golden, ...] | tuple[TensorGolden, ...]:
    """Read a golden of any form: one per inference. Raises: UsageError like :func:`read_golden`."""
    path = Path(path)
    file = path / "golden.npz" if (path / "golden.npz").is_file() else path
    if file.is_file() and not (path / "input.txt").is_file():
        found = tensor_goldens(file, load_arrays(file, "", _NAMES))
        if found:
            return found
    return (read_golden(path),)


def input_of(graph: Graph, golden: Golden) -> Values:
    """Return the golden's input as (C, H, W). Raises: UsageError when its size is wrong."""
    return _shaped(golden.title(0), golden.input, graph.tensors[graph.inputs[0]])


def compare(
    graph: Graph, golden: Golden, outputs: Mapping[str, npt.NDArray[Any]]
) -> tuple[LayerResult, ...]:
    """Compare every layer with the golden, every element.

    Channels that are not stored are compared with their constant values. Copies of inputs come
    after the layers of the file; the golden may omit them.

    Args:
        graph: The network.
        golden: The values to compare with.
        outputs: Tensors by name, shape (C, H, W), computed from the golden's input.

    Raises:
        UsageError: When the golden has another number of layers or of elements.
    """
    compared = graph.ops
    if len(golden.layers) < _count(compared):
        compared = tuple(op for op in graph.ops if not is_copy_of_input(graph, op))
    if len(golden.layers) != _count(compared):
        raise UsageError(
            f"{golden.source}: golden of {len(golden.layers)} layers, the network has"
            f" {_count(compared)}",
            "use the golden that was exported together with the network",
        )
    expected = {
        layer.index: _shaped(
            golden.title(layer.index + 1), golden.layers[layer.index], graph.tensors[layer.output]
        ).transpose(1, 2, 0)
        for layer in compared
    }
    found = [LayerOutput(op.index, op.name, graph.tensors[op.output]) for op in compared]
    return tuple(
        compare_layer(layer, layer.full(outputs[op.output].transpose(1, 2, 0)), expected)
        for layer, op in zip(found, compared, strict=True)
    )


def _count(layers: Sequence[Operator]) -> int:
    """Return the number of layers of the file, those that are computed inside of others as well."""
    return 1 + max((layer.index for layer in layers), default=-1)


def _shaped(what: str, values: Values, tensor: Tensor) -> Values:
    channels = file_channels(tensor)
    if values.size != channels * tensor.height * tensor.width:
        raise UsageError(
            f"{what} holds {values.size} values, tensor"
            f" '{tensor.name}' of the network has {channels * tensor.height * tensor.width}"
            f" ({channels} x {tensor.height} x {tensor.width})",
            "give values of this network, flattened in HWC order",
        )
    return values.reshape(tensor.height, tensor.width, channels).transpose(2, 0, 1)


def _read_npz(path: Path) -> Golden:
    arrays = load_arrays(path, "", _NAMES)
    if "" in arrays:
        raise UsageError(
            f"{path}: holds one array, not input and layers", "an input alone is given with --input"
        )
    if "input" not in arrays:
        raise UsageError(f"{path}: array 'input' is missing", _ARRAYS_HINT)
    names = _in_order(path, arrays, r"layer_(\d{1,9})", "layer_{:02d}")
    values = [integers(f"{path}: array '{n}'", arrays[n]) for n in ("input", *names)]
    return Golden(path, values[0], tuple(values[1:]), ("input", *names))


def _read_texts(folder: Path) -> Golden:
    files = {file.name: file for file in sorted(folder.glob("*.txt"))}
    names = _in_order(folder, files, r"out_layer(\d+)\.txt", "out_layer{}.txt")
    values = [integers(f"{files[n]}", read_numbers(files[n])) for n in ("input.txt", *names)]
    return Golden(folder, values[0], tuple(values[1:]), ("input.txt", *names))


def _in_order(
    source: Path, entries: Mapping[str, object], pattern: str, form: str
) -> tuple[str, ...]:
    """Return the names that match ``pattern``, ordered by their numbers, which start at 0."""
    numbered: dict[int, str] = {}
    for name in entries:
        match = re.fullmatch(pattern, name)
        if match and numbered.setdefault(int(match[1]), name) != name:
            raise UsageError(
                f"{source}: '{name}' and '{numbered[int(match[1])]}' are the same layer",
                "leave the one that is right",
            )
    if not numbered:
        raise UsageError(
            f"{source}: holds no layers ('{form.format(0)}', ...)",
            "give the output of every layer; an input alone is given with --input",
        )
    last = max(numbered)
    for number in range(last + 1):
        if number not in numbered:
            raise UsageError(
                f"{source}: '{form.format(number)}' is missing, but '{numbered[last]}' is there",
                "give the output of every layer, numbered in the order of the file from 0",
            )
    return tuple(numbered[number] for number in sorted(numbered))
