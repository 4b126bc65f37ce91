"""Files that cannot be imported exactly: each error names the node, the tensor and the way out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dory_deeploy.dialect import parse
from dory_deeploy.testing import DeeployBuilder

from dory_core.api import NotSupported
from dory_core.importing import FrontendOptions


def rejected(builder: DeeployBuilder, folder: Path, reason: str) -> NotSupported:
    with pytest.raises(NotSupported, match=reason) as caught:
        parse(builder.save(folder / "net.onnx"), FrontendOptions())
    assert caught.value.hint
    return caught.value


def accumulator() -> DeeployBuilder:
    return DeeployBuilder((3, 6, 6)).conv(4, 1, requant=False)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"div": None}, "attribute div is missing"),
        ({"div": 3}, r"attribute div = 3 is not a power of two"),
        ({"div": 0}, r"attribute div = 0 is not a power of two"),
        ({"div": float("nan")}, "'div' holds nan at .*, which is not an integer"),
        ({"div": [2.0, 4.0]}, "attribute div has 2 values, not one"),
        ({"n_levels_out": None}, "attribute n_levels is missing"),
        ({"n_levels_out": 1}, r"attribute n_levels_out = 1 is not in \[2, 4294967296\]"),
        ({"signed": None}, "attribute signed is missing"),
        ({"signed": 2}, "attribute signed = 2 is neither 0 nor 1"),
        ({"offset": 1}, "attribute 'offset' of RequantShift is unknown"),
        ({"div": "many"}, "'div' holds .*, not numbers"),
    ],
)
def test_attribute_that_means_nothing(
    attributes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    builder = accumulator().requant_shift(5, 0, 16, instead=attributes)
    rejected(builder, tmp_path, f"RequantShift '.*': .*{reason}")


def test_constants_that_fit_no_channel(tmp_path: Path) -> None:
    builder = accumulator().requant_shift(np.ones(3), 0, 16)
    rejected(builder, tmp_path, r"shape \[3\] is neither one value nor one for each of 4 channels")


def test_constant_that_is_no_integer(tmp_path: Path) -> None:
    builder = accumulator().requant_shift(0.5, 0, 16)
    rejected(builder, tmp_path, "holds 0.5.*, which is not an integer")


def test_factor_that_is_computed(tmp_path: Path) -> None:
    builder = accumulator()
    source = builder.value
    builder.node("RequantShift", source, source, builder.constant(0), div=2)
    rejected(builder, tmp_path, "is not a constant")


def test_two_inputs(tmp_path: Path) -> None:
    builder = accumulator()
    builder.node("RequantShift", builder.value, builder.constant(1), div=2)
    rejected(builder, tmp_path, "it has 2 inputs, but RequantShift takes 3")


@pytest.mark.parametrize(
    ("operator", "way_out"),
    [("iSiLU", "ReLU"), ("ITAPartialMax", "ITAMax"), ("iLayerNormLike", "replace it")],
)
@pytest.mark.parametrize("last", [False, True])
def test_other_integer_operators(operator: str, way_out: str, last: bool, tmp_path: Path) -> None:
    builder = DeeployBuilder((3, 6, 6)).conv(4, 1)
    value = builder.value
    builder.node(operator, value)
    if not last:
        builder.conv(4, 1)
    error = rejected(builder, tmp_path, f"operator {operator} on '{value}' is not supported")
    assert way_out in error.hint
