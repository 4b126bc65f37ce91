"""Random operators and networks of them, within what TensorFlow Lite Micro runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dory_tflite.testing.builder import TfliteBuilder

_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


@dataclass(slots=True)
class Draft:
    """A network under construction, and the generator of its random numbers."""

    builder: TfliteBuilder
    random: np.random.Generator

    def number(self, lo: int, hi: int) -> int:
        """Return an integer of lo .. hi."""
        return int(self.random.integers(lo, hi, endpoint=True))

    def flag(self) -> bool:
        """Return True or False."""
        return bool(self.random.random() < 0.5)

    def scale(self) -> float:
        """Return a scale of activations; a power of two now and then, where ties are frequent."""
        if self.number(0, 3) == 0:
            return float(2.0 ** self.number(-8, -2))
        return float(np.float32(np.exp(self.random.uniform(np.log(0.003), np.log(0.3)))))

    def zero_point(self) -> int:
        """Return a zero point; that of a ReLU often."""
        return -128 if self.number(0, 2) == 0 else self.number(-128, 127)

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.builder.tensors[tensor].shape

    def quantisation(self, tensor: int) -> tuple[float, int]:
        """Return scale and zero point of a tensor."""
        found = self.builder.tensors[tensor]
        return found.scales[0], found.zero_points[0]

    def image(self) -> int:
        """Add a network input of a random size."""
        shape = (1, self.number(1, 9), self.number(1, 9), self.number(1, 12))
        return self.builder.input(shape, self.scale(), self.zero_point())

    def output(self, shape: tuple[int, ...], spread: float) -> int:
        """Add a tensor whose scale gives values of this spread some 60 steps."""
        scale = float(np.float32(spread / 60 * np.exp(self.random.uniform(-0.7, 0.7))))
        return self.builder.tensor(shape, scale, self.zero_point())

    def like(self, tensor: int, shape: tuple[int, ...]) -> int:
        """Add a tensor with the quantisation of another one."""
        return self.builder.tensor(shape, *self.quantisation(tensor))

    def weights(self, shape: tuple[int, ...], axis: int | None) -> tuple[int, list[float]]:
        """Add random weights; axis: that of their scales, None for one scale."""
        values = self.random.integers(-127, 127, shape, endpoint=True).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        scales = [float(np.float32(s)) for s in self.random.uniform(0.001, 0.02, count)]
        if count > 2 and self.flag():
            scales[0] = 1e-6  # a channel that hardly changes
        return self.builder.constant(values, scales, axis=axis or 0), scales

    def bias(self, count: int, x: float, weights: list[float]) -> int:
        """Add a bias for an input of scale x."""
        values = self.random.integers(-3000, 3000, count).astype(np.int32)
        return self.builder.constant(values, [x * scale for scale in weights])

    def activation(self) -> str:
        """Return a fused activation."""
        return str(self.random.choice(_ACTIVATIONS))

    def window(self, tensor: int, largest: int = 5) -> tuple[int, int, dict[str, object]]:
        """Return (height, width) of a filter and options that fit a tensor."""
        _, height, width, _ = self.shape(tensor)
        kernel = self.number(1, min(largest, height)), self.number(1, min(largest, width))
        options: dict[str, object] = {
            "Padding": "SAME" if self.flag() else "VALID",
            "StrideH": self.number(1, 3),
            "StrideW": self.number(1, 3),
        }
        return *kernel, options


def _slid(size: int, kernel: int, stride: object, dilation: int, padding: object) -> int:
    assert isinstance(stride, int)
    reach = 0 if padding == "SAME" else (kernel - 1) * dilation
    return -(-(size - reach) // stride)


def _after(draft: Draft, x: int, kh: int, kw: int, options: dict[str, object]) -> tuple[int, int]:
    _, height, width, _ = draft.shape(x)
    dilations = [options.get(name, 1) for name in ("DilationHFactor", "DilationWFactor")]
    assert all(isinstance(d, int) for d in dilations)
    padding = options["Padding"]
    return (
        _slid(height, kh, options["StrideH"], int(str(dilations[0])), padding),
        _slid(width, kw, options["StrideW"], int(str(dilations[1])), padding),
    )


def _dilated(draft: Draft, x: int, kh: int, kw: int, options: dict[str, object]) -> None:
    """Add dilations where the filter still fits; TensorFlow Lite wants strides of 1 then."""
    _, height, width, _ = draft.shape(x)
    if draft.number(0, 3) or 2 * (kh - 1) + 1 > height or 2 * (kw - 1) + 1 > width:
        options |= {"DilationHFactor": 1, "DilationWFactor": 1}
        return
    options |= {"DilationHFactor": 2, "DilationWFactor": 2, "StrideH": 1, "StrideW": 1}


def _conv(draft: Draft, x: int) -> int:
    kh, kw, options = draft.window(x)
    _dilated(draft, x, kh, kw, options)
    inputs, outputs = draft.shape(x)[3], draft.number(1, 12)
    weights, scales = draft.weights((outputs, kh, kw, inputs), 0)
    scale = draft.quantisation(x)[0]
    bias = draft.bias(outputs, scale, scales)
    spread = scale * max(scales) * 5000 * (kh * kw * inputs) ** 0.5
    y = draft.output((1, *_after(draft, x, kh, kw, options), outputs), spread)
    draft.builder.operator(
        "CONV_2D", [x, weights, bias], [y], FusedActivationFunction=draft.activation(), **options
    )
    return y


def _depthwise(draft: Draft, x: int) -> int:
    kh, kw, options = draft.window(x)
    _dilated(draft, x, kh, kw, options)
    multiplier = draft.number(1, 3)
    channels = draft.shape(x)[3] * multiplier
    weights, scales = draft.weights((1, kh, kw, channels), 3)
    scale = draft.quantisation(x)[0]
    bias = draft.bias(channels, scale, scales)
    y = draft.output(
        (1, *_after(draft, x, kh, kw, options), channels),
        scale * max(scales) * 5000 * (kh * kw) ** 0.5,
    )
    draft.builder.operator(
        "DEPTHWISE_CONV_2D",
        [x, weights, bias],
        [y],
        DepthMultiplier=multiplier,
        FusedActivationFunction=draft.activation(),
        **options,
    )
    return y


def _transpose_conv(draft: Draft, x: int) -> int:
    _, height, width, inputs = draft.shape(x)
    kernel, stride, outputs = draft.number(1, 4), draft.number(1, 2), draft.number(1, 6)
    same = draft.flag()
    size = [s * stride if same else (s - 1) * stride + max(kernel, stride) for s in (height, width)]
    if not same:
        size = [(s - 1) * stride + kernel for s in (height, width)]
    weights, scales = draft.weights((outputs, kernel, kernel, inputs), 0)
    scale = draft.quantisation(x)[0]
    bias = draft.bias(outputs, scale, scales)
    y = draft.output(
        (1, *size, outputs), scale * max(scales) * 5000 * (kernel * kernel * inputs) ** 0.5
    )
    shape = draft.builder.constant(np.array((1, *size, outputs), np.int32))
    draft.builder.operator(
        "TRANSPOSE_CONV",
        [shape, weights, x, bias],
        [y],
        Padding="SAME" if same else "VALID",
        StrideH=stride,
        StrideW=stride,
    )
    return y


def _linear(draft: Draft, x: int) -> int:
    shape = draft.shape(x)
    columns, outputs = int(np.prod(shape)), draft.number(1, 20)
    flat = draft.like(x, (1, columns))
    new_shape = draft.builder.constant(np.array((1, columns), np.int32))
    draft.builder.operator("RESHAPE", [x, new_shape], [flat], NewShape=(1, columns))
    weights, scales = draft.weights((outputs, columns), 0 if draft.flag() else None)
    scale = draft.quantisation(x)[0]
    bias = draft.bias(outputs, scale, scales)
    y = draft.output((1, outputs), scale * max(scales) * 5000 * columns**0.5)
    draft.builder.operator(
        "FULLY_CONNECTED", [flat, weights, bias], [y], FusedActivationFunction=draft.activation()
    )
    image = draft.like(y, (1, 1, 1, outputs))
    new_shape = draft.builder.constant(np.array((1, 1, 1, outputs), np.int32))
    draft.builder.operator("RESHAPE", [y, new_shape], [image], NewShape=(1, 1, 1, outputs))
    return image


def _second(draft: Draft, x: int, same: bool) -> int:
    """Return another operand: an input, x itself, a constant, or one per channel."""
    shape, choice = draft.shape(x), draft.number(0, 3)
    scale, zero_point = draft.quantisation(x) if same else (draft.scale(), draft.zero_point())
    if choice == 0:
        return x
    if choice == 1:
        return draft.builder.input(shape, scale, zero_point)
    size = shape if draft.flag() else (1, 1, 1, shape[3])
    values = draft.random.integers(-128, 127, size, endpoint=True).astype(np.int8)
    if choice == 2:
        return draft.builder.constant(values, [scale], [zero_point])
    return draft.builder.input(size, scale, zero_point)


def _pair(code: str) -> Callable[[Draft, int], int]:
    def build(draft: Draft, x: int) -> int:
        same = code in ("MAXIMUM", "MINIMUM")
        other = _second(draft, x, same)
        first, second = draft.quantisation(x)[0], draft.quantisation(other)[0]
        spread = 100 * (first * second * 100 if code == "MUL" else first + second)
        shape = draft.shape(x)
        y = draft.like(x, shape) if same else draft.output(shape, spread)
        operands = [x, other] if draft.flag() else [other, x]
        fused = {} if same else {"FusedActivationFunction": draft.activation()}
        draft.builder.operator(code, operands, [y], **fused)
        return y

    return build


def _pool(code: str) -> Callable[[Draft, int], int]:
    def build(draft: Draft, x: int) -> int:
        kh, kw, options = draft.window(x)
        y = draft.like(x, (1, *_after(draft, x, kh, kw, options), draft.shape(x)[3]))
        draft.builder.operator(
            code,
            [x],
            [y],
            FilterHeight=kh,
            FilterWidth=kw,
            FusedActivationFunction=draft.activation(),
            **options,
        )
        return y

    return build


def _reduction(code: str, axes: Sequence[tuple[int, ...]]) -> Callable[[Draft, int], int]:
    def build(draft: Draft, x: int) -> int:
        chosen = axes[draft.number(0, len(axes) - 1)]
        shape = [1 if n in chosen else size for n, size in enumerate(draft.shape(x))]
        y = draft.output(shape, 60 * draft.quantisation(x)[0])
        if draft.flag() or code == "REDUCE_MAX":
            y = draft.like(x, shape)
        dimensions = draft.builder.constant(np.array(chosen, np.int32))
        draft.builder.operator(code, [x, dimensions], [y], KeepDims=True)
        return y

    return build


def _unary(code: str, fixed: tuple[float, int] | None = None) -> Callable[[Draft, int], int]:
    def build(draft: Draft, x: int) -> int:
        shape = draft.shape(x)
        y = (
            draft.output(shape, 60 * draft.quantisation(x)[0])
            if fixed is None
            else draft.builder.tensor(shape, *fixed)
        )
        options = {"Alpha": float(draft.random.uniform(0.0, 0.9))} if code == "LEAKY_RELU" else {}
        if code == "SOFTMAX":
            options = {"Beta": 1.0}
        draft.builder.operator(code, [x], [y], **options)
        return y

    return build


def _relu6(draft: Draft, x: int) -> int:
    y = draft.like(x, draft.shape(x))
    draft.builder.operator("RELU6", [x], [y])
    return y


def _prelu(draft: Draft, x: int) -> int:
    shape = draft.shape(x)
    slopes = draft.random.integers(-128, 127, (1, 1, shape[3]), endpoint=True).astype(np.int8)
    alpha = draft.builder.constant(slopes, [0.01], [draft.number(-20, 20)])
    y = draft.output(shape, 60 * draft.quantisation(x)[0])
    draft.builder.operator("PRELU", [x, alpha], [y])
    return y


def _pad(draft: Draft, x: int) -> int:
    pads = np.zeros((4, 2), np.int32)
    pads[1:3] = draft.random.integers(0, 2, (2, 2), endpoint=True)
    if draft.flag():
        pads[3] = draft.random.integers(0, 2, 2, endpoint=True)
    shape = tuple(int(s + p) for s, p in zip(draft.shape(x), pads.sum(axis=1), strict=True))
    y = draft.like(x, shape)
    inputs = [x, draft.builder.constant(pads)]
    code = "PAD"
    if draft.flag():
        value = np.array([draft.number(-128, 127)], np.int8)
        scale, zero_point = draft.quantisation(x)
        inputs.append(draft.builder.constant(value, [scale], [zero_point]))
        code = "PADV2"
    draft.builder.operator(code, inputs, [y])
    return y


def _concat(draft: Draft, x: int) -> int:
    axis = draft.number(1, 3)
    shapes = [list(draft.shape(x)) for _ in range(draft.number(1, 2))]
    for shape in shapes:
        shape[axis] = draft.number(1, 4)
    others = [draft.builder.input(shape, *draft.quantisation(x)) for shape in shapes]
    whole = list(draft.shape(x))
    whole[axis] += sum(shape[axis] for shape in shapes)
    y = draft.like(x, tuple(whole))
    draft.builder.operator("CONCATENATION", [x, *others], [y], Axis=axis - 4 * draft.flag())
    return y


def _split(draft: Draft, x: int) -> int:
    shape = draft.shape(x)
    axis = draft.number(1, 3)
    if shape[axis] < 2:
        return _strided_slice(draft, x)
    first = draft.number(1, shape[axis] - 1)
    parts = []
    for size in (first, shape[axis] - first):
        part = list(shape)
        part[axis] = size
        parts.append(draft.like(x, tuple(part)))
    sizes = draft.builder.constant(np.array([first, shape[axis] - first], np.int32))
    dimension = draft.builder.constant(np.array(axis, np.int32))
    draft.builder.operator("SPLIT_V", [x, sizes, dimension], parts, NumSplits=2)
    return parts[draft.number(0, 1)]


def _strided_slice(draft: Draft, x: int) -> int:
    shape = draft.shape(x)
    begin, end, step = [0], [1], [1]
    for size in shape[1:]:
        first = draft.number(0, size - 1)
        begin.append(first)
        end.append(draft.number(first + 1, size))
        step.append(draft.number(1, 2))
    sizes = [len(range(b, e, s)) for b, e, s in zip(begin, end, step, strict=True)]
    y = draft.like(x, tuple(sizes))
    places = [draft.builder.constant(np.array(v, np.int32)) for v in (begin, end, step)]
    draft.builder.operator("STRIDED_SLICE", [x, *places], [y])
    return y


def _slice(draft: Draft, x: int) -> int:
    shape = draft.shape(x)
    begin = [0, *(draft.number(0, size - 1) for size in shape[1:])]
    size = [1, *(draft.number(1, s - b) for s, b in zip(shape[1:], begin[1:], strict=True))]
    y = draft.like(x, tuple(size))
    places = [draft.builder.constant(np.array(v, np.int32)) for v in (begin, size)]
    draft.builder.operator("SLICE", [x, *places], [y])
    return y


def _transpose(draft: Draft, x: int) -> int:
    order = [0, *(int(p) + 1 for p in draft.random.permutation(3))]
    y = draft.like(x, tuple(draft.shape(x)[axis] for axis in order))
    perm = draft.builder.constant(np.array(order, np.int32))
    draft.builder.operator("TRANSPOSE", [x, perm], [y])
    return y


def _resize(code: str) -> Callable[[Draft, int], int]:
    def build(draft: Draft, x: int) -> int:
        size = (draft.number(1, 12), draft.number(1, 12))
        y = draft.like(x, (1, *size, draft.shape(x)[3]))
        corners, half = [(False, False), (True, False), (False, True)][draft.number(0, 2)]
        sizes = draft.builder.constant(np.array(size, np.int32))
        draft.builder.operator(code, [x, sizes], [y], AlignCorners=corners, HalfPixelCenters=half)
        return y

    return build


def _pack(draft: Draft, x: int) -> int:
    """Rows of pixels, packed and unpacked again."""
    _, height, width, channels = draft.shape(x)
    flat = draft.like(x, (height * width, channels))
    shape = draft.builder.constant(np.array((height * width, channels), np.int32))
    draft.builder.operator("RESHAPE", [x, shape], [flat], NewShape=(height * width, channels))
    axis = draft.number(0, 2)
    packed = [height * width, channels]
    packed.insert(axis, 2)
    y = draft.like(x, tuple(packed))
    draft.builder.operator("PACK", [flat, flat], [y], Axis=axis, ValuesCount=2)
    parts = [draft.like(x, (height * width, channels)) for _ in range(2)]
    draft.builder.operator("UNPACK", [y], parts, Axis=axis, Num=2)
    z = draft.like(x, (1, height, width, channels))
    shape = draft.builder.constant(np.array((1, height, width, channels), np.int32))
    draft.builder.operator("RESHAPE", [parts[1], shape], [z], NewShape=(1, height, width, channels))
    return z


_MOVERS = ("PAD", "PACK", "SLICE", "SPLIT_V", "STRIDED_SLICE", "TRANSPOSE")

#: A random operator on an image tensor, which returns its output, another image tensor.
OPERATIONS: Mapping[str, Callable[[Draft, int], int]] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transpose_conv,
    "FULLY_CONNECTED": _linear,
    "ADD": _pair("ADD"),
    "SUB": _pair("SUB"),
    "MUL": _pair("MUL"),
    "MAXIMUM": _pair("MAXIMUM"),
    "MINIMUM": _pair("MINIMUM"),
    "AVERAGE_POOL_2D": _pool("AVERAGE_POOL_2D"),
    "MAX_POOL_2D": _pool("MAX_POOL_2D"),
    "MEAN": _reduction("MEAN", ((1, 2), (1,), (2,), (2, 1))),
    "MEAN of channels": _reduction("MEAN", ((3,), (1, 3), (3, 2, 1))),
    "SUM of channels": _reduction("SUM", ((3,), (2, 3))),
    "REDUCE_MAX": _reduction("REDUCE_MAX", ((1,), (2, 1), (3,), (3, 1), (1, 2, 3))),
    "LOGISTIC": _unary("LOGISTIC", (1 / 256, -128)),
    "TANH": _unary("TANH", (1 / 128, 0)),
    "LOG_SOFTMAX": _unary("LOG_SOFTMAX", (1 / 16, 127)),
    "SOFTMAX": _unary("SOFTMAX", (1 / 256, -128)),
    "HARD_SWISH": _unary("HARD_SWISH"),
    "LEAKY_RELU": _unary("LEAKY_RELU"),
    "RELU": _unary("RELU"),
    "RELU6": _relu6,
    "PRELU": _prelu,
    "QUANTIZE": _unary("QUANTIZE"),
    "PAD": _pad,
    "CONCATENATION": _concat,
    "SPLIT_V": _split,
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "TRANSPOSE": _transpose,
    "RESIZE_NEAREST_NEIGHBOR": _resize("RESIZE_NEAREST_NEIGHBOR"),
    "RESIZE_BILINEAR": _resize("RESIZE_BILINEAR"),
    "PACK": _pack,
}


def random_network(seed: int, operations: int = 1, only: str | None = None) -> bytes:
    """Return a file with so many random operations one after another.

    only: name of the one operation that is used; others are drawn from all.
    """
    draft = Draft(TfliteBuilder(), np.random.default_rng(seed))
    x = draft.image()
    name = ""
    for _ in range(operations):
        name = only or str(draft.random.choice(list(OPERATIONS)))
        x = OPERATIONS[name](draft, x)
    if name in _MOVERS:  # one that moves nothing would leave a network without a layer
        x = _relu6(draft, x)
    return draft.builder.build([x])
