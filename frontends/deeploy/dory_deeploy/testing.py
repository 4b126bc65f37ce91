"""Building networks with RequantShift nodes, for tests and examples, and their evaluation.

DeeployBuilder((3, 32, 32), seed=1).conv(16, 3, pads=1).maxpool(2).conv(32, 3, signed=True)
    .linear(10).save(path)
"""

from __future__ import annotations

from math import log2, prod
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
        form = (1, -1, *(1 for _ in x.shape[2:]))
        mul, add = mul.reshape(form), add.reshape(form)
        shifted = np.floor((x * mul + add + np.floor(div / 2)) / div)
        return (np.clip(shifted, lo, lo + levels - 1),)


class PactRequantShift(RequantShift):
    """The same in the domain that the exporter gives it."""

    op_domain = "PACTOps"


PactRequantShift.__name__ = "RequantShift"


def values_of(
    builder: DeeployBuilder, image: npt.NDArray[np.int64], names: list[str]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the named values for one input without batch."""
    return evaluate(builder.model(), image, names, (RequantShift, PactRequantShift))


def _number(attribute: Any) -> float:
    import onnx

    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    return float(np.asarray(value).reshape(-1)[0])
