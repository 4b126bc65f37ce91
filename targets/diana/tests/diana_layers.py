"""Random layers within the contract, run tile by tile on the functional model.

Run as a program, it computes a sample of every kind; the tests do so under the sanitizers.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from functools import partial

import diana_bytes as layout
import numpy as np
from diana_machine import Machine, library

from dory_core.api import Layer, ops
from dory_core.importing import Array, requant
from dory_core.testing import Op, reference
from dory_core.testing.kernels import SANITIZE, alone, typed

SCALE = 7
WEIGHT_MEMORY = 65536
RELU, SIGNED = 1, 0
Values = np.ndarray


@dataclass(frozen=True)
class Case:
    """A layer with its values and what a call says beside the geometry.

    inputs: (C, H, W) each. weights, bias: of the layer. mul, add: per channel, of analog layers.
    """

    layer: Layer
    inputs: tuple[Values, ...]
    shift: int
    activation: int
    mul: Values | None = None
    add: Values | None = None

    @property
    def expected(self) -> Values:
        """What the reference computes."""
        return reference.run_layer(self.layer, self.inputs)


def _clip(activation: int, low: int = -128) -> tuple[int, int]:
    return (0, 127) if activation == RELU else (low, 127 if low == -128 else 63)


def _values(random: np.random.Generator, lo: int, hi: int, shape: tuple[int, ...]) -> Values:
    values = random.integers(lo, hi + 1, shape)
    edge = random.random(shape)
    values[edge < 0.05] = lo
    values[edge > 0.95] = hi
    return values.astype(np.int64)


def _window(random: np.random.Generator, h: int, w: int, *, most: int, same: bool) -> ops.Window:
    """Return a window that the padding fields can say; same: the right border is like the left."""
    while True:
        fy, fx = (int(random.choice([1, 1, 3, 3, 5, 7])) for _ in range(2))
        stride = int(random.integers(1, 3))
        top, bottom = (int(random.integers(0, min(fy - 1, most) + 1)) for _ in range(2))
        left, right = (int(random.integers(0, min(fx - 1, most) + 1)) for _ in range(2))
        window = ops.Window(
            kernel=(fy, fx), strides=(stride, stride), pads=(top, left, bottom, right)
        )
        oh, ow = window.output_size(h, w)
        if oh < 1 or ow < 1:
            continue
        reach = (ow - 1) * stride + fx - left
        if same and reach > layout.up(w, 16) + left:
            continue
        return window


def conv_case(random: np.random.Generator, *, depthwise: bool = False) -> Case:
    """Return a random digital convolution."""
    h, w = (int(random.integers(1, 24)) for _ in range(2))
    window = _window(random, h, w, most=15, same=True)
    c = int(random.integers(1, 40))
    while not depthwise and layout.up(c, 16) * window.taps * 16 > 65000:
        c -= 1  # sixteen outputs fit the weight memory
    k = c if depthwise else int(random.integers(1, 50))
    weights = _values(random, -128, 127, (k, 1 if depthwise else c, *window.kernel))
    bias = random.integers(-(2**31) + 2**26, 2**31 - 2**26, k)
    if random.random() < 0.8:
        bias = random.integers(-20000, 20000, k)
    shift = int(random.choice([0, 5, 9, 12, 31], p=[0.1, 0.2, 0.4, 0.2, 0.1]))
    activation = int(random.integers(0, 2))
    layer = alone(
        ops.Conv,
        requants=(requant(1, 0, 1 << shift, *_clip(activation)),),
        weights=Array(weights),
        window=window,
        bias=Array(bias),
        groups=c if depthwise else 1,
    )
    x = _values(random, -128, 127, (c, h, w))
    return Case(typed(layer, (c, h, w, -128, 127)), (x,), shift, activation)


def linear_case(random: np.random.Generator) -> Case:
    """Return a random digital fully connected layer."""
    c = int(random.integers(1, 60))
    h, w = (1, 1) if random.random() < 0.5 else (int(random.integers(1, 5)) for _ in range(2))
    k = int(random.integers(1, 40))
    shift, activation = int(random.integers(0, 14)), int(random.integers(0, 2))
    layer = alone(
        ops.Linear,
        requants=(requant(1, 0, 1 << shift, *_clip(activation)),),
        weights=Array(_values(random, -128, 127, (k, c * h * w))),
        bias=Array(random.integers(-50000, 50000, k)),
    )
    x = _values(random, -128, 127, (c, h, w))
    return Case(typed(layer, (c, h, w, -128, 127)), (x,), shift, activation)


def sum_case(random: np.random.Generator) -> Case:
    """Return a random sum."""
    shape = tuple(int(n) for n in random.integers(1, 30, 3))
    shift, activation = int(random.integers(0, 3)), int(random.integers(0, 2))
    layer = alone(
        ops.Add,
        requants=(requant(1, 0, 1 << shift, *_clip(activation)),),
    )
    source = (*shape, -128, 127)
    inputs = tuple(_values(random, -128, 127, shape) for _ in range(2))
    return Case(typed(layer, source, source), inputs, shift, activation)


def analog_case(random: np.random.Generator, *, linear: bool = False) -> Case:
    """Return a random layer with ternary weights."""
    while True:
        h, w = (1, 1) if linear else (int(random.integers(1, 14)) for _ in range(2))
        window = ops.Window(kernel=(1, 1)) if linear else _window(random, h, w, most=3, same=False)
        fy, fx = window.kernel
        c = int(random.integers(1, 1100 if linear else 80))
        if layout.up(c, 16) * fy * fx <= 1152:
            break
    k = int(random.integers(1, 140))
    weights = random.integers(-1, 2, (k, c, fy, fx))
    lo, hi = (0, 127) if random.random() < 0.5 else (-64, 63)
    shift, activation = int(random.integers(0, 12)), int(random.integers(0, 2))
    mul = random.integers(-3000, 3000, k)
    add = random.integers(-60000, 60000, k)
    low, high = _clip(activation, -64)
    steps = (
        requant(1, 0, SCALE, -32, 31),
        requant(mul.tolist(), add.tolist(), 1 << shift, low, high),
    )
    layer: Op
    if linear:
        layer = alone(ops.Linear, weights=Array(weights.reshape(k, c)), requants=steps)
    else:
        layer = alone(ops.Conv, weights=Array(weights), window=window, requants=steps)
    inputs = (_values(random, lo, hi, (c, h, w)),)
    return Case(typed(layer, (c, h, w, lo, hi)), inputs, shift, activation, mul, add)


# --- runs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Output rows of a tile and the input rows that they need."""

    first: int
    count: int
    x_first: int
    x_count: int
    top: int
    bottom: int


def row_tiles(window: ops.Window, height: int, out: int, size: int) -> list[Rows]:
    """Cut ``out`` output rows into tiles of at most ``size``."""
    tiles = []
    for first in range(0, out, size):
        count = min(size, out - first)
        low = first * window.strides[0] - window.pads[0]
        high = low + (count - 1) * window.strides[0] + window.kernel[0]
        x_first, x_end = max(low, 0), min(high, height)
        tiles.append(
            Rows(first, count, x_first, x_end - x_first, max(-low, 0), max(high - height, 0))
        )
    return tiles


def run_conv(
    case: Case, machine: Machine, random: np.random.Generator, *, depthwise: bool = False
) -> Values:
    """Return the output of a digital convolution, in tiles of rows and, if dense, of channels."""
    conv = case.layer.op
    assert isinstance(conv, ops.Conv) and conv.bias is not None
    x, out = case.inputs[0], case.layer.output
    pack = layout.depthwise_weights if depthwise else layout.conv_weights
    data = pack(conv.weights.values.astype(np.int64), conv.bias.values.astype(np.int64))
    w, left = machine.l2(data), conv.window.pads[1]
    channels, ox = layout.up(out.channels, 16), layout.up(out.width, 16)
    per_16 = len(data) * 16 // channels  # bytes of the weights of 16 channels
    l1_w = 16 * int(random.integers(0, 4))
    k = channels
    if not depthwise:
        k = 16 * int(random.integers(1, min(channels // 16, (WEIGHT_MEMORY - l1_w) // per_16) + 1))
    result = np.zeros(out.shape, np.int64)
    for first, rows in itertools.product(
        range(0, channels, k),
        row_tiles(conv.window, x.shape[1], out.height, int(random.integers(1, out.height + 1))),
    ):
        tile = layout.digital_bytes(x[:, rows.x_first : rows.x_first + rows.x_count], random)
        machine.put(0, tile)
        y, count = layout.up(len(tile), 16), min(k, channels - first)
        machine.run(
            "digital_depthwise_conv_2d" if depthwise else "digital_conv_2d",
            *(0, 0, w + first // 16 * per_16, l1_w, y),
            padding=left + (rows.top << 8) + (rows.bottom << 12),
            c=layout.up(x.shape[0], 16),
            k=count,
            cx=layout.up(x.shape[2], 16),
            cy=rows.x_count,
            fx=conv.window.kernel[1],
            fy=conv.window.kernel[0],
            ox=ox,
            oy=rows.count,
            activation_function=case.activation,
            output_shift=case.shift,
            dilation=1,
            stride=conv.window.strides[0] - 1,
        )
        real = min(count, out.channels - first)
        computed = machine.get(y, count * rows.count * ox)
        result[first : first + real, rows.first : rows.first + rows.count] = layout.read(
            computed, layout.digital_offsets(real, rows.count, out.width)
        )
    return result


def run_linear(case: Case, machine: Machine, random: np.random.Generator) -> Values:
    """Return the output of a digital fully connected layer, in tiles of 16 outputs."""
    linear = case.layer.op
    assert isinstance(linear, ops.Linear) and linear.bias is not None
    c, h, w = case.inputs[0].shape
    outputs = case.layer.output.channels
    c16 = layout.up(c, 16)
    weights = np.zeros((outputs, h * w, c16), np.int64)
    weights[:, :, :c] = linear.weights.values.reshape(outputs, h * w, c)
    weights = weights.reshape(outputs, h * w * c16)
    machine.put(0, layout.vector_bytes(case.inputs[0], random))
    y = h * w * c16
    result = []
    for first in range(0, outputs, 16):
        bias = linear.bias.values[first : first + 16].astype(np.int64)
        block = machine.l2(layout.linear_weights(weights[first : first + 16], bias))
        machine.run(
            "digital_fully_connected",
            *(0, 0, block, 0, y),
            **dict.fromkeys(("cx", "cy", "fx", "fy", "ox", "oy", "dilation"), 1),
            c=y,
            k=16,
            activation_function=case.activation,
            output_shift=case.shift,
        )
        data = machine.get(y, 16)
        result.append(layout.read(data, layout.vector_offsets(len(bias), 1, 1)))
    return np.concatenate(result)


def run_sum(case: Case, machine: Machine, random: np.random.Generator) -> Values:
    """Return the output of a sum."""
    c, h, w = case.inputs[0].shape
    size = layout.up(c, 16) * h * layout.up(w, 16)
    for number, values in enumerate(case.inputs):
        machine.put(number * size, layout.digital_bytes(values, random))
    machine.run(
        "element_wise_sum",
        *(0, 0, 0, size, 2 * size),
        c=layout.up(c, 16),
        k=layout.up(c, 16),
        cx=layout.up(w, 16),
        cy=h,
        fx=1,
        fy=1,
        ox=layout.up(w, 16),
        oy=h,
        activation_function=case.activation,
        output_shift=case.shift,
        dilation=1,
    )
    return layout.read(machine.get(2 * size, size), layout.digital_offsets(c, h, w))


def unrolling(c: int, k: int, fx: int, fy: int, width: int) -> int:
    """Return the largest unrolling that the contract allows."""
    u = 1
    while u < 4 and 2 * u * k <= 512 and c * fy * (fx + 2 * u - 1) <= 1152 and width % (2 * u) == 0:
        u *= 2
    return u


def run_analog(case: Case, machine: Machine, random: np.random.Generator) -> Values:
    """Return the output of an analog layer, in tiles of rows."""
    layer = case.layer.op
    out, x = case.layer.output, case.inputs[0]
    linear = isinstance(layer, ops.Linear)
    window = ops.Window(kernel=(1, 1)) if linear else layer.window
    weights = layer.weights.values.astype(np.int64).reshape(
        out.channels, x.shape[0], *window.kernel
    )
    assert case.mul is not None and case.add is not None
    w = machine.l2(layout.analog_weights(weights))
    bn = machine.l2(layout.analog_requant(case.mul, case.add))
    _, left, _, right = window.pads
    c = layout.up(x.shape[0], 16)
    u = 1 if linear else unrolling(c, out.channels, window.kernel[1], window.kernel[0], out.width)
    result = np.zeros(out.shape, np.int64)
    for rows in row_tiles(window, x.shape[1], out.height, int(random.integers(1, out.height + 1))):
        tile = layout.analog_bytes(x[:, rows.x_first : rows.x_first + rows.x_count], random)
        machine.put(0, tile)
        y = len(tile)
        machine.run(
            "analog_fully_connected" if linear else "analog_conv_2d",
            *(0, 0, w, bn, 0, y),
            padding=rows.bottom + (rows.top << 2) + (right << 4) + (left << 6),
            c=c,
            k=out.channels,
            cx=x.shape[2],
            cy=rows.x_count,
            fx=window.kernel[1],
            fy=window.kernel[0],
            ox=out.width // u,
            oy=rows.count,
            ox_unroll=u,
            activation_function=case.activation,
            output_shift=case.shift,
            dilation=1,
            stride=window.strides[0],
        )
        data = machine.get(y, rows.count * out.width * layout.up(out.channels, 64))
        offsets = layout.analog_offsets(out.channels, rows.count, out.width)
        result[:, rows.first : rows.first + rows.count] = layout.read(data, offsets)
    return result


KINDS = {
    "conv": (conv_case, run_conv),
    "depthwise": (partial(conv_case, depthwise=True), partial(run_conv, depthwise=True)),
    "linear": (linear_case, run_linear),
    "sum": (sum_case, run_sum),
    "analog_conv": (analog_case, run_analog),
    "analog_linear": (partial(analog_case, linear=True), run_analog),
}


def check(kind: str, seed: int, count: int, **machine: object) -> None:
    """Compare ``count`` random layers of a kind with the reference, element by element."""
    make, run = KINDS[kind]
    random = np.random.default_rng(seed)
    for number in range(count):
        case = make(random)
        got = run(case, Machine(adc_scale=SCALE, **machine), random)
        expected = case.expected
        different = np.argwhere(got != expected)
        assert different.size == 0, (
            f"{kind} {number} of seed {seed}: {case.layer.op}: {len(different)} differ, first "
            f"{different[0]}: {got[tuple(different[0])]}, not {expected[tuple(different[0])]}"
        )


if __name__ == "__main__":
    for name in KINDS:
        check(name, seed=int(sys.argv[1]), count=int(sys.argv[2]), loaded=library(SANITIZE))
    print("computed")
