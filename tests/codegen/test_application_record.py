"""What a target is told of an application agrees with its plan and its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.api import Application, OutputFile, hookimpl, ops
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, ToyChip


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Application] = []

    @hookimpl(target=NAME)
    def dory_application(self, application: Application) -> list[OutputFile]:
        self.told.append(application)
        return []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Application]:
    directory = tmp_path_factory.mktemp("record") / "app"
    builder = GraphBuilder((8, 9, 9), name="a*/b")
    trunk = builder.conv(8, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    side = builder.conv(8, ops.Window(kernel=(1, 1)))
    builder.add(trunk, side)
    listener = Listener()
    plugins = Plugins.from_objects(toy=ToyChip(cores=2), listener=listener)
    plan = build_app(builder.graph(), NAME, directory, plugins=plugins)
    [application] = listener.told
    assert application.l1_bytes == plan.levels[0].used
    assert application.l2_bytes == plan.arena_used
    assert application.cores == plan.cores == 2
    return directory, application


def test_layers_say_where_their_tensors_lie_and_how_they_are_called(
    built: tuple[Path, Application],
) -> None:
    directory, application = built
    assert [layer.kind for layer in application.by_index] == ["Conv", "Conv", "Add"]
    code = "".join(path.read_text() for path in sorted(directory.glob("src/*.c")))
    for layer in application.layers:
        assert layer.declaration.removesuffix(";") in code
        assert layer.output.offset + layer.output.size_bytes <= application.l2_bytes
    add = application.by_index[2]
    assert [place.tensor.name for place in add.inputs] == [
        layer.output.tensor.name for layer in application.by_index[:2]
    ]
    [output] = application.outputs
    assert application.producer(output) is add


def test_titles_may_stand_in_a_comment_and_the_readme_is_the_core_s(
    built: tuple[Path, Application],
) -> None:
    directory, application = built
    assert "*/" not in application.title
    written = (directory / "README.md").read_text().splitlines()
    assert application.readme.splitlines()[:3] == written[:3]


def test_without_l3_nothing_moves_there(built: tuple[Path, Application]) -> None:
    _, application = built
    assert (application.uses_l3, application.l3_file, application.l3_read_only_bytes) == (
        False,
        "",
        0,
    )
