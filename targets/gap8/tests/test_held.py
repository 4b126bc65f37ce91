"""The kernel whose inputs stay in registers equals the reference, element by element."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dory_gap8.backend import UnpackingKernel, candidates
from dory_gap8.backend.held import HeldKernel
from dory_gap8.backend.unpacked import is_packed
from gap8_layers import BYTES, make_case
from test_block import SAME, conv

from dory_core.api import Layer, geometry, ops
from dory_core.importing import Array, requant
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernels import HostLibrary, KernelCase, whole_case
from dory_core.testing.random_layers import RandomLayers
from dory_core.testing.sanitizers import require_sanitizer

FIRST = ops.Window(kernel=(5, 5), strides=(2, 2), pads=(2, 2, 2, 2))


def whole(layer: Layer, cores: int = 8) -> KernelCase:
    kernel = replace(HeldKernel(), cores=cores)
    assert kernel.accepts(layer) is None
    return whole_case(kernel, layer)


@pytest.mark.sample(3)
@pytest.mark.parametrize("cores", [8, 3, 1])
def test_first_layers_of_networks(cores: int) -> None:
    two = replace(SAME, strides=(2, 2))
    ends = ops.Window(kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1))
    speech = ops.Window(kernel=(10, 4), strides=(2, 2), pads=(4, 1, 5, 1))
    cases = [
        whole(conv(1, 9, (23, 37), FIRST), cores),
        whole(conv(3, 8, (13, 18), two), cores),
        whole(conv(3, 8, (12, 18), ends), cores),
        whole(conv(3, 5, (9, 11), SAME), cores),
        whole(conv(1, 13, (49, 10), speech), cores),
        whole(conv(3, 4, (3, 3), SAME), cores),
        whole(conv(1, 3, (1, 9), FIRST), cores),
    ]
    HostLibrary(cases).check()


def test_weights_of_few_bits_are_bytes_among_the_parameters() -> None:
    layer = conv(3, 6, (7, 8), SAME, (requant(1, 9, 1 << 3, 0, 15),))
    weights = Array(layer.op.weights.values % 16 - 8)
    layer = replace(layer, op=replace(layer.op, weights=weights, weight_bits=4))
    assert is_packed(layer)
    assert isinstance(candidates(layer, 8)[0], HeldKernel)
    packed = replace(layer, output=replace(layer.output, bits=4))
    unpacking = candidates(packed, 8)[0]
    assert unpacking == UnpackingKernel(HeldKernel())
    sizes = [int(k.weight_bytes(x, geometry.extent(x))) for k, x in ((unpacking, packed),)]
    assert sizes == [len(unpacking.weight_block(packed, (0, 6), (0, 3)).data)]
    HostLibrary([whole(layer), whole_case(unpacking, packed)]).check()


def test_bounds_that_are_no_power_of_two_are_left_to_other_kernels() -> None:
    kernel = HeldKernel()
    for hi, reason in ((100, "its assembly does not have the requantisation"), (127, None)):
        rejection = kernel.accepts(conv(3, 6, (7, 8), SAME, (requant(1, 9, 1 << 13, 0, hi),)))
        assert (rejection and rejection.reason) == reason
    rejection = kernel.accepts(conv(8, 6, (7, 8), SAME))
    assert rejection is not None
    assert rejection.reason == "registers hold the inputs of 1 outputs, 3 at least are worth it"


@pytest.mark.sample(2)
@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
def test_pools_of_first_layers_are_computed_with_them(tmp_path: Path, sanitize: str) -> None:
    """Tiles with borders on some sides, strips of two outputs and of one, an odd row and column."""
    require_sanitizer(sanitize)
    b = GraphBuilder((1, 38, 50), name="pooled")
    b.conv(8, FIRST)
    b.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    b.conv(4, ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    plan = build_app(b.graph(), "gap8", tmp_path / "app", budgets={1: 4000}).to_json()
    first = plan["layers"][0]
    assert (first["index"], first["kind"]) == (1, "PooledConv")
    assert first["kernel"] == "dory_gap8_held"
    assert first["tiles"]["count"] > 2
    assert_exact(tmp_path / "app", sanitize=sanitize)


@pytest.mark.parametrize("portable", [False, True])
def test_only_own_kernels_take_pools(tmp_path: Path, portable: bool) -> None:
    b = GraphBuilder((1, 20, 22))
    b.conv(8, FIRST)
    b.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    settings = {"kernels": "portable"} if portable else {}
    plan = build_app(b.graph(), "gap8", tmp_path / "app", settings=settings).to_json()
    kinds = [layer["kind"] for layer in plan["layers"]]
    assert kinds == (["Conv", "MaxPool"] if portable else ["PooledConv"])


def test_pools_of_other_sizes_are_refused() -> None:
    found = [RandomLayers(SPACE, seed).layer("pooledconv") for seed in range(12)]
    other = next(layer for layer in found if layer.op.pool != (2, 2))
    rejection = HeldKernel().accepts(other)
    assert rejection is not None
    assert rejection.reason == "it computes pools of 2x2 only"


@pytest.mark.sample(2)
@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["thread", "address,undefined"])
def test_applications_whose_tiles_have_borders_on_some_sides(tmp_path: Path, sanitize: str) -> None:
    """Tiles of a first layer with strips of four outputs and of three."""
    require_sanitizer(sanitize)
    b = GraphBuilder((1, 37, 45), name="first")
    b.conv(8, FIRST)
    b.conv(4, ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    plan = build_app(b.graph(), "gap8", tmp_path / "app", budgets={1: 5000}).to_json()
    first = plan["layers"][0]
    assert first["kernel"] == "dory_gap8_held"
    assert first["tiles"]["count"] > 2
    assert_exact(tmp_path / "app", sanitize=sanitize)


SPACE = replace(
    BYTES,
    kernels=((5, 5), (3, 3), (2, 3), (4, 5), (6, 2), (3, 1), (7, 4)),
    numerator_bits=(28, 44),
)


def random_cases(seed: int, count: int, kind: str = "conv") -> list[KernelCase]:
    """Windows, channels, padding, requantisation and tiles of all kinds."""
    random = RandomLayers(SPACE, seed)
    cases: list[KernelCase] = []
    while len(cases) < count:
        layer = random.layer(kind)
        kernel = HeldKernel(random.pick(8, 8, 3))
        if kernel.accepts(layer) is None:
            cases.append(make_case(kernel, layer, random.numbers))
    return cases


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["conv", "pooledconv"])
def test_random_tiles_equal_the_reference(seed: int, kind: str) -> None:
    HostLibrary(random_cases(seed, 12, kind)).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
@pytest.mark.parametrize("kind", ["conv", "pooledconv"])
def test_many_random_tiles_equal_the_reference(seed: int, kind: str) -> None:
    HostLibrary(random_cases(seed, 25, kind)).check()
