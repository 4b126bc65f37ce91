"""Pages stay small: what a layer adds, and every network of the collection."""

from __future__ import annotations

from pathlib import Path

import pytest
from dory_report.application.page import report_page

from dory_core.api import DoesNotFit, NotSupported, UsageError, ops
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import cli, load_plugins, read_plan
from tests import nets
from tests.toy.chip import NAME, ToyChip

LIMIT_BYTES = 400_000
EMPTY_BYTES = 30_000
LAYER_BYTES = 6_000


def test_a_layer_adds_a_few_kilobytes(tmp_path: Path) -> None:
    builder = GraphBuilder((16, 16, 16), name="deep " + "long name " * 20)
    for _ in range(20):
        builder.conv(16, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    graph = builder.graph()
    build_app(graph, NAME, tmp_path / "app", plugins=ToyChip().plugins(), budgets={1: 6000})
    plan = read_plan(tmp_path / "app")
    tiles = sum(layer["tiles"]["count"] for layer in plan["layers"])
    assert tiles > 100
    page = report_page(plan, cli.read_timeline(tmp_path / "app"))
    assert len(page.encode()) < EMPTY_BYTES + 20 * LAYER_BYTES


def _files() -> list[Path]:
    """Return every network of the collections."""
    return [
        *(nets.net(name).onnx for name in nets.net_names()),
        *(nets.tflite_net(name).path for name in nets.tflite_names()),
        *(nets.onnx_net(name).folder / "net.onnx" for name in nets.onnx_names("")),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gap8", "stm32h7", "diana"])
def test_the_page_of_every_network_is_small(target: str) -> None:
    files = _files()
    if not files:
        pytest.skip("the networks are not there: set DORY_NETS")
    plugins, sizes = load_plugins(), dict[str, int]()
    for file in files:
        try:
            frontend = cli.frontend_name(None, file, plugins)
            options = cli.compile_options(file, target, plugins, frontend=frontend, plan_only=True)
            plan = cli.plan_only(options, plugins)
        except (DoesNotFit, NotSupported, UsageError):
            continue
        page = report_page(plan.to_json(), plan.timeline_json())
        sizes[file.parent.name] = len(page.encode())
    assert len(sizes) > 20
    large = {name: size for name, size in sizes.items() if size >= LIMIT_BYTES}
    assert not large
