"""Layers as the kind that is known of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dory_core.errors import NotSupported
from dory_core.ir import Add, Array, AvgPool, Conv, Linear, MaxPool, Window
from dory_core.testing.kernels import alone, typed

WINDOW = Window(kernel=(3, 2))
IMAGE = (4, 6, 5, 0, 255)
CONV = typed(alone(Conv, weights=Array(np.ones((2, 4, 3, 2), int)), window=WINDOW), IMAGE)
LINEAR = typed(alone(Linear, weights=Array(np.ones((7, 120), int))), IMAGE)
POOLS = [typed(alone(kind, window=WINDOW), IMAGE) for kind in (MaxPool, AvgPool)]
SUM = typed(alone(Add), IMAGE, IMAGE)


def test_layer_is_given_as_the_kind_that_it_is() -> None:
    assert CONV.of(Conv) is CONV.weighted is CONV.op
    assert LINEAR.of(Linear) is LINEAR.weighted is LINEAR.op
    assert SUM.of(Add) is SUM.op
    assert [layer.window for layer in (CONV, *POOLS)] == [WINDOW] * 3


@pytest.mark.parametrize(
    ("layer", "kind"),
    [(LINEAR, Conv), (CONV, Linear), (CONV, Add), (SUM, Conv)],
)
def test_another_kind_is_an_error(layer, kind) -> None:
    with pytest.raises(TypeError, match=f"is a {layer.op.kind}, not a {kind.__name__}"):
        layer.of(kind)


@pytest.mark.parametrize(("layer", "name"), [(LINEAR, "window"), (SUM, "weighted")])
def test_what_only_other_kinds_have_is_an_error(layer, name: str) -> None:
    with pytest.raises(TypeError, match=f"is a {layer.op.kind}, not a Conv"):
        getattr(layer, name)


def test_bias_is_none_where_a_layer_has_none() -> None:
    bias = Array([3, -4])
    conv = typed(replace(CONV.of(Conv), bias=bias), IMAGE)
    assert conv.bias == bias
    assert [layer.bias for layer in (CONV, LINEAR, *POOLS, SUM)] == [None] * 5


def test_window_counts_its_taps() -> None:
    assert Window(kernel=(3, 5), dilations=(2, 2)).taps == 15


@pytest.mark.parametrize("weighted", [CONV, LINEAR], ids=["conv", "linear"])
def test_a_bias_has_a_value_for_each_channel(weighted) -> None:
    op = replace(weighted.op, bias=Array([1, 2, 3]))
    with pytest.raises(NotSupported, match="its bias has another number of channels"):
        typed(op, IMAGE)
