"""Building networks with RequantShift nodes, for tests and examples, and their evaluation.

DeeployBuilder((3, 32, 32), seed=1).conv(16, 3, pads=1).maxpool(2).conv(32, 3, signed=True)
    .linear(10).save(path)
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, log2, prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from dory_onnx.testing import OnnxBuilder, evaluate
from dory_onnx.testing.builder import Pair
from onnx import numpy_helper
from onnx.reference.op_run import OpRun


class DeeployBuilder(OnnxBuilder):
    """Integer layers, each followed by a RequantShift node.

    Attributes:
        domain: Domain of the RequantShift nodes.
        old: The attribute is n_levels, and attributes are lists.
    """

    def __init__(
        self, input_shape: tuple[int, ...], *, domain: str = "", old: bool = False, **options: Any
    ) -> None:
        super().__init__(input_shape, **options)
        self.domain = domain
        self.old = old

    def conv(
        self,
        channels: int,
        kernel: Pair = 1,
        *,
        stride: Pair = 1,
        pads: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        requant: bool = True,
        signed: bool = False,
        levels: int = 256,
    ) -> Self:
        """Append a Conv; ``requant=False`` leaves the 32-bit accumulator."""
        window = self.window(kernel, stride, pads, dilation)
        form = (channels, self.shape[0] // groups, *window[0]["kernel_shape"])
        deviation = self.deviation(prod(form[1:]))
        self.convolution(self.weights(form), window, groups, None)
        return self._layer(deviation, requant, signed, levels)

    def linear(
        self, features: int, *, gemm: bool = True, requant: bool = True, signed: bool = True
    ) -> Self:
        """Append a Gemm with bias or a MatMul, flattened if need be."""
        if len(self.shape) > 1:
            self.flatten()
        deviation = self.deviation(self.shape[0])
        weights = self.weights((features, self.shape[0]))
        self.matrix(weights, gemm, deviation if gemm else None)
        return self._layer(deviation, requant, signed, 256)

    def add(self, other: str, *, requants: bool = True, signed: bool = False) -> Self:
        """Append a residual Add; requants: a RequantShift of each operand, and one of the sum."""
        names = [self.value, other]
        if requants:
            for position, source in enumerate(names):
                self.value = source
                factor = int(self.random.integers(20000, 65536))
                self.requant_shift(factor, 0, 1 << 16, 256, signed=True)
                names[position] = self.value
        bounds = [self.bounds[name] for name in names]
        self.node("Add", *names)
        self.bounds[self.value] = tuple(map(sum, zip(*bounds, strict=True)))
        if requants:
            self.requant_shift(1 << 16, 0, 1 << 16, 256, signed)
        return self.end_layer()

    def rows(self, operator: str, *constants: Any, **attributes: Any) -> Self:
        """Append a function of rows or elements; its result has the shape of the current value.

        constants: inputs after the value.
        """
        inputs = (self.value, *map(self.constant, constants))
        self.node(operator, *inputs, domain=self.domain, **attributes)
        return self.end_layer()

    def integer_mean(self, axis: int) -> Self:
        """Append an IntegerMean over an axis, which stays with one element."""
        shape = (1, *self.shape)
        self.node("IntegerMean", self.value, domain=self.domain, axes=[axis], keepdims=1)
        self.shapes[self.value] = (*shape[1:axis], 1, *shape[axis + 1 :])
        return self.end_layer()

    def requant_shift(
        self,
        mul: Any,
        add: Any,
        div: int,
        levels: int = 256,
        signed: bool = False,
        instead: dict[str, Any] | None = None,
    ) -> Self:
        """Append a RequantShift; instead: attributes to write as they are, None for none."""
        attributes: dict[str, Any] = {
            "div": numpy_helper.from_array(np.array(div, np.float32)),
            "n_levels_out": numpy_helper.from_array(np.array([levels], np.float32)),
            "signed": numpy_helper.from_array(np.array([signed], np.float32)),
        }
        if self.old:
            attributes = {"div": [float(div)], "n_levels": levels, "signed": int(signed)}
        attributes |= instead or {}
        kept = {name: value for name, value in attributes.items() if value is not None}
        inputs = self.value, self.constant(mul), self.constant(add)
        self.node("RequantShift", *inputs, domain=self.domain, **kept)
        half = levels // 2
        self.bounds[self.value] = (-half, half - 1) if signed else (0, levels - 1)
        return self

    def _layer(self, deviation: float, requant: bool, signed: bool, levels: int) -> Self:
        channels = self.shape[0]
        if requant:
            form = (channels, *(1 for _ in self.shape[1:]))
            mul = self.random.integers(200, 2048, channels, endpoint=True).reshape(form)
            add = self.offsets(channels, deviation * 1100).reshape(form)
            shift = max(round(log2(1100 * deviation / max(levels / 2, 1))), 1)
            self.requant_shift(mul, add, 1 << shift, levels, signed)
        else:
            bound = int(deviation * 4)
            self.bounds[self.value] = (-bound, bound)
        return self.end_layer()


class RequantShift(OpRun):
    """The operator for onnx's reference evaluator, from its formula."""

    op_domain = ""

    def _run(self, x, mul, add, **attributes):  # type: ignore[no-untyped-def]
        node = {a.name: a for a in self.onnx_node.attribute}
        levels = _number(node["n_levels" if "n_levels" in node else "n_levels_out"])
        signed, div = _number(node["signed"]), _number(node["div"])
        lo = -levels / 2 if signed else 0
        last = x.ndim == 3 and x.shape[1] != mul.size == x.shape[2]
        form = (1, 1, -1) if last else (1, -1, *(1 for _ in x.shape[2:]))
        mul, add = mul.reshape(form), add.reshape(form)
        shifted = np.floor((x * mul + add + np.floor(div / 2)) / div)
        return (np.clip(shifted, lo, lo + levels - 1),)


class ILayerNorm(OpRun):
    """From Deeploy's formula, in Python's integers as all that follow."""

    op_domain = ""

    def _run(self, x, weight, bias=None, **attributes):  # type: ignore[no-untyped-def]
        divisor = int(_numbers(self)["D"])
        centred = bias is not None

        def row(values: list[int]) -> list[int]:
            mean = _truncated(sum(values), len(values)) if centred else 0
            squares = sum((value - mean) ** 2 for value in values)
            root = isqrt(squares // len(values) + 1)
            found = []
            for n, value in enumerate(values):
                scaled = _truncated((value - mean) * int(weight.reshape(-1)[n]), root)
                total = (scaled + (int(bias.reshape(-1)[n]) if centred else 0)) // divisor
                wrapped = (total + 128) % 256 - 128
                found.append(wrapped if centred else min(max(total, -128), 127))
            return found

        return (_by_row(x, row),)


class IRMSNorm(ILayerNorm):
    """The same without a mean, clipped."""


class ITAMax(OpRun):
    """Powers of two of the distance to the largest element."""

    op_domain = ""

    def _run(self, x, **attributes):  # type: ignore[no-untyped-def]
        most = int(_numbers(self)["n_levels"]) - 1

        def row(values: list[int]) -> list[int]:
            shifts = [(max(values) - value + 16) >> 5 for value in values]
            inverse = most * 256 // sum(256 >> shift for shift in shifts)
            return [inverse >> shift for shift in shifts]

        return (_by_row(x, row),)


class ISoftmax(OpRun):
    """A parabola for what is left of a distance, and powers of two."""

    op_domain = ""

    def _run(self, x, **attributes):  # type: ignore[no-untyped-def]
        numbers = {name: int(value) for name, value in _numbers(self).items()}
        a, b, c = (numbers[f"coeff{name}"] for name in "ABC")

        def power(distance: int) -> int:
            shift = min(distance // numbers["log2"], 31)
            return (a * (shift * numbers["log2"] - distance + b) ** 2 + c) >> shift

        def row(values: list[int]) -> list[int]:
            powers = [power(max(values) - value) for value in values]
            return [p * (numbers["n_levels"] - 1) // sum(powers) for p in powers]

        return (_by_row(x, row),)


class IGELU(OpRun):
    """A parabola for the error function."""

    op_domain = ""

    def _run(self, x, **attributes):  # type: ignore[no-untyped-def]
        b, one = (int(_numbers(self)[name]) for name in ("b", "one"))

        def gelu(value: int) -> int:
            rest = min(abs(value), -b) + b
            sign = (value > 0) - (value < 0)
            return value * ((one + sign * (one - rest * rest)) >> 1)

        return (_by_row(x, lambda values: [gelu(value) for value in values]),)


class IHardswish(OpRun):
    """A clipped line times the element."""

    op_domain = ""

    def _run(self, x, **attributes):  # type: ignore[no-untyped-def]
        numbers = {name: int(value) for name, value in _numbers(self).items()}
        line = np.clip(x + numbers["three"], 0, numbers["six"]) * numbers["one_over_six"]
        return (x * line,)


class TrueIntegerDiv(OpRun):
    """A product with a quotient of constants."""

    op_domain = ""

    def _run(self, x, **attributes):  # type: ignore[no-untyped-def]
        delta, eta, eps, y = (int(_numbers(self)[name]) for name in ("Delta", "eta", "eps", "y"))
        return (x * (delta * eta // (y * eta + eps)),)


class IntegerMean(OpRun):
    """Halves are rounded up."""

    op_domain = ""

    def _run(self, x, **attributes):  # type: ignore[no-untyped-def]
        [axis] = next(a.ints for a in self.onnx_node.attribute if a.name == "axes")
        count = x.shape[axis]
        return (np.floor((2 * x.sum(axis=axis, keepdims=True) + count) / (2 * count)),)


def _by_row(x: Any, function: Callable[[list[int]], list[int]]) -> Any:
    rows = x.reshape(-1, x.shape[-1]).astype(np.int64).tolist()
    return np.array([function(row) for row in rows], np.float64).reshape(x.shape)


def _truncated(a: int, b: int) -> int:
    return abs(a) // b * (1 if a >= 0 else -1)


_OPERATORS: dict[str, type[OpRun]] = {
    "RequantShift": RequantShift,
    "iLayerNorm": ILayerNorm,
    "iRMSNorm": IRMSNorm,
    "ITAMax": ITAMax,
    "iSoftmax": ISoftmax,
    "iGELU": IGELU,
    "iHardswish": IHardswish,
    "IntegerMean": IntegerMean,
    "TrueIntegerDiv": TrueIntegerDiv,
}


def _in_domain(domain: str) -> list[type[OpRun]]:
    """Return the operators in a domain, by the names of the file."""
    return [type(name, (kind,), {"op_domain": domain}) for name, kind in _OPERATORS.items()]


def values_of(
    builder: DeeployBuilder, image: npt.NDArray[np.int64], names: list[str]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the named values for one input without batch."""
    return evaluate(builder.model(), image, names, (*_in_domain(""), *_in_domain("PACTOps")))


def _numbers(operator: OpRun) -> dict[str, float]:
    return {attribute.name: _number(attribute) for attribute in operator.onnx_node.attribute}


def _number(attribute: Any) -> float:
    import onnx

    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    return float(np.asarray(value).reshape(-1)[0])
