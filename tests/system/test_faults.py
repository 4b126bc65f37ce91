"""The simulation guards the generator: each fault seeded into generated code is found.

A correct application of several tiles per layer is compiled once. Every test plants one fault into
the text of one layer, as a wrong generator would write it, and runs the application: it must be
stopped with an error that names layer and tile, or differ in that layer.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dory_core.application import run_application
from dory_core.compiler import CompileOptions, compile_network
from dory_core.errors import VerificationFailed
from dory_core.ir import Window
from dory_core.plan import Plan
from dory_core.plugins import Plugins, load_plugins
from dory_core.simulate.run import DMA_MODES
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import U16, GraphBuilder
from dory_core.testing.integer_onnx import IntegerOnnxBuilder
from dory_core.testing.sanitizers import require_sanitizer

# Layers of the application: dense in several parts of the input, depthwise and pointwise
# convolution, residual. Portable kernels tile it as the faults need it, whatever a chip's own
# kernels prefer.
CONV, DEPTHWISE, POINTWISE, ADD = 0, 1, 2, 4
L1 = 8192
# The layer of another application whose channels travel one by one.
CHANNELS = 1
STREAMED_L2 = 30000


@dataclass(frozen=True)
class Application:
    """A correct application: its directory, its plan."""

    directory: Path
    plan: Plan

    def text(self, layer: int) -> str:
        return self._source(self.directory, layer).read_text()

    def with_text(self, layer: int, text: str, directory: Path) -> Path:
        """Copy the application, with another text of one layer."""
        assert text != self.text(layer)
        shutil.copytree(self.directory, directory, ignore=shutil.ignore_patterns("build"))
        self._source(directory, layer).write_text(text)
        return directory

    @staticmethod
    def _source(directory: Path, layer: int) -> Path:
        return directory / "src" / f"dory_layer_{layer:02d}.c"


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="module")
def app(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Application:
    return application(plugins, tmp_path_factory.mktemp("faults"), {1: L1})


@pytest.fixture(scope="module")
def spread(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Application:
    """A depthwise convolution of 16 bits is computed from CHW: every core loads its channels."""
    builder = GraphBuilder((16, 18, 18), seed=3)
    builder.conv(24, Window(kernel=(1, 1)), output=U16)
    builder.conv(24, Window(kernel=(3, 3), pads=(1, 1, 1, 1)), groups=24)
    directory = tmp_path_factory.mktemp("spread") / "app"
    plan = build_app(builder.graph(), "gap8", directory, budgets={1: L1}, plugins=plugins)
    return Application(directory, plan)


@pytest.fixture(scope="module")
def streamed(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Application:
    """The network of ``app`` in an L2 that holds neither its constants nor two of its tensors."""
    return application(plugins, tmp_path_factory.mktemp("streamed"), {1: L1, 2: STREAMED_L2})


def application(plugins: Plugins, folder: Path, budgets: dict[int, int]) -> Application:
    builder = IntegerOnnxBuilder((16, 18, 18), seed=3).conv(48, 3, pads=1).depthwise(3, pads=1)
    builder.conv(24, 1).conv(24, 3, pads=1).add(builder.layer_values[POINTWISE])
    options = CompileOptions(
        builder.save(folder / "net.onnx"),
        "gap8",
        "nemo",
        folder / "app",
        budgets=budgets,
        settings={"kernels": "portable"},
    )
    plan = compile_network(options, plugins).plan
    for mode in DMA_MODES:
        assert run_application(folder / "app", plugins=plugins, dma=mode).exact
    return Application(folder / "app", plan)


def without(line: str, occurrence: int = 0) -> Callable[[str], str]:
    """Return an edit that removes one of the occurrences of a statement."""
    argument = re.search(r"\((.*)\);", line)
    rest = f"(void)({argument[1]});" if argument is not None and argument[1] else ";"

    def edit(text: str) -> str:
        parts = text.split(line)
        assert len(parts) > occurrence + 1
        return line.join(parts[: occurrence + 1]) + rest + line.join(parts[occurrence + 1 :])

    return edit


def replaced(pattern: str, new: str, count: int = 1) -> Callable[[str], str]:
    """Return an edit that replaces the first ``count`` matches of a pattern (0: all)."""

    def edit(text: str) -> str:
        text, made = re.subn(pattern, new, text, count=count)
        assert made >= max(count, 1)
        return text

    return edit


def more(pattern: str, by: int) -> Callable[[str], str]:
    """Return an edit that adds ``by`` to the last number of the first match."""

    def edit(text: str) -> str:
        match = re.search(pattern, text)
        assert match is not None
        start, end = match.span(match.lastindex or 0)
        return text[:start] + str(int(text[start:end]) + by) + text[end:]

    return edit


def outcome(
    directory: Path, plugins: Plugins, dma: str, sanitize: str | None = None, repeat: int = 1
) -> str:
    """Return what running a faulty application says."""
    try:
        result = run_application(
            directory, plugins=plugins, dma=dma, sanitize=sanitize, repeat=repeat
        )
    except VerificationFailed as error:
        return error.message
    wrong = result.first_difference
    return "nothing was found" if wrong is None else f"layer {wrong[1].index} '{wrong[1].name}'"


TRANSFERS: dict[str, tuple[int, Callable[[str], str], str]] = {
    # fault: (layer, edit, what the message has to say)
    "input_is_not_waited_for": (
        CONV,
        without("dory_dma_wait(x_ticket);"),
        r"tile 0: tile reads byte \d+ of L1 while the transfer .* writes it",
    ),
    "weights_are_not_waited_for": (
        POINTWISE,
        replaced(
            r"dory_dma_wait\((dory_dma_start\(DORY_LOAD_ROW\(l1 \+ L1_W[^;]*)\);", r"(void)\1;"
        ),
        r"tile 0: tile reads byte \d+ of L1 while",
    ),
    "second_operand_is_not_waited_for": (
        ADD,
        without("dory_dma_wait(x2_ticket);"),
        r"tile 0: tile reads byte \d+ of L1 while",
    ),
    "output_buffer_is_used_before_it_is_stored": (
        CONV,
        without("DORY_WAIT(y_ticket[y_slot]);"),
        r"tile \d+: (tile writes byte \d+ of L1 while|.* in flight|.* never waited for)",
    ),
    "last_store_is_not_waited_for": (
        CONV,
        without("DORY_WAIT(y_ticket[1]);"),
        r"tile \d+: the transfer .* was never waited for",
    ),
    "next_input_goes_where_the_current_one_is_read": (
        CONV,
        replaced(r"\(\(n \+ 1\) % 2\) \* L1_X_STEP", "(n % 2) * L1_X_STEP"),
        r"tile 0: tile reads byte \d+ of L1 while",
    ),
    "input_slot_is_not_changed": (
        CONV,
        replaced(r"L1_X \+ \(n % 2\) \* L1_X_STEP", "L1_X", 0),
        r"tile \d+: ",
    ),
    "weights_stay_those_of_the_first_tile": (
        CONV,
        replaced(r"n \+ 1 < tiles\)( \{[^}]*w_ticket =)", r"0)\1"),
        "layer 0",
    ),
    "input_lies_on_the_weights": (
        CONV,
        replaced(r"load_w\(l1 \+ L1_W", "load_w(l1 + L1_X", 0),
        r"tile 0|layer 0",
    ),
    "output_lies_on_the_input": (
        CONV,
        replaced(r"L1_Y = \d+", "L1_Y = 0"),
        r"tile \d+: |layer 0",
    ),
    "output_leaves_l1": (
        CONV,
        replaced(r"L1_Y = \d+", f"L1_Y = {L1 - 8}"),
        r"tile \d+: (tile writes \d+ bytes outside L1|core \d touches L1 \d+ bytes behind its end)",
    ),
    "input_rows_are_a_byte_too_far_apart": (
        CONV,
        more(r"DORY_LOAD_BOX\([^;]*?, (\d+), \d+\)\);", 1),
        "layer 0",
    ),
    "output_rows_are_a_byte_too_close": (
        CONV,
        more(r"DORY_STORE_BOX\([^;]*?, \d+, (\d+)\)\);", -1),
        "layer 0",
    ),
    "output_is_stored_beside_its_place": (
        POINTWISE,
        more(r"DORY_STORE_ROWS\(l2 \+ (\d+)", 1),
        "layer 2",
    ),
    "a_tile_begins_a_row_late": (
        CONV,
        more(r"l2 \+ \(t\.h == 2 \? (\d+) :", 1),
        "layer 0",
    ),
    "a_tile_loads_a_row_less": (
        CONV,
        more(r"t\.h == 2 \? (\d+) : t\.h \+ 7, 16, 288", -1),
        "layer 0",
    ),
    "padding_is_counted_at_the_wrong_side": (
        CONV,
        replaced(r"\.pad_top = \(t\.h == 0", ".pad_top = (t.h == 2"),
        "layer 0",
    ),
    "last_tile_is_left_out": (
        CONV,
        more(r"tiles = (\d+)", -1),
        "layer 0|never waited for",
    ),
    "constants_are_those_of_other_channels": (
        DEPTHWISE,
        replaced(r"dory_weights_01 \+ t\.o ", "dory_weights_01 + (t.o ^ 1u) "),
        "layer 1",
    ),
}


@pytest.mark.parametrize("fault", TRANSFERS)
def test_wrong_transfer_or_buffer_is_found_in_every_dma_mode(
    fault: str, app: Application, plugins: Plugins, tmp_path: Path
) -> None:
    layer, edit, words = TRANSFERS[fault]
    directory = app.with_text(layer, edit(app.text(layer)), tmp_path / "app")
    for dma in DMA_MODES:
        message = outcome(directory, plugins, dma)
        assert f"layer {layer} '" in message, f"dma {dma}: {message}"
        assert re.search(words, message), f"dma {dma}: {message}"


SPREAD: dict[str, tuple[Callable[[str], str], str]] = {
    "cores_do_not_wait_for_their_channels": (
        without("dory_dma_wait(x_ticket);"),
        r"tile 0: tile reads byte \d+ of L1 while",
    ),
    "input_is_loaded_from_beside_its_place": (
        more(r"l2 \+ (\d+) \+ t\.h \* 7776", 1),
        "layer 1",
    ),
    "first_channel_is_left_out": (
        replaced(r"c = core;", "c = core + 1u;"),
        "layer 1",
    ),
    "channels_have_tickets_of_their_own": (
        replaced(r"dory_dma_join\(ticket,", "dory_dma_join(DORY_NO_TICKET,"),
        "layer 1 .*(never waited for|tickets open)",
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
    "before_the_layer": ("spread", CHANNELS, 0),
    "between_arrival_and_computation": ("app", CONV, 1),
    "between_arrival_and_computation_of_channels": ("spread", CHANNELS, 1),
    "between_computation_and_store": ("app", CONV, 2),
    "between_computation_and_store_of_channels": ("spread", CHANNELS, 2),
}


@pytest.mark.sanitizer
@pytest.mark.parametrize("place", BARRIERS)
def test_missing_barrier_is_a_race(
    place: str, plugins: Plugins, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    require_sanitizer("thread")
    which, layer, occurrence = BARRIERS[place]
    app: Application = request.getfixturevalue(which)
    text = without("dory_barrier();", occurrence)(app.text(layer))
    directory = app.with_text(layer, text, tmp_path / "app")
    # A lucky order of the threads hides a race from the sanitizer, on a busy machine now and then.
    message = outcome(directory, plugins, "early", "thread", repeat=20)
    assert "nothing was found" not in message
    named = (layer - 1, layer) if place == "before_the_layer" else (layer,)
    assert any(f"layer {n} '" in message for n in named), message


STREAMED_FAULTS = {
    # fault: (what to look for, what to write instead)
    "not_waited_for": (r"DORY_EXT_WAIT\(\d+\), ", ""),
    "from_beside_its_place": (
        r"DORY_EXT_LOAD\((\d+, \d+), (\d+), (\d+)\)",
        r"DORY_EXT_LOAD(\1, \2 + 8, \3)",
    ),
    "a_word_short": (
        r"DORY_EXT_(\w+)\((\d+, \d+), (\d+), (\d+)\)",
        r"DORY_EXT_\1(\2, \3, \4 - 4)",
    ),
}


@pytest.mark.parametrize("fault", STREAMED_FAULTS)
def test_each_wrong_transfer_from_or_to_l3_is_found(
    fault: str, streamed: Application, plugins: Plugins, tmp_path: Path
) -> None:
    pattern, new = STREAMED_FAULTS[fault]
    network = streamed.directory / "src" / "network.c"
    text = network.read_text()
    places = list(re.finditer(pattern, text))
    assert len(places) > 5
    for number, place in enumerate(places):
        directory = tmp_path / f"app_{number}"
        shutil.copytree(streamed.directory, directory, ignore=shutil.ignore_patterns("build"))
        edited = text[: place.start()] + place.expand(new) + text[place.end() :]
        (directory / "src" / "network.c").write_text(edited)
        for dma in DMA_MODES:
            message = outcome(directory, plugins, dma)
            line = text[place.start() : text.index("\n", place.start())]
            assert "layer " in message, f"dma {dma}: {line}: {message}"


def test_the_application_has_what_the_faults_are_about(
    app: Application, spread: Application
) -> None:
    """Several tiles along several axes, both forms of double buffers, spread loads."""
    steps = app.plan.steps
    assert all(step.schedule.count > 2 for step in steps)
    conv = steps[CONV].schedule
    assert (conv.buffering.x, conv.buffering.y) == (2, 2)
    assert min(len(conv.h), len(conv.w), len(conv.c_out)) > 1
    assert spread.plan.steps[CHANNELS].inputs[0].form == "channels"
    assert spread.plan.steps[CHANNELS].schedule.count > 1
