"""A target without a fallback, and a layer that none of its kernels takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.testing.graphs import GraphBuilder
from tests.cli.command_line import dory
from tests.plugins.distributions import GOOD_TARGET, Site
from tests.toy.network import AROUND, POINT, save

NO_GROUPS = (
    GOOD_TARGET.replace("{name}", "lone")
    + """
@hookimpl
def dory_kernels(ctx, layer):
    if ctx.name != "lone":
        return []
    from dory_core.kernels.kernel import Rejection
    from dory_core.kernels import portable_kernels
    conv, *others = portable_kernels()

    class Dense(type(conv)):
        __slots__ = ()
        name = "lone_conv"
        def accepts(self, layer):
            if getattr(layer.op, "groups", 1) > 1:
                return Rejection("the chip has no grouped convolution")
            return super().accepts(layer)

    return [Dense(), *others]
"""
)


@pytest.fixture
def grouped(tmp_path: Path) -> Path:
    """A network whose second layer is a grouped convolution, neither dense nor depthwise."""
    builder = GraphBuilder((8, 6, 6), seed=1)
    builder.conv(8, POINT)
    builder.conv(8, AROUND, groups=2)
    builder.linear(4)
    return save(builder.graph(), tmp_path)


def test_grouped_convolution_without_a_kernel_names_node_and_reason(
    grouped: Path, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    site = Site(tmp_path / "site")
    site.install("lone-chip", "lone", NO_GROUPS)
    options = ("--target", "lone", "--frontend", "plain", str(grouped))
    outcome = site.dory(*options, "-o", str(tmp_path / "app"))
    assert (outcome.status, outcome.stdout) == (3, ""), outcome.stderr
    assert "Conv 'Conv_" in outcome.stderr
    assert "lone_conv: the chip has no grouped convolution" in outcome.stderr
    assert "hint:" in outcome.stderr
    assert not (tmp_path / "app").exists()
    check = site.dory("check", *options, "--json")
    assert check.status == 3
    assert (check.json["supported"], check.json["fits"]) == (False, None)
    kernels = [layer["kernel"] for layer in check.json["layers"]]
    assert kernels == ["lone_conv", None, "dory_portable_linear"]


def test_grouped_convolution_runs_where_portable_kernels_are_the_fallback(
    pipeline: tuple[str, ...], grouped: Path, tmp_path: Path
) -> None:
    outcome = dory(*pipeline, grouped, "-o", tmp_path / "app", "--json")
    assert outcome.status == 0, outcome.stderr
    assert [layer["kernel"] for layer in outcome.json["layers"]][1] == "dory_portable_conv"
    assert dory("run", tmp_path / "app").status == 0
