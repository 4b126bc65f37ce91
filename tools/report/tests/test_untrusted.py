"""Pages of plans that somebody edited: a plan that is accepted has a page."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dory_report.application.page import report_page
from dory_report.application.trace import trace_bytes

from dory_core.api import UsageError
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import cli, read_plan

VALUES = (None, 0, 1 << 63, 1e29, "", "</script>", [], {})


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    members = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        members = list(enumerate(value[:2]))
    for key, member in members:
        yield from places(member, (*place, key))


@pytest.mark.parametrize(
    "samples", [25, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_an_edited_plan_is_refused_or_has_a_page(samples: int | None, tmp_path: Path) -> None:
    builder = GraphBuilder((8, 6, 6))
    builder.linear(10)
    build_app(builder.graph(), "gap8", tmp_path / "app")
    text = (tmp_path / "app/plan.json").read_text()
    timeline = cli.read_timeline(tmp_path / "app")
    every = [(place, value) for place in places(json.loads(text)) for value in VALUES]
    accepted = 0
    for place, value in random.Random(1).sample(every, samples or len(every)):
        plan = json.loads(text)
        parent = plan
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = value
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        try:
            found = read_plan(tmp_path)
        except UsageError:
            continue
        accepted += 1
        assert report_page(found, timeline) and trace_bytes(found, timeline)
    assert accepted


def test_a_layer_that_never_runs_is_refused(tmp_path: Path) -> None:
    builder = GraphBuilder((8, 6, 6))
    builder.linear(10)
    build_app(builder.graph(), "gap8", tmp_path / "app")
    plan = json.loads((tmp_path / "app/plan.json").read_text())
    plan["layers"][0]["positions"] = []
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(UsageError, match="positions must contain at least 1"):
        read_plan(tmp_path)
