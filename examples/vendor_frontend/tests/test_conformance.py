"""The conformance kit on Slate, with a reference that knows nothing of dory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.testing import FrontendConformance, NetworkFile

Values = npt.NDArray[np.int64]
_RANDOM = np.random.default_rng(3)


def weights(*shape: int) -> list[Any]:
    return _RANDOM.integers(-90, 90, shape).tolist()


def step(multiply: list[int], shift: int, least: int = 0, greatest: int = 255) -> dict[str, Any]:
    return {"multiply": multiply, "add": [37], "shift": [shift], "range": [least, greatest]}


def layer(operator: str, name: str, *reads: str, **fields: Any) -> dict[str, Any]:
    return {"operator": operator, "name": name, "reads": reads, **fields}


PADS = [0, 1, 2, 1]
NETWORK = {
    "slate": 1,
    "input": {"shape": [3, 8, 6], "range": [0, 255]},
    "layers": [
        layer("conv", "first", "input", weights=weights(4, 3, 3, 3), pads=PADS, **step([5], 9)),
        layer("conv", "second", "first", weights=weights(4, 4, 1, 1), **step([3, 1, 4, 2], 7)),
        layer("sum", "both", "first", "second", **step([3], 2, -128, 127)),
        layer("maximum", "top", "both", kernel=[2, 3], strides=[2, 1]),
        layer("dense", "last", "top", weights=weights(5, 64), **step([7], 9, -128, 127)),
    ],
}


def content() -> bytes:
    return json.dumps(NETWORK).encode()


def windows(x: Values, layer: Mapping[str, Any], rows: int, columns: int, outside: int) -> Values:
    """Return (C, H, W, rows, columns): what each output reads."""
    top, left, bottom, right = layer.get("pads", [0, 0, 0, 0])
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right)), constant_values=outside)
    down, across = layer.get("strides", [1, 1])
    found = np.lib.stride_tricks.sliding_window_view(padded, (rows, columns), (1, 2))
    return found[:, ::down, ::across]


def requantised(sums: Values, layer: Mapping[str, Any]) -> Values:
    multiply = np.reshape(layer["multiply"], (-1, 1, 1))
    return np.clip((multiply * sums + layer["add"][0]) >> layer["shift"][0], *layer["range"])


def computed(layer: Mapping[str, Any], operands: list[Values]) -> Values:
    x = operands[0]
    if layer["operator"] == "sum":
        return requantised(x + operands[1], layer)
    if layer["operator"] == "maximum":
        return windows(x, layer, *layer["kernel"], outside=-(1 << 40)).max((3, 4))
    kernel = np.array(layer["weights"])
    if layer["operator"] == "dense":
        return requantised((kernel @ x.reshape(-1)).reshape(-1, 1, 1), layer)
    seen = windows(x, layer, *kernel.shape[2:], outside=0)
    return requantised(np.einsum("chwij,ocij->ohw", seen, kernel), layer)


def reference(inputs: Mapping[str, Values]) -> dict[str, Values]:
    """Return what each record computes, by its name."""
    values = dict(inputs)
    for layer in NETWORK["layers"]:
        values[layer["name"]] = computed(layer, [values[name] for name in layer["reads"]])
    return values


class TestSlate(FrontendConformance):
    """A network of every operator."""

    frontend = "slate"
    networks = (
        NetworkFile("all", "net.slate", content, reference, ("conv", "dense", "maximum", "sum")),
    )
