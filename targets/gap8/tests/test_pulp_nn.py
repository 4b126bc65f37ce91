"""PULP-NN as a backend: what it is given, what it is trusted with, and what it is not.

The library is the user's. These tests carry its contract as plain loops (``pulp_nn/``), and run
with the real one, too, when PULP_NN_PATH names a copy.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from dory_gap8.pulp_nn import Library, find_library, pulp_nn_kernels

from dory_core.api import DoryError, Graph, UsageError, ops
from dory_core.importing import requant
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder

CONTRACT = Path(__file__).parent / "pulp_nn"
ANYWHERE = Path("anywhere")


@pytest.fixture(params=["contract", "library"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with 32bit and 64bit: of the contract, or of the real library."""
    if request.param == "library":
        path = os.environ.get("PULP_NN_PATH")
        if not path:
            pytest.skip("PULP_NN_PATH names no copy of PULP-NN")
        return Path(path)
    for bits in (32, 64):
        folder = tmp_path / "pulp-nn" / f"{bits}bit"
        shutil.copytree(CONTRACT, folder)
        header = folder / "include" / "pulp_nn_kernels.h"
        text = header.read_text(encoding="utf-8")
        header.write_text(text.replace("BN_T", f"int{bits}_t"), encoding="utf-8")
    return tmp_path / "pulp-nn"


def network(h: int = 11, w: int = 9, shift: int = 12) -> Graph:
    """Every layer that the library computes exactly, of odd sizes."""
    net = GraphBuilder((3, h, w), seed=5)
    net.conv(10, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    skip = net.conv(12, ops.Window(kernel=(1, 1)))
    net.conv(12, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)), groups=12, bias=True)
    halves = (requant(3), requant(5))
    net.add(
        net.conv(12, ops.Window(kernel=(1, 1))), skip, operands=halves, requants=(requant(1, 0, 8),)
    )
    net.conv(12, ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), groups=12)
    net.conv(6, ops.Window(kernel=(5, 3), strides=(1, 2), pads=(2, 0, 1, 1)), bias=True)
    net.avg_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    net.linear(9, output=(0, 255))
    net.linear(4, bias=True)
    return net.graph()


@pytest.mark.sample(20)
@pytest.mark.parametrize("width", ["64bit", "32bit", ""])
@pytest.mark.parametrize("cores", ["8", "1"])
def test_network_is_exact_on_the_library_alone(
    library: Path, width: str, cores: str, tmp_path: Path
) -> None:
    settings = {"kernels": f"pulp-nn={library / width}", "cores": cores}
    for n, budget in enumerate((6000, 20000)):
        app = tmp_path / f"app{n}"
        plan = build_app(network(), "gap8", app, settings=settings, budgets={1: budget})
        names = {step.kernel.name for step in plan.steps}
        assert names >= {"pulp_nn_conv_Ho_parallel", "pulp_nn_depthwise_generic", "pulp_nn_add"}
        assert all(name.startswith(("pulp_nn_", "dory_portable_")) for name in names)
        assert not list((app / "kernels").glob("dory_gap8_*")), "two backends in one application"
        assert_exact(app)


def reasons(layer: int, graph: Graph, bits: int = 64, cores: int = 8) -> dict[str, str]:
    """Return why each kernel of the library rejects a layer; nothing where it takes it."""
    typed = graph.layer(layer)
    found = {}
    for kernel in pulp_nn_kernels(Library(ANYWHERE, bits), typed, cores):
        rejection = kernel.accepts(typed)
        if rejection is not None:
            found[kernel.name] = rejection.reason
    return found


def single(**options: object) -> Graph:
    """A network of one convolution."""
    values = {"kernel": (3, 3), "pads": (1, 1, 1, 1)} | {
        k: v for k, v in options.items() if k in ops.Window.__dataclass_fields__
    }
    rest = {k: v for k, v in options.items() if k not in values}
    net = GraphBuilder((8, 9, 9), seed=1)
    net.conv(8, ops.Window(**values), **rest)  # type: ignore[arg-type]
    return net.graph()


CONV, POINTWISE = "pulp_nn_conv_Ho_parallel", "pulp_nn_pointwise_HoWo_parallel"
DEPTHWISE = "pulp_nn_depthwise_generic"


@pytest.mark.parametrize(
    ("options", "kernel", "text"),
    [
        ({"dilations": (2, 2), "pads": (2, 2, 2, 2)}, CONV, "dilation"),
        ({"kernel": (1, 1), "pads": (0, 0, 0, 0), "strides": (2, 2)}, POINTWISE, "stride"),
        ({"div": 255}, CONV, "powers of two"),
        ({"output": (0, 15)}, CONV, "its output is u4"),
        ({"output": (-128, 127)}, CONV, "i8"),
        ({"groups": 8, "kernel": (3, 4), "pads": (1, 1, 1, 2)}, DEPTHWISE, "right border"),
        ({"groups": 8, "pads": (1, 0, 1, 1)}, DEPTHWISE, "right border"),
        ({"groups": 4}, DEPTHWISE, "depthwise"),
    ],
)
def test_what_would_not_be_exact_is_rejected(
    options: dict[str, object], kernel: str, text: str
) -> None:
    found = reasons(0, single(**options))
    assert text in found[kernel]
    assert CONV in found or kernel == POINTWISE


def test_wide_requantisation_is_for_the_64_bit_variant() -> None:
    graph = single(wide=True)
    assert graph.ranges[0].bits == 64
    assert "64bit variant" in reasons(0, graph, bits=32)[CONV]
    assert CONV not in reasons(0, graph, bits=64)


def test_cores_are_a_power_of_two() -> None:
    assert "power of two" in reasons(0, single(), cores=6)[CONV]


def test_add_with_a_multiplier_of_16_bits_is_rejected() -> None:
    net = GraphBuilder((4, 3, 3), seed=2)
    other = net.extra_input()
    net.add(
        "input", other, operands=(requant(40000), requant(1)), requants=(requant(1, 0, 1 << 18),)
    )
    assert "15 bits" in reasons(0, net.graph())["pulp_nn_add"]


def test_max_pool_is_left_to_others() -> None:
    net = GraphBuilder((4, 4, 4), seed=2)
    net.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    assert "overwrites its input" in reasons(0, net.graph())["pulp_nn_maxpool"]


def test_bias_is_folded_into_lambda() -> None:
    graph = single(bias=True)
    typed = graph.layer(0)
    [kernel] = [
        k for k in pulp_nn_kernels(Library(ANYWHERE, 64), typed, 8) if k.accepts(typed) is None
    ]
    plain = replace(typed, op=replace(typed.op, bias=None))  # type: ignore[type-var]
    with_bias = kernel.weight_block(typed, (0, 8), (0, 8))
    without = kernel.weight_block(plain, (0, 8), (0, 8))
    assert with_bias is not None and without is not None
    assert with_bias.data != without.data
    assert with_bias.data[with_bias.parts["mul"] :] == without.data[without.parts["mul"] :]


def test_folder_without_the_library_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no PULP-NN"):
        find_library(str(tmp_path))


def test_incomplete_copy_names_the_missing_file(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(library, copy)
    (copy / "64bit" / "src" / "pulp_nn_matmul.c").unlink()
    with pytest.raises(DoryError, match=r"lacks src/pulp_nn_matmul\.c"):
        build_app(network(), "gap8", tmp_path / "app", settings={"kernels": f"pulp-nn={copy}"})


def test_unknown_kernels_are_named() -> None:
    with pytest.raises(DoryError, match="there are no kernels 'pulp'"):
        build_app(network(), "gap8", ANYWHERE, settings={"kernels": "pulp"})
