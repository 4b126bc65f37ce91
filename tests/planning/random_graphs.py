"""Seeded random networks: branches, residuals, many readers, odd sizes, one or two outputs.

Mixed ones have activations and weights of 2, 4 and 8 bits, signed or not.
"""

from __future__ import annotations

from math import prod

import numpy as np

from dory_core.ir import Graph, Window, requant
from dory_core.testing.graphs import I8, U8, GraphBuilder, Range
from dory_core.testing.precisions import TYPES
from tests.planning.networks import win

# Bounds that keep one network below about a second of simulation.
MOST_MACS = 900_000
MOST_ELEMENTS = 12_000


class _Drawer:
    def __init__(self, seed: int, mixed: bool) -> None:
        self.mixed = mixed
        self.types = np.random.default_rng(seed + 1)
        rng = self.rng = np.random.default_rng(seed)
        flat = rng.random() < 0.25
        height = 1 if flat else int(rng.integers(1, 60))
        width = int(rng.integers(40, 300)) if flat else int(rng.integers(1, 40))
        channels = int(rng.integers(1, max(2, min(40, 8000 // (height * width)))))
        values = self._type(I8 if rng.random() < 0.2 else U8)
        self.builder = GraphBuilder((channels, height, width), values, seed, f"random_{seed}")
        self.tensors = ["input"]

    def _type(self, usual: Range = U8) -> Range:
        """Return the type of an output."""
        return TYPES[int(self.types.integers(len(TYPES)))] if self.mixed else usual

    def _weights(self) -> Range:
        return self._type(I8)

    def _window(self, shape: tuple[int, int, int], largest: int, dilated: bool) -> Window:
        axes = []
        for size in shape[1:]:
            kernel = int(self.rng.integers(1, largest + 1)) if size > 1 or largest > 3 else 1
            dilation = int(self.rng.integers(1, 4)) if dilated and self.rng.random() < 0.3 else 1
            span = (kernel - 1) * dilation + 1
            before, after = (int(self.rng.integers(0, span)) for _ in range(2))
            after = max(after, span - size - before)
            stride = int(self.rng.choice([1, 1, 1, 2, 3]))
            axes.append((kernel, stride, before, after, dilation))
        (kh, sh, top, bottom, dh), (kw, sw, left, right, dw) = axes
        return win((kh, kw), (sh, sw), (top, left, bottom, right), (dh, dw))

    def _same(self) -> Window:
        kernel = int(self.rng.choice([1, 1, 3]))
        return win(kernel, 1, kernel // 2)

    def _channels(self, shape: tuple[int, int, int], window: Window) -> int:
        pixels = max(1, shape[1] * shape[2] // prod(window.strides))
        most = min(MOST_ELEMENTS // pixels, MOST_MACS // (pixels * prod(window.kernel) * shape[0]))
        return int(self.rng.integers(1, max(2, min(120, most + 1))))

    def layer(self) -> None:
        rng, b = self.rng, self.builder
        recent = self.tensors[-3:]
        source = recent[-1] if rng.random() < 0.75 else str(rng.choice(recent))
        shape = b.shape_of(source)
        kind = rng.choice(["conv", "conv", "pointwise", "depthwise", "max", "avg", "branch"])
        if kind == "branch":
            self._branch(source, shape)
            return
        if kind == "pointwise":
            window = win(1)
            made = b.conv(
                self._channels(shape, window),
                window,
                source=source,
                output=self._type(),
                weights=self._weights(),
            )
        elif kind == "conv":
            window = self._window(shape, 5, True)
            made = b.conv(
                self._channels(shape, window),
                window,
                source=source,
                bias=bool(rng.random() < 0.3),
                wide=bool(rng.random() < 0.3),
                per_channel=bool(rng.random() < 0.8),
                output=self._type(),
                weights=self._weights(),
            )
        elif kind == "depthwise":
            window = self._window(shape, 5, True)
            made = b.conv(
                shape[0],
                window,
                source=source,
                groups=shape[0],
                output=self._type(),
                weights=self._weights(),
            )
        else:
            window = self._window(shape, 3, False)
            pool = b.max_pool if kind == "max" else b.avg_pool
            made = pool(window, source=source, onto=self._type() if self.mixed else None)
        self.tensors.append(made)

    def _branch(self, source: str, shape: tuple[int, int, int]) -> None:
        """Two or three paths of the same shape, added."""
        b, rng = self.builder, self.rng
        total = source
        for _ in range(int(rng.integers(1, 3))):
            x = source
            for _ in range(int(rng.integers(1, 4))):
                window = self._same()
                channels = b.shape_of(x)[0]
                groups = channels if rng.random() < 0.3 else 1
                middle = channels if groups > 1 else self._channels(b.shape_of(x), window)
                x = b.conv(
                    middle,
                    window,
                    source=x,
                    groups=groups,
                    output=self._type(),
                    weights=self._weights(),
                )
            x = b.conv(
                shape[0], self._same(), source=x, output=self._type(), weights=self._weights()
            )
            requants = (requant(1, 0, 256), requant(9, 4, 8, *self._type()))
            total = b.add(*((x, total) if rng.random() < 0.5 else (total, x)), requants=requants)
            self.tensors.append(total)

    def graph(self) -> Graph:
        for _ in range(int(self.rng.integers(2, 6))):
            self.layer()
        outputs = [self.builder.last]
        if self.rng.random() < 0.4:
            made = self.builder.linear(
                int(self.rng.integers(1, 70)),
                source=outputs[0],
                output=self._type() if self.mixed and self.types.random() < 0.5 else None,
                weights=self._weights(),
            )
            outputs = [made]
        if self.rng.random() < 0.25 and len(self.tensors) > 2:
            outputs.append(self.tensors[1])
        unread = [
            layer.output
            for layer in self.builder._layers
            if layer.output not in outputs
            and not any(layer.output in other.inputs for other in self.builder._layers)
        ]
        return self.builder.graph(dict.fromkeys([*unread, *outputs]))


class _Filters(_Drawer):
    """Small images of many channels, whose constants are mostly filters of single channels."""

    def __init__(self, seed: int, mixed: bool) -> None:
        super().__init__(seed, mixed)
        rng = self.rng
        channels, height, width = (int(rng.integers(*ends)) for ends in ((9, 60), (1, 9), (4, 12)))
        values = self._type()
        self.builder = GraphBuilder((channels, height, width), values, seed, f"filters_{seed}")

    def layer(self) -> None:
        if self.rng.random() < 0.3:
            super().layer()
            return
        shape = self.builder.shape_of(self.tensors[-1])
        filters = int(self.rng.choice([1, 1, 2, 3])) if shape[0] < 60 else 1
        made = self.builder.conv(
            shape[0] * filters,
            self._window(shape, 7, True),
            source=self.tensors[-1],
            groups=shape[0],
            bias=bool(self.rng.random() < 0.3),
            wide=bool(self.rng.random() < 0.3),
            output=self._type(),
            weights=self._weights(),
        )
        self.tensors.append(made)


def random_graph(seed: int, mixed: bool = False) -> Graph:
    """Return the network of a seed."""
    return _Drawer(seed, mixed).graph()


def random_filters(seed: int, mixed: bool = False) -> Graph:
    """Return the network of a seed, most of whose layers keep channels apart."""
    return _Filters(seed, mixed).graph()
