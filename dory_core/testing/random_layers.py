"""Random layers over the whole parameter space of a target's kernels.

space = LayerSpace(outputs=((0, 255), (-128, 127), None))
layer = RandomLayers(space, seed=7).layer("depthwise")
"""

from __future__ import annotations

from dataclasses import replace

from dory_core.errors import NotSupported
from dory_core.ir import Layer, Requant, ops
from dory_core.testing.kernel_cases import alone, typed
from dory_core.testing.random_kinds import MAKERS
from dory_core.testing.random_parts import LayerSpace, RandomParts

__all__ = ["ALL_KINDS", "KINDS", "LayerSpace", "RandomLayers"]

#: What the kernels of most chips compute.
KINDS = ("conv", "grouped", "pointwise", "depthwise", "linear", "maxpool", "avgpool", "add")
#: All that can be drawn.
ALL_KINDS = (*KINDS, *MAKERS)


class RandomLayers(RandomParts):
    """A seeded source of layers. numbers: the generator that decides everything."""

    def layer(self, kind: str) -> Layer:
        """Return a layer of a kind (one of ALL_KINDS) that range analysis lets pass."""
        while True:
            try:
                if kind in MAKERS:
                    layer = MAKERS[kind](self)
                    return replace(layer, op=replace(layer.op, name=kind))
                if kind == "add":
                    return self._sum()
                return self._pool(kind) if kind.endswith("pool") else self._filter(kind)
            except NotSupported:
                continue

    def _filter(self, kind: str) -> Layer:
        """Return a convolution or a fully connected layer."""
        bits = self.pick(*self.space.weight_bits)
        c_out = self.pick(1, 2, 3, 4, 5, 8, 9, 16, 17, 20)
        layer: ops.Conv | ops.Linear
        if kind == "linear":
            source = self.source(self.pick(1, 3, 8, 16), self.pick(1, 1, 2, 3), self.pick(1, 1, 4))
            weights = self.weights(c_out, source[0] * source[1] * source[2], bits=bits)
            layer = alone(
                ops.Linear,
                name=kind,
                weights=weights,
                weight_bits=bits,
                bias=self.bias(c_out),
                requants=self.steps(c_out, weights, source),
            )
            return typed(layer, source, packed=self.space.packed)
        if kind == "pointwise":
            window = ops.Window(kernel=(1, 1), strides=self.pick((1, 1), (2, 2), (1, 3)))
        else:
            window = self.window(self.pick(*self.space.kernels))
        groups, per_group = 1, self.pick(1, 2, 3, 4, 5, 7, 8, 16, 33)
        if kind == "depthwise":
            groups, per_group = self.pick(2, 3, 4, 5, 8, 9, 17), 1
            c_out = groups * self.pick(*self.space.filters_per_channel)
        if kind == "grouped":
            groups, per_group = self.pick(2, 3, 4, 6), self.pick(2, 3, 4, 5, 8)
            c_out = groups * self.pick(1, 2, 3, 4, 6)
        source = self.source(groups * per_group, *self.image(window))
        window = self.padded(window, source)
        weights = self.weights(c_out, per_group, *window.kernel, bits=bits)
        layer = alone(
            ops.Conv,
            name=kind,
            weights=weights,
            weight_bits=bits,
            bias=self.bias(c_out),
            window=window,
            groups=groups,
            requants=self.steps(c_out, weights, source),
        )
        return typed(layer, source, packed=self.space.packed)

    def _pool(self, kind: str) -> Layer:
        """Return a pooling layer."""
        window = self.window(self.pick((2, 2), (3, 3), (1, 3), (4, 2), (7, 7)))
        source = self.source(self.pick(1, 2, 3, 4, 7, 8, 17), *self.image(window))
        window = self.padded(window, source)
        steps: tuple[Requant, ...] = ()
        if kind == "avgpool" and self.integer(0, 5):
            reach = window.taps * max(abs(source[3]), source[4])
            steps = self.requants(1, reach, self.pick(*self.space.outputs))
        make: type[ops.MaxPool] | type[ops.AvgPool] = (
            ops.MaxPool if kind == "maxpool" else ops.AvgPool
        )
        layer = alone(make, name=kind, window=window, requants=steps)
        return typed(layer, source, packed=self.space.packed)

    def _sum(self) -> Layer:
        """Return a residual sum."""
        shape = (self.integer(1, 9), self.integer(1, 9), self.integer(1, 9))
        first, second = self.source(*shape), self.source(*shape)
        operands = []
        for source in (first, second):
            clip = self.pick(None, (0, 255), (-128, 127))
            step = self.step(1, max(abs(source[3]), source[4]), clip)
            operands.append(self.pick(None, step, step))
        steps = self.requants(1, 1000, self.pick(*self.space.outputs))
        layer = alone(
            ops.Add,
            operand_requants=(operands[0], operands[1]),
            requants=self.pick((), steps, steps),
        )
        return typed(layer, first, second, packed=self.space.packed)
