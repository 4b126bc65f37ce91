"""plan.json and timeline.json may say anything: it is refused, or it can be printed."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dory_core.cli.tables.plan import print_plan
from dory_core.driver.application import find_runner, read_plan, read_timeline
from dory_core.errors import DoryError, UsageError
from dory_core.plan import PLAN_VERSION, schema
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.cases import network_cases
from tests.toy.chip import NAME, ToyChip

GRAPH = next(case for case in network_cases() if case.name == "residual").build()
MISSING = object()
VALUES = (
    MISSING,
    None,
    True,
    -1,
    0,
    10**30,
    1e300,
    float("nan"),
    "",
    "x\ud800",
    [],
    {},
    [[]],
    {"a": 1},
)
Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("schema") / "app"
    build_app(GRAPH, NAME, directory, budgets={1: 6000})
    return directory


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of everything in a document; of a list its first two elements."""
    yield place
    if isinstance(value, dict):
        for key, member in value.items():
            yield from places(member, (*place, key))
    elif isinstance(value, list):
        for index, member in enumerate(value[:2]):
            yield from places(member, (*place, index))


def changed(document: Any, place: Place, value: Any) -> Any:
    """Return a document with another value at a place."""
    if not place:
        return None if value is MISSING else value
    document = copy.deepcopy(document)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    if value is MISSING:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return document


def survive(folder: Path, plan: Any) -> bool:
    """Return whether a plan is accepted; then it is printed and has a runner, or a DoryError."""
    (folder / "plan.json").write_text(json.dumps(plan))
    try:
        found = read_plan(folder)
    except UsageError as error:
        assert "plan.json" in error.message
        return False
    print_plan(found, Console(file=io.StringIO(), width=200), details=True)
    with suppress(DoryError):
        find_runner(None, found, Plugins.from_objects(toy=ToyChip()))
    return True


def test_every_part_of_a_plan_is_checked(app: Path, tmp_path: Path) -> None:
    """A sample of all changes; the next test makes all of them."""
    plan = json.loads((app / "plan.json").read_text())
    assert survive(tmp_path, plan)
    choices = [(place, value) for place in places(plan) for value in VALUES]
    accepted = sum(
        survive(tmp_path, changed(plan, *choice)) for choice in random.Random(0).sample(choices, 60)
    )
    assert accepted < 30


@pytest.mark.slow
def test_every_change_of_a_plan_is_refused_or_printed(app: Path, tmp_path: Path) -> None:
    plan = json.loads((app / "plan.json").read_text())
    for place in places(plan):
        for value in VALUES:
            survive(tmp_path, changed(plan, place, value))


def test_every_change_of_a_timeline_is_refused_or_has_its_names(app: Path, tmp_path: Path) -> None:
    timeline = json.loads((app / "timeline.json").read_text())
    accepted = 0
    for place in places({**timeline, "events": timeline["events"][:3]}):
        for value in VALUES:
            (tmp_path / "timeline.json").write_text(json.dumps(changed(timeline, place, value)))
            try:
                found = read_timeline(tmp_path)
            except UsageError:
                continue
            accepted += 1
            for lane, name, layer, *_ in found["events"]:
                assert found["lanes"][lane] is not None and found["names"][name] is not None
                assert layer == -1 or found["layers"][layer] is not None
    assert accepted


@pytest.mark.parametrize(
    "text", [b"\xff\xfe", b"[" * 100_000, b'{"a": 1e', b"9" * 10_000, b'{"version": NaN}']
)
def test_what_is_no_json_is_damaged(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(text)
    with pytest.raises(UsageError, match=r"is damaged|not written by dory"):
        read_plan(tmp_path)


@pytest.mark.parametrize("version", [1, PLAN_VERSION + 1, None, True, "2", [2] * 1000])
def test_an_application_of_another_version_is_no_damaged_one(
    version: Any, app: Path, tmp_path: Path
) -> None:
    for name, read in (("plan.json", read_plan), ("timeline.json", read_timeline)):
        document = json.loads((app / name).read_text()) | {"version": version}
        document.pop("layers")  # no matter what other versions had
        (tmp_path / name).write_text(json.dumps(document))
        with pytest.raises(UsageError, match=r"made by another version of dory") as caught:
            read(tmp_path)
        assert caught.value.hint == "compile the network again"
        assert name in caught.value.message and len(caught.value.message) < 400


def test_a_change_of_the_documents_raises_their_version() -> None:
    schemas = json.dumps([schema._DEFINITIONS, schema.PLAN, schema.TIMELINE], sort_keys=True)
    digest = hashlib.sha256(schemas.encode()).hexdigest()[:16]
    assert (PLAN_VERSION, digest) == (13, "3c33865819b215e0"), (
        "raise PLAN_VERSION with the documents"
    )


def test_a_message_says_where_and_what(app: Path, tmp_path: Path) -> None:
    plan = json.loads((app / "plan.json").read_text())
    plan["layers"][1]["macs"] = "many"
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(UsageError, match=r"is damaged: layers\[1\].macs must be integer"):
        read_plan(tmp_path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("l3_tiles",), 0),
        (("l3_tiles",), 1 << 63),
        (("estimate", "macs_per_cycle"), None),
    ],
)
def test_what_no_layer_has_is_damaged(place: Place, value: Any, app: Path, tmp_path: Path) -> None:
    plan = json.loads((app / "plan.json").read_text())
    assert survive(tmp_path, plan)
    assert not survive(tmp_path, changed(plan, ("layers", 0, *place), value))
