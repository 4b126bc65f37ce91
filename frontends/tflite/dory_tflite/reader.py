"""Reading .tflite files, damaged ones too.

The accessors of the package ``tflite`` follow offsets wherever they lead. Here every length is
compared with what the file can hold, every number with what it may be, and the total of what is
read with the size of the file, since a damaged file can name one block many times.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, UsageError
from dory_tflite.model import ELEMENT_TYPES, FileOperator, FileTensor, Model, Subgraph
from dory_tflite.options import read_options

IDENTIFIER = b"TFL3"

_MOST_BYTES = 1 << 29
_MOST_TABLES = 1 << 15
_MOST_DIMENSIONS = 8
_MOST_ELEMENTS = 1 << 28
_SCALES = (2.0**-60, 2.0**60)  # products of two of them are floats

# What the accessors raise on offsets and lengths that lead outside the file.
_DAMAGE = (
    struct.error,
    IndexError,
    ValueError,
    TypeError,
    OverflowError,
    AttributeError,
    BufferError,
)


def read_model(path: Path) -> Model:
    """Return the content of a .tflite file.

    Raises: UsageError when it is missing, NotSupported when it is no .tflite file or damaged.
    """
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"{path}: is a directory", "give a .tflite file")
    if not path.is_file():
        raise UsageError(f"{path}: does not exist", "give a .tflite file")
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise NotSupported(f"{path}: larger than {_MOST_BYTES >> 20} MB")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror or error}", "give a file that you may read"
        ) from error
    return model_of(data, path)


def model_of(data: bytes, path: Path) -> Model:
    """Return the content of a .tflite file in memory; ``path`` is for messages.

    Raises: NotSupported when it is no .tflite file or damaged.
    """
    if data[4:8] != IDENTIFIER:
        raise NotSupported(
            f"{path}: is no .tflite file: the identifier TFL3 is missing at byte 4",
            "export the network with the TensorFlow Lite converter",
        )
    try:
        return _File(data).model(path.stem)
    except _Damaged as error:
        reason = str(error)
    except _DAMAGE as error:
        reason = f"an offset or a length leads outside the file ({type(error).__name__})"
    raise NotSupported(
        f"{path}: damaged .tflite file: {' '.join(reason.split())}", "export or copy it again"
    )


class _Damaged(Exception):
    """What is wrong with the file."""


@cache
def _names(enumeration: str) -> dict[int, str]:
    import tflite

    found = vars(getattr(tflite, enumeration)).items()
    return {value: name for name, value in found if isinstance(value, int)}


class _File:
    """The accessors of one file, with checks."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = 4 * len(data) + 4096

    def model(self, name: str) -> Model:
        import tflite

        root = tflite.Model.GetRootAs(self.data, 0)
        if root.Version() != 3:
            raise _Damaged(f"schema version {root.Version()}, expected 3")
        buffers = [
            self.buffer(root.Buffers(n), n)
            for n in range(self.count("buffers", root.BuffersLength()))
        ]
        codes = [
            self.code(root.OperatorCodes(n))
            for n in range(self.count("operator codes", root.OperatorCodesLength()))
        ]
        count = self.count("subgraphs", root.SubgraphsLength())
        if count == 0:
            raise _Damaged("it has no subgraph")
        return Model(
            name, tuple(self.subgraph(root.Subgraphs(n), buffers, codes) for n in range(count))
        )

    def spend(self, what: str, size: int) -> None:
        """Count ``size`` bytes that are read."""
        self.left -= size
        if size < 0 or self.left < 0:
            raise _Damaged(f"{what} are longer than the file")

    def count(self, what: str, length: int) -> int:
        """Return the length of a vector of tables."""
        if length > _MOST_TABLES:
            raise _Damaged(f"{length} {what}")
        self.spend(what, 4 * length)
        return int(length)

    def numbers(self, what: str, length: int, read: Callable[[], Any]) -> tuple[Any, ...]:
        """Return a vector of numbers."""
        self.spend(what, 4 * length)
        if length == 0:
            return ()
        values = read()
        if len(values) != length:
            raise _Damaged(f"{what} has no values")
        return tuple(values.tolist())

    def text(self, value: bytes | None) -> str:
        """Return a string of the file."""
        value = b"" if value is None else value
        self.spend("names", len(value))
        return value[:200].decode("utf-8", "replace")

    def buffer(self, table: Any, index: int) -> npt.NDArray[np.uint8] | None:
        if table.Offset() > 1 or table.Size() > 1:
            raise _Damaged(f"buffer {index} lies behind the tables, as in files beyond 2 GB")
        length = table.DataLength()
        if length == 0:
            return None
        self.spend("buffers", length)
        values: npt.NDArray[np.uint8] = table.DataAsNumpy()
        return values

    def code(self, table: Any) -> str:
        code = max(table.BuiltinCode(), table.DeprecatedBuiltinCode())
        name = _names("BuiltinOperator").get(code)
        if name is None:
            return f"BUILTIN {code}"
        return f"CUSTOM {self.text(table.CustomCode())}" if name == "CUSTOM" else name

    def subgraph(self, table: Any, buffers: list[Any], codes: list[str]) -> Subgraph:
        tensors = tuple(
            self.tensor(table.Tensors(n), n, buffers)
            for n in range(self.count("tensors", table.TensorsLength()))
        )
        operators = tuple(
            self.operator(table.Operators(n), n, codes, len(tensors))
            for n in range(self.count("operators", table.OperatorsLength()))
        )
        inputs = self.numbers("network inputs", table.InputsLength(), table.InputsAsNumpy)
        outputs = self.numbers("network outputs", table.OutputsLength(), table.OutputsAsNumpy)
        for index in (*inputs, *outputs):
            if not 0 <= index < len(tensors):
                raise _Damaged(f"the network has tensor {index} of {len(tensors)}")
        return Subgraph(tensors, operators, inputs, outputs)

    def tensor(self, table: Any, index: int, buffers: list[Any]) -> FileTensor:
        what = f"the shape of tensor {index}"
        if table.ShapeLength() > _MOST_DIMENSIONS:
            raise _Damaged(f"{what} has {table.ShapeLength()} dimensions")
        shape = self.numbers(what, table.ShapeLength(), table.ShapeAsNumpy)
        elements = 1
        for size in shape:
            if size < 0:
                raise _Damaged(f"{what} is {list(shape)}")
            elements *= size
        if elements > _MOST_ELEMENTS:
            raise _Damaged(f"{what} is {list(shape)}, beyond {_MOST_ELEMENTS} elements")
        kind = _names("TensorType").get(table.Type())
        if kind is None:
            raise _Damaged(f"tensor {index} has element type {table.Type()}")
        if not 0 <= table.Buffer() < len(buffers):
            raise _Damaged(f"tensor {index} has buffer {table.Buffer()} of {len(buffers)}")
        raw = buffers[table.Buffer()]
        scales, zero_points, axis = self.quantisation(table, index, shape, elements)
        if table.Sparsity() is not None:
            kind = f"sparse {kind}"
        return FileTensor(
            index=index,
            name=self.text(table.Name()),
            shape=shape,
            type=kind,
            data=_constant(index, shape, kind, elements, raw),
            scales=scales,
            zero_points=zero_points,
            axis=axis,
            variable=bool(table.IsVariable()),
        )

    def quantisation(
        self, table: Any, index: int, shape: tuple[int, ...], elements: int
    ) -> tuple[tuple[float, ...], tuple[int, ...], int]:
        found = table.Quantization()
        if found is None or found.ScaleLength() == 0:
            return (), (), 0
        what = f"the quantisation of tensor {index}"
        if found.ScaleLength() > max(elements, 1):
            raise _Damaged(f"{what} has {found.ScaleLength()} scales for {elements} elements")
        scales = self.numbers(what, found.ScaleLength(), found.ScaleAsNumpy)
        zeros = self.numbers(what, found.ZeroPointLength(), found.ZeroPointAsNumpy)
        zeros = zeros or (0,) * len(scales)
        if len(zeros) == 1:
            zeros *= len(scales)
        # Old converters gave biases the dimension of their weights.
        axis = 0 if len(shape) == 1 else found.QuantizedDimension()
        if len(zeros) != len(scales):
            raise _Damaged(f"{what} has {len(scales)} scales and {len(zeros)} zero points")
        if not all(scale == 0 or _SCALES[0] <= scale <= _SCALES[1] for scale in scales):
            raise _Damaged(f"{what} has a scale outside of {_SCALES[0]:.1g} ... {_SCALES[1]:.1g}")
        if not all(abs(zero) < 1 << 31 for zero in zeros):
            raise _Damaged(f"{what} has a zero point beyond 32 bits")
        if len(scales) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scales)):
            raise _Damaged(
                f"{what} has {len(scales)} scales along dimension {axis} of {list(shape)}"
            )
        return scales, zeros, axis

    def operator(self, table: Any, position: int, codes: list[str], tensors: int) -> FileOperator:
        if not 0 <= table.OpcodeIndex() < len(codes):
            raise _Damaged(f"operator {position} has code {table.OpcodeIndex()} of {len(codes)}")
        code = codes[table.OpcodeIndex()]
        what = f"operator {position} ({code})"
        inputs = self.numbers(what, table.InputsLength(), table.InputsAsNumpy)
        outputs = self.numbers(what, table.OutputsLength(), table.OutputsAsNumpy)
        for index in inputs:
            if not -1 <= index < tensors:
                raise _Damaged(f"{what} reads tensor {index} of {tensors}")
        for index in outputs:
            if not 0 <= index < tensors:
                raise _Damaged(f"{what} writes tensor {index} of {tensors}")
        try:
            options = read_options(code, table, self.numbers, self.text)
        except KeyError as error:
            raise _Damaged(f"{what}: {error.args[0]}") from None
        return FileOperator(position, code, inputs, outputs, options)


def _constant(
    index: int, shape: tuple[int, ...], kind: str, elements: int, raw: Any
) -> npt.NDArray[Any] | None:
    element = ELEMENT_TYPES.get(kind)
    if raw is None or element is None:
        return None
    size = (elements + 1) // 2 if kind == "INT4" else elements * np.dtype(element).itemsize
    if raw.size != size:
        raise _Damaged(
            f"tensor {index}, {kind} of shape {list(shape)}, has a buffer of {raw.size} bytes"
        )
    if kind == "INT4":
        return _nibbles(raw)[:elements].reshape(shape)
    values = np.frombuffer(raw.tobytes(), np.dtype(element).newbyteorder("<"))
    values = values.astype(element).reshape(shape)
    if kind == "FLOAT32" and not np.isfinite(values).all():
        raise _Damaged(f"tensor {index} holds values that are not finite")
    return values


def _nibbles(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
    """Return the signed numbers of 4 bits in bytes, the low half of each first."""
    halves = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1).astype(np.int8)
    return np.where(halves > 7, halves - 16, halves).astype(np.int8)
