"""Random convolutions, fully connected layers and pools."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dory_tflite.testing.draft import Draft


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


def conv(draft: Draft, x: int) -> int:
    """Add a convolution with a random filter."""
    kh, kw, options = draft.window(x)
    _dilated(draft, x, kh, kw, options)
    inputs, outputs = draft.shape(x)[3], draft.number(1, 12)
    weights, scales = draft.weights((outputs, kh, kw, inputs), 0)
    scale = draft.quantisation(x)[0]
    bias = draft.bias(outputs, scale, scales, always_wide=False)
    spread = scale * max(scales) * 5000 * (kh * kw * inputs) ** 0.5
    y = draft.output((1, *_after(draft, x, kh, kw, options), outputs), spread)
    draft.builder.operator(
        "CONV_2D", [x, weights, bias], [y], FusedActivationFunction=draft.activation(), **options
    )
    return y


def depthwise(draft: Draft, x: int) -> int:
    """Add a depthwise convolution."""
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


def dilated(draft: Draft, x: int) -> int:
    """Add a convolution of phases: SPACE_TO_BATCH_ND, CONV_2D or depthwise, BATCH_TO_SPACE_ND."""
    _, height, width, channels = draft.shape(x)
    block = [draft.number(1, 3) for _ in range(2)]
    kernel = [draft.number(1, 3) for _ in range(2)]
    pads, crops, sizes, results = [], [], [], []
    for size, step, taps in zip((height, width), block, kernel, strict=True):
        before = draft.number(0, (taps - 1) * step)
        whole = size + before + max((taps - 1) * step - before, 0)
        after = whole - size - before + -whole % step
        sizes.append((size + before + after) // step)
        pads.append([before, after])
        result = (sizes[-1] - taps + 1) * step
        crops.append([0, draft.number(0, min(result - 1, 1))])
        results.append(result - crops[-1][1])
    batches = block[0] * block[1]
    phases = draft.like(x, (batches, *sizes, channels))
    numbers = [draft.builder.constant(np.array(v, np.int32)) for v in (block, pads, crops)]
    draft.builder.operator("SPACE_TO_BATCH_ND", [x, *numbers[:2]], [phases])
    is_depthwise = draft.flag()
    outputs = channels if is_depthwise else draft.number(1, 8)
    shape = (1, *kernel, outputs) if is_depthwise else (outputs, *kernel, channels)
    weights, scales = draft.weights(shape, 3 if is_depthwise else 0)
    scale = draft.quantisation(x)[0]
    bias = draft.bias(outputs, scale, scales)
    inner = tuple(size - taps + 1 for size, taps in zip(sizes, kernel, strict=True))
    spread = scale * max(scales) * 5000 * float(np.prod(shape[1:])) ** 0.5
    y = draft.output((batches, *inner, outputs), spread)
    code = "DEPTHWISE_CONV_2D" if is_depthwise else "CONV_2D"
    more = {"DepthMultiplier": 1} if is_depthwise else {}
    options = {"Padding": "VALID", "StrideH": 1, "StrideW": 1, **more}
    fused = draft.activation()
    inputs = [phases, weights, bias]
    draft.builder.operator(code, inputs, [y], FusedActivationFunction=fused, **options)
    z = draft.like(y, (1, *results, outputs))
    draft.builder.operator("BATCH_TO_SPACE_ND", [y, numbers[0], numbers[2]], [z])
    return z


def transpose_conv(draft: Draft, x: int) -> int:
    """Add a transposed convolution."""
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


def linear(draft: Draft, x: int) -> int:
    """Add a fully connected layer, between reshapes."""
    shape = draft.shape(x)
    columns, outputs = int(np.prod(shape)), draft.number(1, 20)
    flat = draft.like(x, (1, columns))
    new_shape = draft.builder.constant(np.array((1, columns), np.int32))
    draft.builder.operator("RESHAPE", [x, new_shape], [flat], NewShape=(1, columns))
    weights, scales = draft.weights(
        (outputs, columns), 0 if draft.flag() and not draft.packed else None
    )
    scale = draft.quantisation(x)[0]
    bias = draft.bias(outputs, scale, scales, always_wide=False)
    y = draft.output((1, outputs), scale * max(scales) * 5000 * columns**0.5)
    draft.builder.operator(
        "FULLY_CONNECTED", [flat, weights, bias], [y], FusedActivationFunction=draft.activation()
    )
    image = draft.like(y, (1, 1, 1, outputs))
    new_shape = draft.builder.constant(np.array((1, 1, 1, outputs), np.int32))
    draft.builder.operator("RESHAPE", [y, new_shape], [image], NewShape=(1, 1, 1, outputs))
    return image


def pool(code: str) -> Callable[[Draft, int], int]:
    """Return the function that adds a pool of this kind."""

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
