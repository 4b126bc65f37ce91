"""Network inputs that a user gives as a file: text, arrays, bytes or a picture.

Each input is checked against the shape of its tensor, and its conversions are described in one
line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.golden.layers import array_names, integers, load_arrays, read_numbers
from dory_core.golden.pictures import SUFFIXES, read_picture
from dory_core.ir import Graph, Tensor
from dory_core.ir.packing import unpack
from dory_core.ir.reals import quantise

Values = npt.NDArray[np.int64]

LAYOUTS = ("hwc", "chw")
_SUFFIXES = (".txt", ".npy", ".npz", ".bin")


@dataclass(frozen=True, slots=True, eq=False)
class GivenInputs:
    """The inputs of an inference, by name, shape (C, H, W).

    Attributes:
        values: Integer values.
        done: How the file was read.
        reals: Real numbers of the inputs that were given as such.
    """

    values: Mapping[str, Values]
    done: str
    reals: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of the files of one inference.

    layout: hwc, chw, or empty when not given. reals: True when arrays of floats are real numbers.
    ties_even: their rounding. found: the real numbers that were read.
    """

    graph: Graph
    layout: str
    reals: bool
    ties_even: bool
    found: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)

    def quantised(self, tensor: Tensor, reals: npt.NDArray[Any]) -> Values:
        """Keep real numbers (C, H, W) and return their quantised integers."""
        self.found[tensor.name] = reals.astype(np.float32)
        return quantise(tensor, reals, self.ties_even)


def read_inputs(
    path: Path, graph: Graph, layout: str = "", reals: bool = False, ties_even: bool = False
) -> GivenInputs:
    """Read the inputs of one inference.

    .txt: one number per line. .npy: the only input. .npz: arrays with the names of the inputs.
    .bin: the bytes of all inputs, one after the other, as the application takes them. Pictures: the
    only input.

    Args:
        path: The file.
        graph: The network.
        layout: Layout of arrays and text, ``hwc`` or ``chw``; empty for ``hwc``. Bytes are always
            ``hwc``.
        reals: True when the application takes real numbers, so that floats are quantised.
        ties_even: Rounding of real numbers: True for ties to even, False for ties away from zero.

    Raises:
        UsageError: For an unreadable file, a wrong shape, or values that are not integers.
        ToolMissing: For pictures without Pillow.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path}: input does not exist", f"give a file: {_listed()}")
    reader, suffix = _Reader(graph, layout, reals, ties_even), path.suffix.lower()
    if suffix == ".bin":
        return _from_bytes(reader, path)
    if suffix == ".npz":
        return _from_arrays(reader, path)
    tensor = _only_input(graph, path)
    if suffix in SUFFIXES:
        values, done = read_picture(path, tensor)
    else:
        array = load_arrays(path, "")[""] if suffix == ".npy" else read_numbers(path)
        values, done = _arranged(reader, f"{path}", array, tensor)
    return GivenInputs({tensor.name: values}, f"{path}: {done}", reader.found)


def _listed() -> str:
    return ", ".join((*_SUFFIXES, *SUFFIXES))


def _only_input(graph: Graph, path: Path) -> Tensor:
    if len(graph.inputs) > 1:
        raise UsageError(
            f"{path}: the network has {len(graph.inputs)} inputs: {', '.join(graph.inputs)}",
            "give an .npz file with an array for each, or a .bin file with all of them",
        )
    return graph.tensors[graph.inputs[0]]


def _from_arrays(reader: _Reader, path: Path) -> GivenInputs:
    names, listed = reader.graph.inputs, array_names(path)
    own = {"input", *names, *(f"in0__{name}" for name in names)}
    read = [name for name in listed if name in own or len(listed) == 1]
    # Other arrays of the file may be larger than memory.
    arrays = load_arrays(path, "", "|".join(map(re.escape, read)) if listed else ".*")
    values, done = {}, []
    for name in names:
        known = [name, f"in0__{name}", *(["input", *arrays] if len(names) == 1 else [])]
        key = next((key for key in known if key in arrays), None)
        if key is None or (key not in known[:3] and len(arrays) > 1):
            raise UsageError(
                f"{path}: no array '{name}', it holds {', '.join(sorted(listed)) or 'none'}",
                f"write it with numpy.savez and the arrays {', '.join(names)}",
            )
        tensor = reader.graph.tensors[name]
        values[name], said = _arranged(reader, f"{path}: array '{key}'", arrays[key], tensor)
        done.append(f"'{key}' {said}")
    return GivenInputs(values, f"{path}: {'; '.join(done)}", reader.found)


def _from_bytes(reader: _Reader, path: Path) -> GivenInputs:
    if reader.layout not in ("", "hwc"):
        raise UsageError(
            f"{path}: --input-layout {reader.layout} is not for bytes, which are those that the"
            " application takes, H x W x C",
            "give an array (.npy) of C x H x W, or leave the option out",
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror or error}", "give a file that you may read"
        ) from error
    tensors = [reader.graph.tensors[name] for name in reader.graph.inputs]
    sizes = [4 * t.elements if reader.reals else t.size_bytes for t in tensors]
    if len(data) != sum(sizes):
        raise UsageError(
            f"{path} holds {len(data)} bytes, the inputs of the network have {sum(sizes)}",
            "give the bytes that the application takes, H x W x C, all inputs one after the other",
        )
    values, at = {}, 0
    for tensor, size in zip(tensors, sizes, strict=True):
        part = data[at : at + size]
        if reader.reals:
            array = np.frombuffer(part, "<f4").reshape(tensor.height, tensor.width, tensor.channels)
            values[tensor.name] = reader.quantised(tensor, array.transpose(2, 0, 1))
        else:
            values[tensor.name] = unpack(part, tensor).transpose(2, 0, 1)
        at += size
    kinds = ", ".join("float32" if reader.reals else t.type_name for t in tensors)
    return GivenInputs(values, f"{path}: {len(data)} bytes as {kinds}, H x W x C", reader.found)


def _arranged(
    reader: _Reader, what: str, array: npt.NDArray[Any], tensor: Tensor
) -> tuple[Values, str]:
    """Return an array as (C, H, W), with a description of the conversion."""
    channels, height, width = tensor.shape
    shapes = {"hwc": (height, width, channels), "chw": (channels, height, width)}
    if array.size != tensor.elements:
        raise UsageError(
            f"{what} holds {array.size} values, tensor '{tensor.name}' of the network has"
            f" {tensor.elements} ({_by(shapes['hwc'])})",
            "give values of this network, H x W x C",
        )
    layout = reader.layout or "hwc"
    if array.ndim > 1 and _wide(array.shape) != _wide(shapes[layout]):
        raise _misfit(what, array.shape, tensor, layout, shapes)
    order = "H x W x C" if layout == "hwc" else "C x H x W, rearranged to H x W x C"
    if reader.reals and array.dtype.kind == "f":
        reals = _channels_first(array.reshape(shapes[layout]), layout)
        done = f"{_by(array.shape)} real numbers as {order}, quantised"
        return reader.quantised(tensor, reals), done
    values = integers(what, array).reshape(shapes[layout])
    return _channels_first(values, layout), f"{_by(array.shape)} {array.dtype} as {order}"


def _channels_first(values: npt.NDArray[Any], layout: str) -> npt.NDArray[Any]:
    return values.transpose(2, 0, 1) if layout == "hwc" else values


def _misfit(
    what: str,
    shape: tuple[int, ...],
    tensor: Tensor,
    layout: str,
    shapes: Mapping[str, tuple[int, ...]],
) -> UsageError:
    (other,) = (name for name in LAYOUTS if name != layout)
    wanted = f"the network takes {_by(shapes['hwc'])} (H x W x C) for '{tensor.name}'"
    if _wide(shape) == _wide(shapes[other]):
        order = " x ".join(other.upper())
        return UsageError(
            f"{what} has the shape {_by(shape)}, which is {order}; {wanted}",
            f"--input-layout {other} takes it as {order}",
        )
    return UsageError(
        f"{what} has the shape {_by(shape)}; {wanted}",
        "give this shape, or flat values in the order of memory",
    )


def _wide(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
