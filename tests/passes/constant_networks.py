"""Random networks of all kinds of layers, many of whose channels cannot change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dory_core.errors import NotSupported
from dory_core.ir import (
    Add,
    Array,
    AvgPool,
    Concat,
    Conv,
    ConvTranspose,
    Graph,
    Linear,
    Lut,
    Maximum,
    MaxPool,
    Minimum,
    Mul,
    Op,
    Pad,
    Requant,
    Reshape,
    Resize,
    Slice,
    Softmax,
    Tensor,
    Transpose,
    Window,
    requant,
)
from dory_core.ir.ranges import infer_layer, infer_types

BYTE = (-128, 127)


@dataclass
class ConstantNetwork:
    """Adds random layers to a network. seed: of all choices."""

    seed: int
    ops: list[Op] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = np.random.default_rng(self.seed)
        shape = self.integer(1, 12), self.integer(1, 7), self.integer(1, 7)
        self.source = Tensor("input", *shape, *BYTE, 8, True)
        self.tensors["input"] = self.source

    def integer(self, lo: int, hi: int) -> int:
        return int(self.numbers.integers(lo, hi, endpoint=True))

    def pick(self, *choices: Any) -> Any:
        return choices[self.integer(0, len(choices) - 1)]

    def graph(self, layers: int) -> Graph:
        """Return a network of so many layers, and one behind each result that nothing else reads.

        Without these, network outputs would keep many channels.
        """
        makers: tuple[Callable[[Tensor], Op], ...] = (
            *[self.conv] * 5,
            *[self.depthwise] * 3,
            *[self.pair] * 2,
            *(self.grouped, self.pool, self.lut, self.concat, self.slice, self.pad, self.resize),
            *(self.transpose, self.reshape, self.linear, self.transposed_conv, self.softmax),
        )
        while len(self.ops) < layers:
            recent = list(self.tensors.values())[-3:]
            source = recent[-1] if self.integer(0, 2) else self.pick(*recent)
            try:
                op = self.pick(*makers)(source)
                tensor, _ = infer_layer(op, self.tensors)
            except NotSupported:
                continue  # a window that does not fit, or the like
            if tensor.elements <= 4000 and tensor.bits == 8:
                self.ops.append(op)
                self.tensors[op.output] = tensor
        read = {name for op in self.ops for name in op.inputs}
        for name in [op.output for op in self.ops if op.output not in read]:
            self.ops.append(self.linear(self.tensors[name]))
        outputs = tuple(op.output for op in self.ops[layers:])
        return infer_types("constants", (self.source,), tuple(self.ops), outputs)

    def head(self, *sources: Tensor) -> dict[str, Any]:
        index = len(self.ops)
        names = tuple(source.name for source in sources)
        return {
            "index": index,
            "name": f"n{index}",
            "inputs": names,
            "output": f"layer_{index:02d}",
        }

    def step(self, channels: int, reach: int) -> Requant:
        """Return a step to bytes, with one or two addends; it falls in some channels."""
        lo = self.pick(-128, -128, -20, 0)
        mul = self.numbers.integers(1, 4, channels) * self.pick(1, 1, 1, -1)
        div = max(reach * 2 // 127, 1)
        add = self.numbers.integers(-20, 20, channels) * div
        negative = add + self.pick(-1, 1, div) if self.integer(0, 1) else None
        return requant(mul, add, div, lo, 127, negative, self.pick(0, 0, -5))

    def bias(self, channels: int, reach: int) -> Array | None:
        """Return a bias that keeps many channels at an end of their range."""
        dead = self.numbers.random(channels) < self.pick(0.0, 0.5, 0.8, 1.0)
        if not dead.any():
            return None
        return Array(np.where(dead, reach * self.pick(-20, -20, 20), 3))

    def weights(self, *shape: int) -> Array:
        values = self.numbers.integers(-7, 8, shape)
        values[self.numbers.random(shape[0]) < 0.1] = 0
        return Array(values)

    def window(self, source: Tensor) -> Window:
        return Window(
            kernel=(self.integer(1, 3), self.integer(1, 3)),
            strides=(self.integer(1, 2), self.integer(1, 2)),
            dilations=self.pick((1, 1), (1, 2)),
            pads=(self.integer(0, 1), self.integer(0, 2), self.integer(0, 1), self.integer(0, 1)),
            pad_value=self.pick(0, source.lo, -128),
        )

    def sums(self, source: Tensor, channels: int, terms: int) -> dict[str, Any]:
        reach = terms * 7 * 128
        return {"bias": self.bias(channels, reach), "requants": (self.step(channels, reach),)}

    def conv(self, source: Tensor) -> Op:
        window, channels = self.window(source), self.integer(1, 20)
        return Conv(
            **self.head(source),
            weights=self.weights(channels, source.channels, *window.kernel),
            window=window,
            **self.sums(source, channels, source.channels * window.taps),
        )

    def depthwise(self, source: Tensor) -> Op:
        return self.grouped(source, source.channels)

    def grouped(self, source: Tensor, groups: int = 2) -> Op:
        if source.channels % groups:
            raise NotSupported("the groups are not equal")
        window, channels = self.window(source), groups * self.integer(1, 2)
        weights = self.weights(channels, source.channels // groups, *window.kernel)
        sums = self.sums(source, channels, source.channels // groups * window.taps)
        return Conv(**self.head(source), weights=weights, window=window, groups=groups, **sums)

    def linear(self, source: Tensor) -> Op:
        channels = self.integer(1, 20)
        return Linear(
            **self.head(source),
            weights=self.weights(channels, source.elements),
            **self.sums(source, channels, source.elements),
        )

    def transposed_conv(self, source: Tensor) -> Op:
        window, channels = self.window(source), self.integer(1, 9)
        return ConvTranspose(
            **self.head(source),
            weights=self.weights(channels, source.channels, *window.kernel),
            window=window,
            zero_point=self.pick(0, source.lo),
            **self.sums(source, channels, source.channels * window.taps),
        )

    def pool(self, source: Tensor) -> Op:
        kind = self.pick(MaxPool, AvgPool, AvgPool)
        fields: dict[str, Any] = {"requants": self.pick((), (self.step(source.channels, 128),))}
        window = self.window(source)
        if kind is AvgPool:
            fields["requants"] = (self.step(source.channels, 128 * window.taps),)
            if self.integer(0, 1):
                fields |= {"counts_padding": False, "origin": self.pick(0, source.lo)}
        return kind(**self.head(source), window=window, **fields)

    def pair(self, source: Tensor) -> Op:
        kind = self.pick(Add, Add, Mul, Maximum, Minimum)
        reach = 128 * 128 * 9 if kind is Mul else 600
        steps = [self.pick(None, requant(3, 5, 2), self.step(source.channels, 128)) for _ in "ab"]
        fields: dict[str, Any] = {"operand_requants": tuple(steps)}
        fields["requants"] = (self.step(source.channels, reach),)
        shapes = (source.shape, (source.channels, 1, 1), (1, 1, 1), (1, *source.shape[1:]))
        others = [tensor for tensor in self.tensors.values() if tensor.shape in shapes]
        if self.integer(0, 3) and len(others) > 1:
            return kind(**self.head(source, self.pick(*others)), **fields)
        constant = self.numbers.integers(-128, 128, self.pick(*shapes))
        return kind(**self.head(source), constant=Array(constant), **fields)

    def lut(self, source: Tensor) -> Op:
        rows = self.pick((), (source.channels,))
        table = self.numbers.integers(-128, 128, (*rows, 256))
        if rows:
            table[self.numbers.random(rows[0]) < 0.3] = 7
        return Lut(**self.head(source), table=Array(table))

    def concat(self, source: Tensor) -> Op:
        axis = self.integer(0, 2)
        others = [
            tensor
            for tensor in self.tensors.values()
            if all(tensor.shape[n] == source.shape[n] for n in range(3) if n != axis)
        ]
        chosen = [self.pick(*others) for _ in range(self.integer(1, 2))]
        return Concat(**self.head(source, *chosen), axis=axis)

    def slice(self, source: Tensor) -> Op:
        steps, begins, sizes = [], [], []
        for extent in source.shape:
            first, last = sorted(self.integer(0, extent - 1) for _ in "ab")
            step = self.pick(1, 1, 1, -1, 2)
            steps.append(step)
            begins.append(first if step > 0 else last)
            sizes.append((last - first) // abs(step) + 1)
        fields = {"begin": tuple(begins), "size": tuple(sizes), "step": tuple(steps)}
        return Slice(**self.head(source), **fields)

    def pad(self, source: Tensor) -> Op:
        around = [tuple(self.integer(0, 2) for _ in range(3)) for _ in "ab"]
        value = self.pick(0, source.lo)
        return Pad(**self.head(source), before=around[0], after=around[1], value=value)

    def resize(self, source: Tensor) -> Op:
        taps = []
        for extent in source.shape[1:]:
            size = self.integer(1, 5)
            first = self.numbers.integers(0, extent, size)
            share = self.numbers.integers(0, 9, size)
            taps.append(np.stack([first, np.minimum(first + 1, extent - 1), 8 - share, share], 1))
        step = requant(1, 32, 64, add_negative=31)
        fields = {"rows": Array(taps[0]), "columns": Array(taps[1]), "requants": (step,)}
        return Resize(**self.head(source), **fields)

    def transpose(self, source: Tensor) -> Op:
        perm = self.pick((0, 2, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0))
        return Transpose(**self.head(source), perm=perm)

    def reshape(self, source: Tensor) -> Op:
        c, h, w = source.shape
        shape = self.pick((c, w, h), (c, 1, h * w), (c * h * w, 1, 1), (c * w, h, 1), (1, h, w * c))
        return Reshape(**self.head(source), shape=shape)

    def softmax(self, source: Tensor) -> Op:
        table = np.floor(np.exp(-np.arange(256) * 0.05) * (2**31 - 1)).astype(np.int64)
        step = requant(1, -128, 1, -128, 127)
        return Softmax(**self.head(source), table=Array(table), requants=(step,))
