"""Network inputs that a user gives: arrays, or files of text, arrays, bytes or a picture.

Each input is checked against the shape of its tensor, and its conversions are described in one
line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.golden.arrays import array_names, integers, load_arrays, read_numbers
from dory_core.golden.pictures import SUFFIXES, read_picture
from dory_core.ir import Graph, Tensor
from dory_core.ir.packing import unpack
from dory_core.ir.reals import quantise

Values = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float32]

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
    """Reader of the inputs of a network.

    layout: hwc, chw, or empty when not given. reals: True when arrays of floats are real numbers.
    ties_even: their rounding.
    """

    graph: Graph
    layout: str
    reals: bool
    ties_even: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Arranged:
    """An input as (C, H, W), how it was read, and its real numbers where it was given as such."""

    values: Values
    done: str
    reals: Reals | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """An array, its name for messages, and what the description of its conversion begins with."""

    what: str
    array: npt.NDArray[Any]
    label: str = ""


#: What is given for each input of the network, by its name.
_Arrays = Mapping[str, _Given]


def read_inputs(
    path: Path, graph: Graph, layout: str = "", reals: bool = False, ties_even: bool = False
) -> tuple[GivenInputs, ...]:
    """Read the inputs of one inference, or of a batch.

    .txt: one number per line. .npy: the only input. .npz: arrays with the names of the inputs.
    .bin: the bytes of all inputs, one after the other, as the application takes them. Pictures: the
    only input. Arrays may hold a batch, shape (N, H, W, C).

    Args:
        path: The file.
        graph: The network.
        layout: Layout of arrays and text, ``hwc`` or ``chw``; empty for ``hwc``. Bytes are always
            ``hwc``.
        reals: True when floats are real numbers, which are quantised.
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
        return (_inference(f"{path}", _from_bytes(reader, path)),)
    if suffix == ".npz":
        return _batch(reader, f"{path}", _from_arrays(reader, path))
    tensor = _only_input(graph, f"{path}")
    if suffix in SUFFIXES:
        found = {tensor.name: _Arranged(*read_picture(path, tensor))}
        return (_inference(f"{path}", found),)
    array = load_arrays(path, "")[""] if suffix == ".npy" else read_numbers(path)
    return _batch(reader, f"{path}", {tensor.name: _Given(f"{path}", array)})


def arrays_as_inputs(
    what: str,
    arrays: Mapping[str, npt.NDArray[Any]],
    graph: Graph,
    layout: str = "",
    ties_even: bool = False,
) -> tuple[GivenInputs, ...]:
    """Return given arrays as the inputs of one inference, or of a batch.

    Floats are real numbers where the input has a scale.

    Args:
        what: Name of the arrays, for messages.
        arrays: An array for each input of the network, by its name; by any name for the only input.
        graph: The network.
        layout: ``hwc`` or ``chw``; empty for ``hwc``.
        ties_even: Rounding of real numbers.

    Raises:
        UsageError: For a missing input, a wrong shape, or values that are not integers.
    """
    reader = _Reader(graph, layout, True, ties_even)
    if len(arrays) == 1 and not {*arrays} & {*graph.inputs}:
        [array] = arrays.values()
        return _batch(reader, what, {_only_input(graph, what).name: _Given(what, array)})
    missing = [name for name in graph.inputs if name not in arrays]
    if missing:
        raise UsageError(
            f"{what}: no array '{missing[0]}', there are {', '.join(sorted(arrays))}",
            f"give the arrays {', '.join(graph.inputs)}",
        )
    return _batch(reader, what, {name: _named(what, name, arrays[name]) for name in graph.inputs})


def _named(source: str, key: str, array: npt.NDArray[Any]) -> _Given:
    return _Given(f"{source}: array '{key}'", array, f"'{key}' ")


def _batch(reader: _Reader, source: str, arrays: _Arrays) -> tuple[GivenInputs, ...]:
    """Return the inference of the arrays, or one for each entry of their first dimension."""
    tensors = reader.graph.tensors
    counts = {name: _count(one.array, tensors[name]) for name, one in arrays.items()}
    if len({*counts.values()}) > 1:
        listed = ", ".join(f"{count or 'one'} of '{name}'" for name, count in counts.items())
        raise UsageError(
            f"{source} holds different numbers of inputs: {listed}",
            "give as many of each input",
        )
    [count, *_] = counts.values()
    if count is None:
        return (_inference(source, _all_arranged(reader, arrays)),)
    found = []
    for n in range(count):
        entry = {
            name: replace(one, what=f"{one.what}[{n}]", array=one.array[n])
            for name, one in arrays.items()
        }
        found.append(_inference(source, _all_arranged(reader, entry)))
    first, *others = found
    done = f"{first.done}, {count} times"
    return (replace(first, done=done), *(replace(one, done="") for one in others))


def _count(array: npt.NDArray[Any], tensor: Tensor) -> int | None:
    """Return how many inputs an array holds along its first dimension, None for one without it."""
    several = array.ndim > 1 and array.size != tensor.elements
    return len(array) if several and array.size == len(array) * tensor.elements else None


def _inference(source: str, found: Mapping[str, _Arranged]) -> GivenInputs:
    return GivenInputs(
        {name: one.values for name, one in found.items()},
        f"{source}: {'; '.join(one.done for one in found.values())}",
        {name: one.reals for name, one in found.items() if one.reals is not None},
    )


def _all_arranged(reader: _Reader, arrays: _Arrays) -> dict[str, _Arranged]:
    tensors = reader.graph.tensors
    return {name: _arranged(reader, one, tensors[name]) for name, one in arrays.items()}


def _listed() -> str:
    return ", ".join((*_SUFFIXES, *SUFFIXES))


def _only_input(graph: Graph, what: str) -> Tensor:
    if len(graph.inputs) > 1:
        raise UsageError(
            f"{what}: the network has {len(graph.inputs)} inputs: {', '.join(graph.inputs)}",
            "give an .npz file with an array for each, or a .bin file with all of them",
        )
    return graph.tensors[graph.inputs[0]]


def _from_arrays(reader: _Reader, path: Path) -> _Arrays:
    names, listed = reader.graph.inputs, array_names(path)
    own = {"input", *names, *(f"in0__{name}" for name in names)}
    read = [name for name in listed if name in own or len(listed) == 1]
    # Other arrays of the file may be larger than memory.
    arrays = load_arrays(path, "", "|".join(map(re.escape, read)) if listed else ".*")
    found = {}
    for name in names:
        known = [name, f"in0__{name}", *(["input", *arrays] if len(names) == 1 else [])]
        key = next((key for key in known if key in arrays), None)
        if key is None or (key not in known[:3] and len(arrays) > 1):
            raise UsageError(
                f"{path}: no array '{name}', it holds {', '.join(sorted(listed)) or 'none'}",
                f"write it with numpy.savez and the arrays {', '.join(names)}",
            )
        found[name] = _named(f"{path}", key, arrays[key])
    return found


def _from_bytes(reader: _Reader, path: Path) -> dict[str, _Arranged]:
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
    found, at = {}, 0
    for tensor, size in zip(tensors, sizes, strict=True):
        part = data[at : at + size]
        if reader.reals:
            array = np.frombuffer(part, "<f4").reshape(tensor.height, tensor.width, tensor.channels)
            done = f"{size} bytes as float32, H x W x C"
            found[tensor.name] = _quantised(reader, tensor, array.transpose(2, 0, 1), done)
        else:
            done = f"{size} bytes as {tensor.type_name}, H x W x C"
            found[tensor.name] = _Arranged(unpack(part, tensor).transpose(2, 0, 1), done)
        at += size
    return found


def _arranged(reader: _Reader, given: _Given, tensor: Tensor) -> _Arranged:
    """Return an array as (C, H, W), with a description of the conversion."""
    what, array = given.what, given.array
    channels, height, width = tensor.shape
    shapes = {"hwc": (height, width, channels), "chw": (channels, height, width)}
    if array.size != tensor.elements:
        raise UsageError(
            f"{what} holds {array.size} values, tensor '{tensor.name}' of the network has"
            f" {tensor.elements} ({_by(shapes['hwc'])})",
            "give values of this network, H x W x C, or several such inputs, N x H x W x C",
        )
    layout = reader.layout or "hwc"
    if array.ndim > 1 and _wide(array.shape) != _wide(shapes[layout]):
        raise _misfit(what, array.shape, tensor, layout, shapes)
    order = "H x W x C" if layout == "hwc" else "C x H x W, rearranged to H x W x C"
    if reader.reals and array.dtype.kind == "f" and tensor.has_scale:
        reals = _channels_first(array.reshape(shapes[layout]), layout)
        done = f"{given.label}{_by(array.shape)} real numbers as {order}"
        return _quantised(reader, tensor, reals, done)
    values = integers(what, array).reshape(shapes[layout])
    done = f"{given.label}{_by(array.shape)} {array.dtype} as {order}"
    return _Arranged(_channels_first(values, layout), done)


def _quantised(reader: _Reader, tensor: Tensor, reals: npt.NDArray[Any], done: str) -> _Arranged:
    """Return real numbers (C, H, W) with their quantised integers."""
    unknown = int(np.isnan(reals).sum())
    told = f", {unknown} of them no numbers (NaN), which become 0" if unknown else ""
    values = quantise(tensor, reals, reader.ties_even)
    return _Arranged(values, f"{done}, quantised{told}", reals.astype(np.float32))


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
