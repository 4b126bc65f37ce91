"""The simulation finds faults in the transfers of channels, which every core of GAP8 issues."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dory_core.ir import Window
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.simulate.run import DMA_MODES
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import U16, GraphBuilder
from dory_core.testing.sanitizers import require_sanitizer
from tests.networks.faults import Application, more, outcome, replaced, without

L1 = 8192
# The layer whose channels travel one by one.
CHANNELS = 1


pytestmark = pytest.mark.usefixtures("tiles_of_the_objective")


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="module")
def spread(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Application:
    """A depthwise convolution of 16 bits is computed from CHW: every core loads its channels."""
    builder = GraphBuilder((16, 18, 18), seed=3)
    builder.conv(24, Window(kernel=(1, 1)), output=U16)
    builder.conv(24, Window(kernel=(3, 3), pads=(1, 1, 1, 1)), groups=24)
    directory = tmp_path_factory.mktemp("spread") / "app"
    plan = build_app(builder.graph(), "gap8", directory, budgets={1: L1}, plugins=plugins)
    return Application(directory, plan)


SPREAD: dict[str, tuple[Callable[[str], str], str]] = {
    "cores_do_not_wait_for_their_channels": (
        without("DORY_WAIT(x_ticket);"),
        r"tile 0: tile reads byte \d+ of L1 while",
    ),
    "input_is_loaded_from_beside_its_place": (
        more(r"l2 \+ (\d+) \+ t\.h \*", 1),
        "layer 1",
    ),
    "first_channel_is_left_out": (
        replaced(r"c = core;", "c = core + 1u;"),
        "layer 1",
    ),
    "channels_have_tickets_of_their_own": (
        replaced(r"dory_dma_join\(ticket,", "dory_dma_join(DORY_NO_TICKET,"),
        "layer 1 .*((never|not yet) waited for|tickets open)",
    ),
}


@pytest.mark.parametrize("fault", SPREAD)
def test_wrong_transfer_of_channels_is_found_in_every_dma_mode(
    fault: str, spread: Application, plugins: Plugins, tmp_path: Path
) -> None:
    edit, words = SPREAD[fault]
    text = edit(spread.text(CHANNELS))
    directory = spread.with_text(CHANNELS, text, tmp_path / "app")
    for dma in DMA_MODES:
        message = outcome(directory, plugins, dma)
        assert f"layer {CHANNELS} '" in message, f"dma {dma}: {message}"
        assert re.search(words, message), f"dma {dma}: {message}"


BARRIERS = {
    "before_the_layer": 0,
    "between_arrival_and_computation_of_channels": 1,
    "between_computation_and_store_of_channels": 2,
}


@pytest.mark.sanitizer
@pytest.mark.parametrize("place", BARRIERS)
def test_missing_barrier_is_a_race(
    place: str, spread: Application, plugins: Plugins, tmp_path: Path
) -> None:
    require_sanitizer("thread")
    text = without("dory_barrier();", BARRIERS[place])(spread.text(CHANNELS))
    directory = spread.with_text(CHANNELS, text, tmp_path / "app")
    # A lucky order of the threads hides a race from the sanitizer, on a busy machine now and then.
    message = outcome(directory, plugins, "early", "thread", repeat=20)
    assert "nothing was found" not in message
    named = (CHANNELS - 1, CHANNELS) if place == "before_the_layer" else (CHANNELS,)
    assert any(f"layer {n} '" in message for n in named), message


def test_the_application_has_what_the_faults_are_about(spread: Application) -> None:
    step = spread.plan.steps[CHANNELS]
    assert step.inputs[0].form == "channels"
    assert step.schedule.count > 1


@pytest.mark.parametrize("what", ["input", "output"])
def test_one_byte_too_many_at_the_border_is_a_fault(
    what: str, plugins: Plugins, tmp_path: Path
) -> None:
    """Sizes of inputs and outputs that are odd end at a guard page, too."""
    builder = GraphBuilder((3, 5, 5))
    builder.conv(5, Window(kernel=(1, 1)))
    build_app(builder.graph(), "gap8", tmp_path / "app", plugins=plugins)
    path = tmp_path / "app" / "src" / "network.c"
    size = {"input": 75, "output": 125}[what]
    text = path.read_text()
    wrong = re.sub(rf"(copy_bytes\(.*{what}.*, ){size}\)", rf"\g<1>{size + 1})", text)
    assert wrong != text
    path.write_text(wrong)
    assert f"touches the {what} 1 bytes behind" in outcome(tmp_path / "app", plugins, "early")
