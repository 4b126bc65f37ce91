"""Networks for tests, built directly as Graphs with seeded random parameters.

Requantisations are scaled to the spread of the accumulators, so that outputs use their whole range
and a wrong value anywhere shows in the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from dory_core.ir import Array, Graph, Requant, State, Tensor, ops, requant, storage_for
from dory_core.ir.ranges import infer_layer, infer_types

Range = tuple[int, int]
U8: Range = (0, 255)
I8: Range = (-128, 127)
U16: Range = (0, 1020)


@dataclass(slots=True)
class GraphBuilder:
    """Builds a Graph layer by layer; every method returns the name of its output tensor.

    Attributes:
        shape: Shape (C, H, W) of the input.
        values: Range of the input.
        seed: Seed of all parameters.
    """

    shape: tuple[int, int, int]
    values: Range = U8
    seed: int = 0
    name: str = "network"
    _layers: list[ops.Operator] = field(default_factory=list)
    _extra: list[Tensor] = field(default_factory=list)
    _states: dict[str, Array] = field(default_factory=dict)
    _types: dict[str, Tensor] = field(default_factory=dict)
    _typed: int = 0  # number of layers whose types are in _types
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._extra.append(self._tensor("input", self.shape, self.values))

    @staticmethod
    def _tensor(name: str, shape: tuple[int, int, int], values: Range) -> Tensor:
        bits, signed = storage_for(*values)
        return Tensor(name, *shape, *values, bits, signed)

    def extra_input(self, values: Range = U8) -> str:
        """Add a second network input of the same shape, for a single Add."""
        name = f"input_{len(self._extra)}"
        self._extra.append(self._tensor(name, self.shape, values))
        return name

    def state(self, shape: tuple[int, int, int], values: Range = U8, initial: int = 0) -> str:
        """Add a state; :meth:`graph` takes the tensor that becomes its next value.

        Args:
            shape: Shape (C, H, W).
            values: Range of the state.
            initial: Initial value of all elements.
        """
        name = f"state_{len(self._states)}"
        self._extra.append(self._tensor(name, shape, values))
        self._states[name] = Array(np.full(shape, initial))
        return name

    # -- layers -------------------------------------------------------------------------------

    def conv(
        self,
        channels: int,
        window: ops.Window,
        *,
        source: str | None = None,
        groups: int = 1,
        bias: bool = False,
        output: Range | None = U8,
        wide: bool = False,
        div: int | None = None,
        per_channel: bool = True,
        second: bool = False,
        weights: Range = I8,
    ) -> str:
        """Add a Conv.

        Args:
            channels: Output channels.
            window: Where its taps lie.
            source: Name of the input, None: the last tensor.
            groups: Number of groups of channels.
            bias: Add a bias.
            output: Clip range, None for 32-bit accumulators.
            wide: Force 64-bit requantisation.
            div: Divisor, which need not be a power of two.
            per_channel: Requantise each channel with numbers of its own.
            second: Add a second requantisation.
            weights: Range of the weights, whose storage gives ``weight_bits``.
        """
        x = self._type(source)
        shape = (channels, x.channels // groups, *window.kernel)
        taps = shape[1] * window.taps
        sums = _sums(x, taps, weights)
        requants = self._requants(
            channels,
            sums,
            output,
            wide,
            div,
            per_channel,
        )
        if second and requants:
            requants += (requant(3, 5, 4, *output) if output else requant(3, 5, 4),)
        return self._append(
            ops.Conv(
                **self._head("Conv", source),
                weights=Array(self._weights(shape, weights)),
                weight_bits=storage_for(*weights)[0],
                window=window,
                bias=self._bias(channels, sums[1]) if bias else None,
                groups=groups,
                requants=requants,
            )
        )

    def linear(
        self,
        channels: int,
        *,
        source: str | None = None,
        bias: bool = False,
        output: Range | None = None,
        wide: bool = False,
        weights: Range = I8,
    ) -> str:
        """Add a Linear, by default with 32-bit outputs; arguments as for a Conv."""
        x = self._type(source)
        sums = _sums(x, x.elements, weights)
        requants = self._requants(channels, sums, output, wide, None, True)
        return self._append(
            ops.Linear(
                **self._head("Gemm", source),
                weights=Array(self._weights((channels, x.elements), weights)),
                weight_bits=storage_for(*weights)[0],
                bias=self._bias(channels, sums[1]) if bias else None,
                requants=requants,
            )
        )

    def max_pool(
        self, window: ops.Window, *, source: str | None = None, onto: Range | None = None
    ) -> str:
        """Add a MaxPool; ``onto`` is the range that its values are mapped to, None for none."""
        x = self._type(source)
        requants = () if onto is None else (mapped((x.lo, x.hi), onto),)
        return self._append(
            ops.MaxPool(**self._head("MaxPool", source), window=window, requants=requants)
        )

    def avg_pool(
        self,
        window: ops.Window,
        *,
        source: str | None = None,
        output: Range | None = U8,
        onto: Range | None = None,
    ) -> str:
        """Add an AvgPool whose requantisation divides by about the window's size.

        Args:
            window: What is averaged.
            source: Name of the input, None: the last tensor.
            output: Clip range.
            onto: Range that the averages are mapped to, instead of a clip.
        """
        x = self._type(source)
        count = window.taps
        step = requant(max(1, (1 << 12) // count), int(self._rng.integers(0, 4096)), 1 << 12)
        if output is not None and x.lo >= output[0]:
            step = requant(step.mul, step.add, step.div, *output)
        if onto is not None:
            step = mapped((x.lo, x.hi), onto, count)
        return self._append(
            ops.AvgPool(**self._head("AveragePool", source), window=window, requants=(step,))
        )

    def real_mean(self, window: ops.Window) -> str:
        """Add the mean of an int8 input over a window as onnxruntime computes it, in binary32."""
        real = ops.RealMean(0.37109375, -11, 0.2890625, 9)
        step = requant(1, 0, 1, -128, 127)
        head = self._head("AveragePool", None)
        return self._append(ops.AvgPool(**head, window=window, requants=(step,), real=real))

    def add(
        self,
        first: str,
        second: str,
        *,
        operands: tuple[Requant | None, Requant | None] | None = None,
        requants: tuple[Requant, ...] | None = None,
    ) -> str:
        """Add a residual Add; by default unclipped, so that it may need 16 bits."""
        if operands is None:
            operands = (requant(int(self._rng.integers(2, 200))), requant(87))
        if requants is None:
            requants = (requant(1, 0, 128),)
        head = self._head("Add", first)
        head["inputs"] = (first, second)
        return self._append(ops.Add(**head, operand_requants=operands, requants=requants))

    def reshape(self, shape: tuple[int, int, int], *, source: str | None = None) -> str:
        """Add a Reshape to (C, H, W)."""
        return self._append(ops.Reshape(**self._head("Reshape", source), shape=shape))

    def slice(
        self,
        begin: tuple[int, int, int],
        size: tuple[int, int, int],
        *,
        step: tuple[int, int, int] = (1, 1, 1),
        source: str | None = None,
    ) -> str:
        """Add a Slice."""
        return self._append(
            ops.Slice(**self._head("Slice", source), begin=begin, size=size, step=step)
        )

    def concat(self, *sources: str, axis: int) -> str:
        """Add a Concat of tensors along an axis of (C, H, W)."""
        head = self._head("Concat", sources[0])
        head["inputs"] = sources
        return self._append(ops.Concat(**head, axis=axis))

    def layer(self, kind: type[ops.Operator], *sources: str, **fields: Any) -> str:
        """Add a layer of any kind. fields: what its class takes beyond names and tensors."""
        head = self._head(kind.__name__, sources[0])
        head["inputs"] = sources
        return self._append(kind(**head, **fields))

    def graph(
        self, outputs: Iterable[str] | None = None, states: Mapping[str, str] | None = None
    ) -> Graph:
        """Return the Graph.

        Args:
            outputs: Names of the outputs, by default the last tensor.
            states: The tensor that becomes the next value of each state.
        """
        kept = tuple(
            State(name, name, written, self._states[name])
            for name, written in (states or {}).items()
        )
        names = tuple(outputs) if outputs is not None else (self._layers[-1].output,)
        return infer_types(self.name, tuple(self._extra), tuple(self._layers), names, states=kept)

    def shape_of(self, name: str) -> tuple[int, int, int]:
        """Return (C, H, W) of a tensor."""
        return self._type(name).shape

    def type_of(self, name: str) -> Tensor:
        """Return a tensor with the range of range analysis."""
        return self._type(name)

    @property
    def last(self) -> str:
        """Name of the last tensor."""
        return self._layers[-1].output if self._layers else "input"

    # -- parts --------------------------------------------------------------------------------

    def _type(self, name: str | None) -> Tensor:
        self._types.update((tensor.name, tensor) for tensor in self._extra)
        for layer in self._layers[self._typed :]:
            self._types[layer.output], _ = infer_layer(layer, self._types)
            self._typed += 1
        return self._types[name or self.last]

    def _head(self, operator: str, source: str | None) -> dict[str, Any]:
        index = len(self._layers)
        return {
            "index": index,
            "name": f"{operator}_{index}",
            "inputs": (source or self.last,),
            "output": f"layer_{index:02d}",
        }

    def _append(self, layer: ops.Operator) -> str:
        self._layers.append(layer)
        return layer.output

    def _weights(
        self, shape: tuple[int, ...], values: Range
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        lo, hi = values
        weights = self._rng.integers(lo, hi + 1, size=shape, dtype=np.int64)
        weights.flat[0] = lo  # the range is always used to its ends
        weights.flat[-1] = hi
        return weights

    def _bias(self, channels: int, spread: float) -> Array:
        most = min(5000, max(1, int(spread)))
        return Array(self._rng.integers(-most, most, size=channels))

    def _requants(
        self,
        channels: int,
        sums: tuple[float, float],
        output: Range | None,
        wide: bool,
        div: int | None,
        per_channel: bool,
    ) -> tuple[Requant, ...]:
        if output is None:
            return ()
        (mean_sum, spread), (lo, hi) = sums, output
        gain = (hi - lo) / 5 / max(spread, 1.0)  # two and a half sigmas to each end
        scale = 16.0 if not wide else 2.0**21
        shift = max(0, int(np.ceil(np.log2(scale / gain))))
        divisor = div or 1 << shift
        mean = gain * divisor
        count = channels if per_channel else 1
        mul = np.maximum(1, np.rint(mean * self._rng.uniform(0.6, 1.4, count))).astype(np.int64)
        if wide:
            mul[:: max(1, count // 3)] *= -1
        middle = (lo + hi) / 2 * divisor
        add = np.rint(middle * self._rng.uniform(0.5, 1.5, count) - mul * mean_sum).astype(np.int64)
        return (requant(mul.tolist(), add.tolist(), divisor, lo, hi),)


def mapped(values: Range, output: Range, count: int = 1) -> Requant:
    """Return the step that maps ``values``, or sums of ``count`` of them, onto ``output``."""
    (low, high), (lo, hi) = values, output
    return requant(hi - lo, (lo * (high - low) - low * (hi - lo)) * count, (high - low) * count)


def _sums(x: Tensor, taps: int, weights: Range) -> tuple[float, float]:
    """Return estimates of mean and standard deviation of a sum of ``taps`` random products."""
    lo, hi = weights
    mean = taps * (x.lo + x.hi) / 2 * (lo + hi) / 2
    return mean, sqrt(taps) * (hi - lo) * 74 / 255 * max(abs(x.lo), abs(x.hi)) / 1.7
