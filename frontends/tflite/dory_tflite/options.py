"""Attributes of operators: which ones are read, and how.

A value is a number, a bool, a float, the name of an enumeration's member, or a tuple of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_PADDING = {0: "SAME", 1: "VALID"}
_ACTIVATION = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}
ENUMERATIONS: Mapping[str, Mapping[int, str]] = {
    "Padding": _PADDING,
    "FusedActivationFunction": _ACTIVATION,
    "WeightsFormat": {0: "DEFAULT", 1: "SHUFFLED4x16INT8"},
    "Mode": {0: "REFLECT", 1: "SYMMETRIC"},
    "QuantizedBiasType": {0: "FLOAT32", 2: "INT32", 4: "INT64"},
    "OutputType": {0: "FLOAT32", 2: "INT32", 4: "INT64"},
}
_TEXTS = ("Container", "SharedName")

_WINDOW = ("Padding", "StrideH", "StrideW", "FusedActivationFunction")
_POOL = ("Pool2DOptions", (*_WINDOW, "FilterHeight", "FilterWidth"))
_DILATION = ("DilationHFactor", "DilationWFactor")
_MASKS = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset")
_CORNERS = ("AlignCorners", "HalfPixelCenters")

#: Table of options and its fields that are read, by operator. Fields of other operators are not.
OPTION_TABLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "CONV_2D": ("Conv2DOptions", (*_WINDOW, *_DILATION, "QuantizedBiasType")),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", (*_WINDOW, *_DILATION, "DepthMultiplier")),
    "TRANSPOSE_CONV": ("TransposeConvOptions", _WINDOW),
    "FULLY_CONNECTED": (
        "FullyConnectedOptions",
        ("FusedActivationFunction", "WeightsFormat", "KeepNumDims", "QuantizedBiasType"),
    ),
    "BATCH_MATMUL": ("BatchMatMulOptions", ("AdjX", "AdjY")),
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "ADD": ("AddOptions", ("FusedActivationFunction",)),
    "SUB": ("SubOptions", ("FusedActivationFunction",)),
    "MUL": ("MulOptions", ("FusedActivationFunction",)),
    "DIV": ("DivOptions", ("FusedActivationFunction",)),
    "CUMSUM": ("CumsumOptions", ("Exclusive", "Reverse")),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", ("BlockSize",)),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", ("BlockSize",)),
    "GATHER": ("GatherOptions", ("Axis", "BatchDims")),
    "MIRROR_PAD": ("MirrorPadOptions", ("Mode",)),
    "GELU": ("GeluOptions", ("Approximate",)),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", "FusedActivationFunction")),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "L2_NORMALIZATION": ("L2NormOptions", ("FusedActivationFunction",)),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    "MEAN": ("ReducerOptions", ("KeepDims",)),
    "SUM": ("ReducerOptions", ("KeepDims",)),
    "REDUCE_MAX": ("ReducerOptions", ("KeepDims",)),
    "REDUCE_MIN": ("ReducerOptions", ("KeepDims",)),
    "PACK": ("PackOptions", ("Axis", "ValuesCount")),
    "UNPACK": ("UnpackOptions", ("Axis", "Num")),
    "SPLIT": ("SplitOptions", ("NumSplits",)),
    "SPLIT_V": ("SplitVOptions", ("NumSplits",)),
    "SQUEEZE": ("SqueezeOptions", ("SqueezeDims",)),
    "RESHAPE": ("ReshapeOptions", ("NewShape",)),
    "STRIDED_SLICE": ("StridedSliceOptions", _MASKS),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", _CORNERS),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", _CORNERS),
    "ARG_MAX": ("ArgMaxOptions", ("OutputType",)),
    "ARG_MIN": ("ArgMinOptions", ("OutputType",)),
    "SVDF": ("SVDFOptions", ("Rank", "FusedActivationFunction")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        "UnidirectionalSequenceLSTMOptions",
        ("FusedActivationFunction", "CellClip", "ProjClip", "TimeMajor"),
    ),
    "WHILE": ("WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
    "VAR_HANDLE": ("VarHandleOptions", _TEXTS),
}

#: Vectors of numbers among the fields.
VECTORS = ("SqueezeDims", "NewShape")

Numbers = Callable[[str, int, Callable[[], Any]], tuple[Any, ...]]


def read_options(
    code: str, operator: Any, numbers: Numbers, text: Callable[[bytes | None], str]
) -> dict[str, Any]:
    """Return the attributes of an operator; defaults of the schema where it has no options.

    Args:
        operator: The table of the file.
        numbers, text: Functions that read a vector of numbers and a text.

    Raises:
        KeyError: With a sentence when the options are those of another operator, or an enumeration
            has no such member.
    """
    import tflite

    if code not in OPTION_TABLES:
        return {}
    name, fields = OPTION_TABLES[code]
    kind = operator.BuiltinOptionsType()
    table = operator.BuiltinOptions()
    if table is None or kind == 0:
        return _defaults(fields)
    if kind != getattr(tflite.BuiltinOptions, name):
        raise KeyError(f"its options are of type {kind}, not {name}")
    options = getattr(tflite, name)()
    options.Init(table.Bytes, table.Pos)
    found: dict[str, Any] = {}
    for field in fields:
        if field in VECTORS:
            length = getattr(options, f"{field}Length")()
            found[field] = numbers(field, length, getattr(options, f"{field}AsNumpy"))
        elif field in _TEXTS:
            found[field] = text(getattr(options, field)())
        else:
            found[field] = _member(field, getattr(options, field)())
    return found


def _member(field: str, value: Any) -> Any:
    if field not in ENUMERATIONS:
        return value
    members = ENUMERATIONS[field]
    if value not in members:
        raise KeyError(f"{field} {value} is unknown")
    return members[value]


def _defaults(fields: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields:
        if field in ENUMERATIONS:
            values[field] = ENUMERATIONS[field][0]
        elif field in VECTORS:
            values[field] = ()
        elif field in _TEXTS:
            values[field] = ""
        else:
            values[field] = 1 if field in _DILATION else 0
    return values
