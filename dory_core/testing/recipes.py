"""Layers as recipes: each property of a layer has a name and options.

Only ``accepts`` tells which layers a kernel computes. From one accepted recipe, changes of one
property at a time find other accepted layers, even when they are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np

from dory_core.errors import NotSupported
from dory_core.ir import Array, Layer, Requant, ops, requant
from dory_core.testing.kernel_cases import alone, typed

__all__ = ["LARGE", "LONG", "OPTIONS", "RECIPE_KINDS", "Recipe", "layer_of", "starts"]

Range = tuple[int, int]

U8, I8 = (0, 255), (-128, 127)
#: Kinds of layers that recipes make.
RECIPE_KINDS = ("conv", "pointwise", "depthwise", "grouped", "linear", "maxpool", "avgpool", "add")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A layer by its properties.

    Attributes:
        x, x2, y: Ranges of operands and output; y is None for accumulators.
        packed: True to store values of 2 or 4 bits packed.
        c_in, c_out: Channels, per group when there are several groups.
        rows, columns: Size of the output.
        unread: Rows and columns at the end of the input that no window reads.
        pads: Form of the padding.
        steps: Form of the requantisation.
        bits: Bits of the numerators of the requantisation.
        seed: Seed of all values.
    """

    kind: str
    x: Range = U8
    x2: Range = U8
    y: Range | None = U8
    packed: bool = False
    weight_bits: int = 8
    c_in: int = 16
    c_out: int = 16
    groups: int = 4
    rows: int = 8
    columns: int = 8
    unread: int = 0
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: str = "same"
    pad_value: str = "zero"
    steps: str = "channels"
    rounding: str = "floor"
    operands: str = "as they are"
    bits: int = 28
    bias: bool = False
    seed: int = 0


_RANGES = (U8, I8, (0, 127), (0, 15), (-8, 7), (0, 3), (-2, 1), (0, 999), (-300, 300))
_CHANNELS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 64, 80)
_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 21)
#: Options of each property.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "x": _RANGES,
    "x2": _RANGES,
    "y": (*_RANGES, (0, 200), (-20, 31), None),
    "packed": (False, True),
    "weight_bits": (8, 4, 2),
    "c_in": _CHANNELS,
    "c_out": _CHANNELS,
    "groups": (2, 3, 4, 8),
    "rows": _SIZES,
    "columns": _SIZES,
    "unread": (0, 1),
    "kernel": ((3, 3), (1, 1), (5, 5), (2, 2), (5, 2), (1, 4), (2, 1), (1, 3), (7, 7), (3, 1)),
    "strides": ((1, 1), (2, 2), (1, 2), (2, 1), (3, 3)),
    "dilations": ((1, 1), (2, 2), (1, 2), (3, 1)),
    "pads": ("none", "same", "before", "after", "top", "left", "most", "one"),
    "pad_value": ("zero", "low", "high"),
    "steps": ("channels", "scalar", "shift", "negative", "division", "two", "none"),
    "rounding": ("floor", "away", "turn"),
    "operands": ("as they are", "scaled", "clipped"),
    "bits": (18, 28, 44, 58),
    "bias": (False, True),
}
#: Tensors beyond 64 kB, whose offsets need more than 16 bits.
LARGE: dict[str, Any] = {"c_in": 32, "c_out": 32, "rows": 33, "columns": 64}
#: Layers with more columns, rows and channels than 8 bits count.
LONG: tuple[dict[str, Any], ...] = (
    {"columns": 300, "rows": 2},
    {"rows": 300, "columns": 2},
    {"c_in": 320, "rows": 2, "columns": 2},
    {"c_out": 320, "rows": 2, "columns": 2},
    LARGE,
)
# Changes that are made together to find the first layer that a kernel accepts.
_CHANGES: tuple[dict[str, Any], ...] = (
    {"x": I8, "x2": I8, "y": I8},
    {"y": I8},
    {"x": I8, "x2": I8},
    {"x": (0, 127), "x2": (0, 127), "y": (0, 127)},
    {"y": None, "steps": "none"},
    {"x": (0, 15), "x2": (0, 15), "y": (0, 15), "packed": True},
    {"x": (0, 999), "x2": (0, 999)},
    {"weight_bits": 4},
    {"weight_bits": 2},
    {"kernel": (1, 1), "pads": "none"},
    {"pads": "none"},
    {"kernel": (5, 5)},
    {"kernel": (1, 3), "rows": 1},
    {"kernel": (2, 2), "pads": "none", "strides": (2, 2)},
    {"strides": (2, 2)},
    {"rows": 1, "columns": 1},
    {"c_in": 64, "c_out": 64},
    {"c_in": 1, "c_out": 1},
    {"c_in": 3, "c_out": 8},
    {"steps": "scalar"},
    {"steps": "shift"},
    {"steps": "two"},
    {"steps": "division"},
    {"bits": 18},
    {"bias": True},
    {"operands": "scaled"},
    {"rounding": "away"},
)


def starts(kind: str, changes: int) -> Iterator[Recipe]:
    """Yield recipes of a kind with at most ``changes`` unusual properties."""
    for count in range(changes + 1):
        for chosen in combinations(_CHANGES, count):
            fields: dict[str, Any] = {}
            for change in chosen:
                fields |= change
            yield replace(Recipe(kind), **fields)


def layer_of(recipe: Recipe) -> Layer | None:
    """Return the layer of a recipe; None for an impossible one."""
    try:
        return _layer(recipe, np.random.default_rng(recipe.seed))
    except NotSupported:
        return None


def _layer(recipe: Recipe, random: np.random.Generator) -> Layer | None:
    if recipe.kind == "add":
        return _sum(recipe, random)
    if recipe.kind == "linear":
        source = (recipe.c_in, min(recipe.rows, 4), min(recipe.columns, 4), *recipe.x)
        return _weighted(recipe, random, source, None, 1, recipe.c_out)
    kernel = (1, 1) if recipe.kind == "pointwise" else recipe.kernel
    pads = _pads(recipe, kernel)
    sizes = []
    for axis, outputs in enumerate((recipe.rows, recipe.columns)):
        reach = (kernel[axis] - 1) * recipe.dilations[axis] + 1
        used = (outputs - 1) * recipe.strides[axis] + reach - pads[axis] - pads[axis + 2]
        sizes.append(used + min(recipe.unread, recipe.strides[axis] - 1))
    height, width = sizes
    if min(height, width) < 1:
        return None
    lo, hi = recipe.x
    value = {"zero": 0, "low": lo, "high": hi}[recipe.pad_value]
    window = ops.Window(
        kernel=kernel,
        strides=recipe.strides,
        dilations=recipe.dilations if kernel != (1, 1) else (1, 1),
        pads=pads,
        pad_value=value if any(pads) else 0,
    )
    if recipe.kind.endswith("pool"):
        return _pool(recipe, random, (recipe.c_in, height, width, lo, hi), window)
    groups, c_in, c_out = 1, recipe.c_in, recipe.c_out
    if recipe.kind == "depthwise":
        groups, c_out = c_in, c_in * (1 + (recipe.groups == 2))
    elif recipe.kind == "grouped":
        groups, c_in, c_out = recipe.groups, recipe.groups * c_in, recipe.groups * c_out
    return _weighted(recipe, random, (c_in, height, width, lo, hi), window, groups, c_out)


def _pads(recipe: Recipe, kernel: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right): less than the reach of the window, or one of each."""
    vertical, horizontal = ((k - 1) * d for k, d in zip(kernel, recipe.dilations, strict=True))
    top, left = (vertical + 1) // 2, (horizontal + 1) // 2
    bottom, right = vertical // 2, horizontal // 2
    return {
        "none": (0, 0, 0, 0),
        "same": (top, left, bottom, right),
        "before": (top, left, 0, 0),
        "after": (0, 0, bottom, right),
        "top": (top, 0, 0, 0),
        "left": (0, left, 0, 0),
        "most": (vertical, horizontal, vertical, horizontal),
        "one": (1, 1, 1, 1),
    }[recipe.pads]


def _weighted(
    recipe: Recipe,
    random: np.random.Generator,
    source: tuple[int, int, int, int, int],
    window: ops.Window | None,
    groups: int,
    c_out: int,
) -> Layer:
    """Return a convolution, or a fully connected layer without a window."""
    bits = recipe.weight_bits
    shape: tuple[int, ...] = (c_out, source[0] * source[1] * source[2])
    if window is not None:
        shape = (c_out, source[0] // groups, *window.kernel)
    values = random.integers(-(1 << bits - 1), 1 << bits - 1, shape)
    values.reshape(-1)[:1] = -(1 << bits - 1)
    fan_in = values.size // c_out
    spread = _spread(source[3:]) * sqrt(fan_in) * (1 << bits - 1) / 2 + 1
    bias = Array(random.integers(-int(spread), int(spread) + 1, c_out)) if recipe.bias else None
    stored = bits if bits <= 8 else 16
    fields: dict[str, Any] = {"weights": Array(values), "weight_bits": stored, "bias": bias}
    fields["requants"] = _steps(recipe, random, c_out, spread)
    if window is None:
        return typed(alone(ops.Linear, **fields), source, packed=recipe.packed)
    layer = alone(ops.Conv, window=window, groups=groups, **fields)
    return typed(layer, source, packed=recipe.packed)


def _pool(
    recipe: Recipe,
    random: np.random.Generator,
    source: tuple[int, int, int, int, int],
    window: ops.Window,
) -> Layer:
    if recipe.kind == "maxpool":
        return typed(alone(ops.MaxPool, window=window), source, packed=recipe.packed)
    spread = _spread(source[3:]) * window.taps
    form = recipe.steps if recipe.steps in ("none", "shift", "two") else "scalar"
    steps = _steps(replace(recipe, steps=form), random, 1, spread)
    return typed(alone(ops.AvgPool, window=window, requants=steps), source, packed=recipe.packed)


def _sum(recipe: Recipe, random: np.random.Generator) -> Layer:
    shape = (recipe.c_in, recipe.rows, recipe.columns)
    operands: list[Requant | None] = [None, None]
    if recipe.operands != "as they are":
        clip = (-128, 127) if recipe.operands == "clipped" else (None, None)
        operands = [requant(int(m), int(a), 64, *clip) for m, a in random.integers(40, 90, (2, 2))]
    spread = _spread(recipe.x) + _spread(recipe.x2)
    form = "scalar" if recipe.steps in ("channels", "negative") else recipe.steps
    steps = _steps(replace(recipe, steps=form), random, 1, spread)
    layer = alone(ops.Add, operand_requants=(operands[0], operands[1]), requants=steps)
    return typed(layer, (*shape, *recipe.x), (*shape, *recipe.x2), packed=recipe.packed)


def _spread(values: tuple[int, ...]) -> float:
    """Return the approximate distance of a range's values from zero."""
    return max(abs(values[0]), abs(values[1])) / 1.5


def _steps(
    recipe: Recipe, random: np.random.Generator, channels: int, spread: float
) -> tuple[Requant, ...]:
    """Return the requantisations of sums of this spread, whose outputs use their whole range."""
    if recipe.steps == "none":
        return ()
    lo, hi = recipe.y or (None, None)
    target = 200 if recipe.y is None else max(recipe.y[1] - recipe.y[0], 1)
    if recipe.steps == "shift":
        return (requant(1, 0, 1 << max(int(2 * spread / target), 1).bit_length(), lo, hi),)
    shift = min(max(recipe.bits - target.bit_length() - 1, 1), 62)
    div = (1 << shift) - (recipe.steps == "division")
    scale = max(1, int(target * div / (2 * spread)))
    count = 1 if recipe.steps in ("scalar", "division") else channels
    mul = random.integers(max(scale // 2, 1), scale + 1, count).tolist()
    if recipe.steps == "negative":
        mul = [m * s for m, s in zip(mul, random.choice([1, 1, -1], count).tolist(), strict=True)]
    middle = 0 if recipe.y is None else (recipe.y[0] + recipe.y[1]) * div // 2
    add = (middle + random.integers(-target * div // 8, target * div // 8 + 1, count)).tolist()
    first: tuple[Requant, ...]
    if recipe.rounding == "floor":
        first = (requant(mul, add, div, lo, hi),)
    else:
        less = random.integers(1, max(div, 2), count).tolist()
        negative = [a - d for a, d in zip(add, less, strict=True)]
        turn = int(spread / 3) if recipe.rounding == "turn" else 0
        first = (requant(mul, add, div, lo, hi, negative, turn),)
    if recipe.steps != "two":
        return first
    return (*first, requant(7, 5, 8, lo, hi))
