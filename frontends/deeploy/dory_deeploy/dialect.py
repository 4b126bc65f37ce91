"""The dialect of ONNX that Deeploy deploys.

A layer is Conv, Gemm, MatMul, MaxPool or Add, followed by

    RequantShift(x, mul, add) with the attributes div, n_levels_out and signed

which is y = clip(floor((mul[c] * x + add[c] + div / 2) / div), lo, hi), where (lo, hi) is
(0, n - 1), or (-n / 2, n / 2 - 1) if signed. The operands of a residual Add carry such steps of
their own. A RequantShift stands in the standard domain or in that of its exporter; older files
name its attribute n_levels. Functions of rows, the last axis, stand in ``rows``.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from dory_onnx import Dialect, Node, OnnxModel, Step, import_onnx

from dory_core.api import Graph, NotSupported
from dory_core.importing import FrontendOptions
from dory_deeploy.requant_shift import (
    DIVISIONS,
    REQUANT_SHIFTS,
    plain_name,
    steps_of_division,
    steps_of_requant_shift,
)
from dory_deeploy.rows import KINDS, OWN_LAYERS

#: Integer operators of Deeploy that this frontend does not read, and what to do about them.
_REFUSED = {
    "iSiLU": "retrain with ReLU",
    "iLeakyReLU": "retrain with ReLU",
    "ITAPartialMax": "export it as an ITAMax",
    "ReduceMean": "put a RequantShift behind it: its result is a fraction",
}
_INTEGER_PREFIXES = ("i", "Integer", "TrueInteger", "ITA", "Requant")
_DEFAULT_WAY = "replace it in the network, or end the exported network before it"


class DeeployDialect(Dialect):
    """RequantShift is the requantisation; everything else is the plain reading of the nodes."""

    reference = "deeploy"
    arithmetic = Dialect.arithmetic | REQUANT_SHIFTS | DIVISIONS
    rounding_operands = REQUANT_SHIFTS
    own_layers = OWN_LAYERS
    becomes = MappingProxyType(
        {
            **KINDS,
            "RequantShift": "requantisation of the layer before",
            "TrueIntegerDiv": "a factor of that requantisation",
        }
    )

    def steps_of(
        self, model: OnnxModel, node: Node, shape: tuple[int, ...], axis: int = 1
    ) -> tuple[Step, ...]:
        """Return the steps of a RequantShift, a TrueIntegerDiv or a plain node."""
        if node.op in DIVISIONS:
            return steps_of_division(node)
        if node.op in REQUANT_SHIFTS:
            return steps_of_requant_shift(model, node, shape, axis)
        return super().steps_of(model, node, shape, axis)

    def check_host(self, node: Node) -> None:
        """Refuse integer operators: a host would have to compute them exactly."""
        name = plain_name(node)
        if name in _REFUSED or name.startswith(_INTEGER_PREFIXES):
            raise NotSupported(
                f"{node.label}: operator {name} on '{node.input(0)}' is not supported",
                _REFUSED.get(name, _DEFAULT_WAY),
            )


def parse(path: Path, options: FrontendOptions) -> Graph:
    """Return the integer network of a file for Deeploy.

    Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
    """
    return import_onnx(path, options, DeeployDialect())
