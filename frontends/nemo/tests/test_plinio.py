"""Files that PLiNIO exports for MATCH: integer types, weights of uint8 that are signed bytes."""

from pathlib import Path

import numpy as np
import pytest
from dory_nemo.dialect import parse
from dory_nemo.testing import NemoBuilder, PlinioBuilder
from dory_onnx.testing import evaluate
from onnx import TensorProto

from dory_core.api import Graph, NotSupported
from dory_core.importing import FrontendOptions
from dory_core.testing import random_inputs
from dory_core.testing import run_reference as run
from tests.cli.command_line import dory


def imported(builder: PlinioBuilder, folder: Path) -> Graph:
    return parse(builder.save(folder / "net.onnx"), FrontendOptions())


def network(weight_type: type = np.uint8, seed: int = 0) -> PlinioBuilder:
    builder = PlinioBuilder((3, 12, 10), seed=seed, weight_type=weight_type)
    builder.conv(8, 3, stride=2, pads=1).depthwise(pads=1)
    branch = builder.value
    return builder.conv(8, 1).add(branch).maxpool(2).linear(12, activation=True).linear(5)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("weight_type", [np.uint8, np.int8])
def test_equals_the_evaluation_with_signed_weights(
    weight_type: type, seed: int, tmp_path: Path
) -> None:
    builder, signed = network(weight_type, seed), network(np.int8, seed)
    graph = imported(builder, tmp_path)
    assert len(graph.ops) == len(builder.layer_values)
    values = random_inputs(graph, seed)
    image = values["input"].reshape(builder.shapes[builder.input])
    expected = evaluate(signed.model(), image, signed.layer_values)
    got = run(graph, values)
    for layer, value in zip(graph.ops, builder.layer_values, strict=True):
        shape = graph.tensors[layer.output].shape
        np.testing.assert_array_equal(got[layer.output], expected[value].reshape(shape), value)
        assert len(np.unique(got[layer.output])) > 2, f"{value} shows nothing"


def test_both_types_of_weights_are_one_network_and_a_note_says_so(tmp_path: Path) -> None:
    stored_as_bytes = imported(network(np.uint8), tmp_path)
    plain = imported(network(np.int8), tmp_path)
    assert stored_as_bytes.ops == plain.ops
    assert stored_as_bytes.notes == (
        "weights of type uint8 are read as the bytes of signed weights",
    )
    assert plain.notes == ()


def test_the_bias_behind_a_cast_belongs_to_the_layer(tmp_path: Path) -> None:
    graph = imported(PlinioBuilder((6,)).linear(4), tmp_path)
    assert graph.ops[0].requants == ()
    assert graph.ops[0].bias is not None  # type: ignore[attr-defined]


def test_a_cast_of_the_input_that_keeps_its_values(tmp_path: Path) -> None:
    builder = PlinioBuilder((3, 6, 6)).cast(TensorProto.UINT8).conv(4, 1)
    assert len(imported(builder, tmp_path).ops) == 1


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        (TensorProto.INT8, r"whose values reach from 0 to 255, to a type of \[-128, 127\]"),
        (TensorProto.BOOL, "cast to ONNX type 9 is not exact"),
    ],
)
def test_a_cast_that_changes_values(to: int, reason: str, tmp_path: Path) -> None:
    builder = PlinioBuilder((3, 6, 6)).conv(4, 1).cast(to).conv(4, 1)
    with pytest.raises(NotSupported, match=f"Cast '.*': .*{reason}") as caught:
        imported(builder, tmp_path)
    assert caught.value.hint


def test_a_cast_of_sums_to_bytes_may_wrap(tmp_path: Path) -> None:
    builder = PlinioBuilder((3, 6, 6)).conv(4, 1, activation=False).cast(TensorProto.UINT8)
    with pytest.raises(NotSupported, match=r"Cast '.*': .*may wrap"):
        imported(builder.conv(4, 1), tmp_path)


def test_weights_above_127_of_other_types_are_still_an_error(tmp_path: Path) -> None:
    weights = np.full((4, 3, 1, 1), 200)
    with pytest.raises(NotSupported, match="reaches from 200 to 200, outside int8"):
        builder = NemoBuilder((3, 4, 4)).conv(4, 1, weights=weights)
        parse(builder.save(tmp_path / "net.onnx"), FrontendOptions())


def test_the_frontend_is_found_from_the_file(tmp_path: Path) -> None:
    path = PlinioBuilder((3, 6, 6)).conv(8, 1).save(tmp_path / "net.onnx")
    outcome = dory("check", path, DORY_PLUGINS="nemo,quantlab")
    assert outcome.status == 0, outcome.stderr
    assert "bytes of signed weights" in outcome.stdout
