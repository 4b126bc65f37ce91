"""A writer of .tflite files: tensors, operators with their attributes, state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite

from dory_tflite.options import ENUMERATIONS, OPTION_TABLES, VECTORS

_SCHEMA_VERSION = 3
_ALIGNMENT = 16
_LAST_OLD_CODE = 127  # larger codes are only in a second field


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    shape: tuple[int, ...]
    type: str
    data: bytes | None = None
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0
    variable: bool = False


@dataclass(slots=True)
class TfliteBuilder:
    """Collects tensors and operators of one network; ``build`` returns the file.

    initialiser: what CALL_ONCE calls, the second subgraph. parts: what WHILE calls, with outputs;
    the subgraphs after that.
    """

    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[tuple[str, list[int], list[int], dict[str, Any]]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    initialiser: TfliteBuilder | None = None
    parts: list[tuple[TfliteBuilder, Sequence[int]]] = field(default_factory=list)

    def tensor(
        self, shape: Sequence[int], scale: float, zero_point: int, type: str = "INT8"
    ) -> int:
        """Add a tensor that an operator computes; returns its index."""
        return self._add(_Tensor("", tuple(shape), type, None, (scale,), (zero_point,)))

    def plain(self, shape: Sequence[int], type: str) -> int:
        """Add a tensor without quantisation; returns its index."""
        return self._add(_Tensor("", tuple(shape), type))

    def input(self, shape: Sequence[int], scale: float, zero_point: int, type: str = "INT8") -> int:
        """Add a network input; returns its index."""
        self.inputs.append(self.tensor(shape, scale, zero_point, type))
        return self.inputs[-1]

    def constant(
        self,
        values: npt.ArrayLike,
        scales: Sequence[float] = (),
        zero_points: Sequence[int] = (),
        axis: int = 0,
    ) -> int:
        """Add a constant of its array's type; returns its index."""
        array = np.asarray(values)
        kind = array.dtype.name.upper()
        zeros = tuple(zero_points) or (0,) * len(scales)
        data = np.ascontiguousarray(array).tobytes()
        return self._add(_Tensor("", array.shape, kind, data, tuple(scales), zeros, axis))

    def nibbles(self, values: npt.ArrayLike, scales: Sequence[float] = (), axis: int = 0) -> int:
        """Add a constant of INT4, two numbers in a byte; returns its index."""
        array = np.asarray(values)
        flat = np.append(array.reshape(-1) & 15, np.zeros(array.size % 2, array.dtype))
        data = (flat[::2] | flat[1::2] << 4).astype(np.uint8).tobytes()
        zeros = (0,) * len(scales)
        return self._add(_Tensor("", array.shape, "INT4", data, tuple(scales), zeros, axis))

    def variable(
        self, shape: Sequence[int], scale: float, zero_point: int, type: str = "INT8"
    ) -> int:
        """Add a tensor that its operator keeps from one inference to the next."""
        kept = _Tensor("", tuple(shape), type, None, (scale,), (zero_point,), variable=True)
        return self._add(kept)

    def handle(self, name: str) -> int:
        """Add the VAR_HANDLE of a variable; returns its tensor."""
        resource = self.plain((), "RESOURCE")
        self.operator("VAR_HANDLE", (), (resource,), SharedName=name, Container="")
        return resource

    def initial(self, name: str, values: int) -> None:
        """Let CALL_ONCE assign a constant to a variable before the first inference.

        values: tensor of this network with the constant.
        """
        if self.initialiser is None:
            self.initialiser = TfliteBuilder()
            self.operators.insert(0, ("CALL_ONCE", [], [], {"InitSubgraphIndex": 1}))
        other = self.initialiser
        other.operator(
            "ASSIGN_VARIABLE", (other.handle(name), other._add(self.tensors[values])), ()
        )

    def part(self, network: TfliteBuilder, outputs: Sequence[int]) -> int:
        """Add what a WHILE calls; returns the number of its subgraph."""
        self.parts.append((network, outputs))
        return len(self.parts) + (self.initialiser is not None)

    def operator(
        self, code: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any
    ) -> None:
        """Add an operator; attributes have the names of the schema, others their defaults.

        code: of the schema, or ``CUSTOM name``.
        """
        self.operators.append((code, list(inputs), list(outputs), options))

    def build(self, outputs: Sequence[int]) -> bytes:
        """Return the file whose network outputs are these tensors."""
        builder = flatbuffers.Builder(1024)
        networks = [(self, outputs)]
        networks += [] if self.initialiser is None else [(self.initialiser, ())]
        networks += self.parts
        codes = sorted({code for network, _ in networks for code, *_ in network.operators})
        buffers = [_buffer(builder, None)]
        tables = []
        for network, results in networks:
            first = len(buffers)
            buffers += [_buffer(builder, t.data) for t in network.tensors if t.data is not None]
            tables.append(network._subgraph(builder, codes, results, first))
        subgraphs = _tables(builder, tables)
        code_vector = _tables(builder, [_code(builder, code) for code in codes])
        buffer_vector = _tables(builder, buffers)
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, _SCHEMA_VERSION)
        tflite.ModelAddOperatorCodes(builder, code_vector)
        tflite.ModelAddSubgraphs(builder, subgraphs)
        tflite.ModelAddBuffers(builder, buffer_vector)
        builder.Finish(tflite.ModelEnd(builder), b"TFL3")
        return bytes(builder.Output())

    def _subgraph(
        self, builder: Any, codes: list[str], outputs: Sequence[int], first_buffer: int
    ) -> int:
        tensors = self._tensor_tables(builder, first_buffer)
        operators = [
            _operator(builder, codes.index(code), code, i, o, options)
            for code, i, o, options in self.operators
        ]
        inputs = _numbers(builder, self.inputs, np.int32)
        results = _numbers(builder, outputs, np.int32)
        tensor_vector, operator_vector = _tables(builder, tensors), _tables(builder, operators)
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddTensors(builder, tensor_vector)
        tflite.SubGraphAddInputs(builder, inputs)
        tflite.SubGraphAddOutputs(builder, results)
        tflite.SubGraphAddOperators(builder, operator_vector)
        return int(tflite.SubGraphEnd(builder))

    def _add(self, tensor: _Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _tensor_tables(self, builder: Any, next_buffer: int) -> list[int]:
        tables = []
        for index, tensor in enumerate(self.tensors):
            name = builder.CreateString(tensor.name or f"tensor_{index}")
            shape = _numbers(builder, tensor.shape, np.int32)
            quantisation = _quantisation(builder, tensor) if tensor.scales else None
            tflite.TensorStart(builder)
            tflite.TensorAddShape(builder, shape)
            tflite.TensorAddType(builder, getattr(tflite.TensorType, tensor.type))
            if tensor.data is not None:
                tflite.TensorAddBuffer(builder, next_buffer)
                next_buffer += 1
            tflite.TensorAddName(builder, name)
            if quantisation is not None:
                tflite.TensorAddQuantization(builder, quantisation)
            if tensor.variable:
                tflite.TensorAddIsVariable(builder, True)
            tables.append(tflite.TensorEnd(builder))
        return tables


def _numbers(builder: Any, values: Sequence[Any], type: Any) -> int:
    return int(builder.CreateNumpyVector(np.asarray(list(values), type)))


def _tables(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _buffer(builder: Any, data: bytes | None) -> int:
    vector = None
    if data is not None:
        builder.StartVector(1, len(data), _ALIGNMENT)
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data
        vector = builder.EndVector()
    tflite.BufferStart(builder)
    if vector is not None:
        tflite.BufferAddData(builder, vector)
    return int(tflite.BufferEnd(builder))


def _quantisation(builder: Any, tensor: _Tensor) -> int:
    scales = _numbers(builder, tensor.scales, np.float32)
    zeros = _numbers(builder, tensor.zero_points, np.int64)
    tflite.QuantizationParametersStart(builder)
    tflite.QuantizationParametersAddScale(builder, scales)
    tflite.QuantizationParametersAddZeroPoint(builder, zeros)
    tflite.QuantizationParametersAddQuantizedDimension(builder, tensor.axis)
    return int(tflite.QuantizationParametersEnd(builder))


def _code(builder: Any, code: str) -> int:
    builtin, _, custom = code.partition(" ")
    number = getattr(tflite.BuiltinOperator, builtin)
    name = builder.CreateString(custom) if custom else None
    tflite.OperatorCodeStart(builder)
    if name is not None:
        tflite.OperatorCodeAddCustomCode(builder, name)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(number, _LAST_OLD_CODE))
    tflite.OperatorCodeAddBuiltinCode(builder, number)
    tflite.OperatorCodeAddVersion(builder, 1)
    return int(tflite.OperatorCodeEnd(builder))


def _operator(
    builder: Any, code: int, name: str, inputs: list[int], outputs: list[int], given: dict[str, Any]
) -> int:
    table = _options(builder, name, given) if name in OPTION_TABLES else None
    input_vector = _numbers(builder, inputs, np.int32)
    output_vector = _numbers(builder, outputs, np.int32)
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, code)
    tflite.OperatorAddInputs(builder, input_vector)
    tflite.OperatorAddOutputs(builder, output_vector)
    if table is not None:
        kind = getattr(tflite.BuiltinOptions, OPTION_TABLES[name][0])
        tflite.OperatorAddBuiltinOptionsType(builder, kind)
        tflite.OperatorAddBuiltinOptions(builder, table)
    return int(tflite.OperatorEnd(builder))


def _options(builder: Any, code: str, given: dict[str, Any]) -> int:
    name, fields = OPTION_TABLES[code]
    unknown = set(given) - set(fields)
    if unknown:
        raise ValueError(f"{code} has no attribute {sorted(unknown)[0]}")
    stored: dict[str, Any] = {}
    for key, value in given.items():
        if key in VECTORS:
            value = _numbers(builder, value, np.int32)
        elif isinstance(value, str) and key not in ENUMERATIONS:
            value = builder.CreateString(value)
        elif key in ENUMERATIONS:
            value = next(n for n, member in ENUMERATIONS[key].items() if member == value)
        stored[key] = value
    getattr(tflite, f"{name}Start")(builder)
    for key, value in stored.items():
        getattr(tflite, f"{name}Add{key}")(builder, value)
    return int(getattr(tflite, f"{name}End")(builder))
