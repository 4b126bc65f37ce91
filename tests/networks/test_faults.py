"""The simulation guards the generator: each fault seeded into generated code is found.

A correct application of several tiles per layer is compiled once. Every test plants one fault into
the text of one layer, as a wrong generator would write it, and runs the application: it must be
stopped with an error that names layer and tile, or differ in that layer.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import Plugins
from dory_core.simulate.run import DMA_MODES
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.sanitizers import require_sanitizer
from tests.networks.faults import Application, Fault, more, outcome, replaced, without
from tests.toy.chip import NAME, even_rows, three_levels
from tests.toy.network import AROUND, POINT, save

pytestmark = pytest.mark.usefixtures("tiles_of_the_objective")

# Layers of the application: dense in several parts of the input, depthwise and pointwise
# convolution, residual.
CONV, DEPTHWISE, POINTWISE, ADD = 0, 1, 2, 4
L1 = 5980
STREAMED_L2 = 30000


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return replace(three_levels(cores=8), terms=even_rows).plugins()


@pytest.fixture(scope="module")
def app(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Application:
    return application(plugins, tmp_path_factory.mktemp("faults"), {1: L1})


@pytest.fixture(scope="module")
def streamed(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Application:
    """The network of ``app`` in an L2 that holds neither its constants nor two of its tensors."""
    return application(plugins, tmp_path_factory.mktemp("streamed"), {1: L1, 2: STREAMED_L2})


def application(plugins: Plugins, folder: Path, budgets: dict[int, int]) -> Application:
    builder = GraphBuilder((16, 18, 18), seed=3)
    builder.conv(48, AROUND)
    builder.conv(48, AROUND, groups=48)
    pointwise = builder.conv(24, POINT)
    builder.add(builder.conv(24, AROUND), pointwise)
    options = CompileOptions(
        save(builder.graph(), folder),
        NAME,
        "plain",
        folder / "app",
        budgets=budgets,
    )
    plan = compile_network(options, plugins).plan
    for mode in DMA_MODES:
        assert run_application(folder / "app", plugins=plugins, dma=mode).exact
    return Application(folder / "app", plan)


TRANSFERS: dict[str, Fault] = {
    "input_is_not_waited_for": (
        CONV,
        without("dory_dma_wait(x_ticket);"),
        r"tile 0: tile reads byte \d+ of L1 while the transfer .* writes it",
    ),
    "weights_are_not_waited_for": (
        CONV,
        without("DORY_WAIT(w_ticket);"),
        r"tile 0: tile reads byte \d+ of L1 while",
    ),
    "second_operand_is_not_waited_for": (
        ADD,
        without("dory_dma_wait(x2_ticket);"),
        r"tile 0: tile reads byte \d+ of L1 while",
    ),
    "output_buffer_is_used_before_it_is_stored": (
        CONV,
        without("DORY_WAIT(y_ticket[n % 2]);"),
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
        "layer 0",
    ),
    "weights_stay_those_of_the_first_tile": (
        CONV,
        replaced(r"n \+ 1 < tiles && next\.o != t\.o\)", "0)"),
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
        r"tile 0: tile writes byte 0 of L1, which it reads",
    ),
    "output_leaves_l1": (
        CONV,
        replaced(r"L1_Y = \d+", f"L1_Y = {L1 - 8}"),
        r"tile \d+: (tile writes \d+ bytes outside L1|core \d touches L1 \d+ bytes behind its end)",
    ),
    "input_rows_are_a_byte_too_far_apart": (
        CONV,
        more(r"DORY_LOAD_ROWS\([^;]*?, (\d+)\)\);", 1),
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
        replaced(r"l2 \+ x_row\[t\.h\]", "l2 + (x_row[t.h] + 1)"),
        "layer 0",
    ),
    "a_tile_loads_a_row_less": (
        CONV,
        replaced(r"x_h\[t\.h\], 288", "x_h[t.h] - 1, 288"),
        "layer 0",
    ),
    "padding_is_counted_at_the_wrong_side": (
        CONV,
        replaced(r"pad_top = t\.h == 0", "pad_top = t.h == 2"),
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


@pytest.mark.sample(3)
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


def test_a_load_into_the_buffer_in_use_is_found_where_one_core_computes(tmp_path: Path) -> None:
    """No barrier tells there when the kernel has ended: marks stand right before it."""
    plugins = replace(three_levels(cores=1), terms=even_rows).plugins()
    alone = application(plugins, tmp_path, {1: L1})
    edit = replaced(r"\(\(n \+ 1\) % 2\) \* L1_W_STEP", "(n % 2) * L1_W_STEP")
    directory = alone.with_text(CONV, edit(alone.text(CONV)), tmp_path / "edited")
    for dma in DMA_MODES:
        message = outcome(directory, plugins, dma)
        assert re.search(r"tile 0: tile reads byte \d+ of L1 while", message), message


BARRIERS = {
    "between_arrival_and_computation": (CONV, 1),
    "between_computation_and_store": (CONV, 2),
}


@pytest.mark.sanitizer
@pytest.mark.parametrize("place", BARRIERS)
def test_missing_barrier_is_a_race(
    place: str, app: Application, plugins: Plugins, tmp_path: Path
) -> None:
    require_sanitizer("thread")
    layer, occurrence = BARRIERS[place]
    text = without("dory_barrier();", occurrence)(app.text(layer))
    directory = app.with_text(layer, text, tmp_path / "app")
    # A lucky order of the threads hides a race from the sanitizer, on a busy machine now and then.
    message = outcome(directory, plugins, "early", "thread", repeat=20)
    assert "nothing was found" not in message
    assert f"layer {layer} '" in message, message


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


@pytest.mark.sample(3)
@pytest.mark.parametrize("fault", STREAMED_FAULTS)
def test_each_wrong_transfer_from_or_to_l3_is_found(
    fault: str, streamed: Application, plugins: Plugins, tmp_path: Path
) -> None:
    pattern, new = STREAMED_FAULTS[fault]
    network = streamed.directory / "src" / "network.c"
    text = network.read_text()
    places = list(re.finditer(pattern, text))
    assert len(places) >= 5
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
    app: Application,
) -> None:
    """Several tiles along several axes, both forms of double buffers."""
    steps = app.plan.steps
    assert all(step.schedule.count > 2 for step in steps)
    conv = steps[CONV].schedule
    assert (conv.buffering.x, conv.buffering.y) == (2, 2)
    assert min(len(conv.h), len(conv.w), len(conv.c_out)) > 1
