"""What runs check of the network's own function: refusals, and its first and last barriers.

Every run hands wrong arguments to the network, which refuses each of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.driver.application import run_application
from dory_core.errors import VerificationFailed
from dory_core.ir import Window
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.sanitizers import require_sanitizer
from tests.toy.chip import NAME, three_levels

PLUGINS = Plugins.from_objects(toy=three_levels())

WRONG = {
    "io == NULL || ": "",
    " || io->output == NULL": "",
    "io->l1_size < DORY": "io->l1_size <= DORY",
    "io->l2_size < DORY": "io->l2_size + 1 < DORY",
    "% DORY_ARENA_ALIGN != 0 || ": "% DORY_ARENA_ALIGN != 0 && ",
    "return DORY_EL1;": "return DORY_EL2;",
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = GraphBuilder((4, 6, 6))
    builder.conv(8, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    path = tmp_path_factory.mktemp("refusals") / "app"
    build_app(builder.graph(), NAME, path, plugins=PLUGINS)
    assert run_application(path, plugins=PLUGINS).exact
    return path


@pytest.mark.parametrize("right", WRONG)
def test_network_that_does_not_refuse_is_found(right: str, app: Path) -> None:
    source = app / "src/network.c"
    text = source.read_text()
    assert text.count(right) == 1
    source.write_text(text.replace(right, WRONG[right]))
    try:
        with pytest.raises(
            VerificationFailed, match=r"dory_network_run returns|SIGSEGV|touches memory"
        ):
            run_application(app, plugins=PLUGINS)
    finally:
        source.write_text(text)


@pytest.mark.sanitizer
def test_cores_that_read_the_input_too_early_are_found(app: Path) -> None:
    """Core 0 may write the input just before it calls the network."""
    require_sanitizer("thread")
    source = app / "src/network.c"
    text = source.read_text()
    first = "  dory_barrier(); /* core 0 has written the input */\n"
    assert text.count(first) == 1
    source.write_text(text.replace(first, ""))
    try:
        assert_race_is_found(app)
    finally:
        source.write_text(text)


def assert_race_is_found(app: Path) -> None:
    """Run until ThreadSanitizer sees both cores at it: threads may run one after the other."""
    for _ in range(5):
        try:
            run_application(app, plugins=PLUGINS, sanitize="thread")
        except VerificationFailed as failed:
            assert "data race" in failed.message
            return
    pytest.fail("no data race was found")


@pytest.mark.sanitizer
@pytest.mark.parametrize("last", [True, False], ids=["last", "before the last copy"])
def test_cores_that_read_the_output_too_early_are_found(last: bool, app: Path) -> None:
    """A core that returns finds the whole output, also where the copy is of few bytes."""
    require_sanitizer("thread")
    source = app / "src/network.c"
    text = source.read_text()
    parts = text.split("  dory_barrier();\n")
    at = -1 if last else -2
    joined = "  dory_barrier();\n".join(parts[:at]) + "  dory_barrier();\n".join(parts[at:])
    source.write_text(joined)
    try:
        assert_race_is_found(app)
    finally:
        source.write_text(text)
    assert run_application(app, plugins=PLUGINS, sanitize="thread").exact
