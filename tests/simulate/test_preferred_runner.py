"""Which runner an application gets when nobody names one."""

from __future__ import annotations

import pytest

from dory_core.api import hookimpl
from dory_core.driver.application import Choice, find_runner
from dory_core.errors import UsageError
from dory_core.hardware.target import Target, TargetContext
from dory_core.plugins.manager import Plugins
from dory_core.simulate.runner import HOST_RUNNER, Runner
from tests.toy.chip import ToyChip

PLAN = {"target": "toy", "options": {}}


def never(*arguments: object, **options: object) -> None:
    raise AssertionError("nothing is run here")


class Board:
    """Runners of the chip."""

    def __init__(self, *runners: Runner) -> None:
        self.runners = list(runners)

    @hookimpl
    def dory_runners(self, ctx: TargetContext) -> list[Runner]:
        return self.runners


def plugins(*runners: Runner) -> Plugins:
    return Plugins.from_objects(toy=ToyChip(), board=Board(*runners))


def test_the_host_simulation_is_the_default() -> None:
    assert isinstance(ToyChip().dory_targets()[0], Target)
    board = Runner("board", "a board", never)
    assert find_runner(None, PLAN, plugins(board)).runner is HOST_RUNNER
    assert find_runner("board", PLAN, plugins(board)).runner is board


def test_a_target_may_prefer_another_one() -> None:
    board = Runner("board", "a board", never)
    emulator = Runner("emulator", "an emulator", never, preferred=True)
    known = plugins(board, emulator)
    assert find_runner(None, PLAN, known) == Choice(emulator, "target toy prefers it")
    assert find_runner("host", PLAN, known).runner is HOST_RUNNER


def test_what_only_the_host_can_do_runs_on_the_host() -> None:
    emulator = Runner("emulator", "an emulator", never, preferred=True)
    host = find_runner(None, PLAN, plugins(emulator), host=True)
    assert host == Choice(HOST_RUNNER, "emulator has no DMA modes and sanitizers")
    assert find_runner("emulator", PLAN, plugins(emulator), host=True).runner is emulator
    large = {**PLAN, "deployable": False, "reason": "its budget"}
    other = find_runner(None, large, plugins(emulator))
    assert other == Choice(HOST_RUNNER, "emulator cannot run it: its budget")


def test_a_runner_that_lacks_a_tool_says_what_to_install() -> None:
    emulator = Runner("emulator", "an emulator", never, missing="pip install emulator")
    chosen = find_runner(None, PLAN, plugins(emulator))
    assert chosen == Choice(HOST_RUNNER, "emulator cannot run: pip install emulator")


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        find_runner("oven", PLAN, plugins(Runner("board", "a board", never)))
    assert caught.value.hint == "known: host, board"
