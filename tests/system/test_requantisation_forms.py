"""What the requantisations of the real networks become on GAP8."""

from __future__ import annotations

import pytest
from dory_gap8.backend.requant import LIMBS, NARROW, epilogue

from dory_core.ir import Add
from dory_core.plugins.frontend import FrontendOptions
from dory_core.plugins.manager import load_plugins
from tests.nets import net, net_params


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", net_params())
def test_no_layer_needs_64_bits(name: str) -> None:
    """Wide products, divisors of ones and steps in sequence: one or two 32-bit multiplications."""
    source = net(name)
    options = FrontendOptions(source.input_bits, source.input_signed)
    graph = load_plugins().frontend(source.frontend).parse(source.onnx, options)
    for layer in graph.layers:
        if layer.op.requants and not isinstance(layer.op, Add):
            assert epilogue(layer).form in (NARROW, LIMBS), layer.op.name
