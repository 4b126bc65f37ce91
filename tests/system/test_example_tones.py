"""The bundled .tflite network: exact on every target, and right about its golden's inputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import load_plugins
from dory_core.testing.apps import assert_exact
from tests.cli.command_line import ROOT

TONES = ROOT / "examples" / "tones"
CLASSES = 4


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", ["diana", "gap8", "stm32h7"])
def test_every_tensor_is_that_of_tensorflow_lite_micro(target: str, tmp_path: Path) -> None:
    plugins = load_plugins()
    options = CompileOptions(
        TONES / "net.tflite",
        target,
        "tflite",
        tmp_path / "app",
        golden=(TONES / "golden.npz",),
    )
    result = compile_network(options, plugins)
    assert result.golden_exact
    assert result.graph.reference == "tflm"
    assert_exact(tmp_path / "app", plugins=plugins)


def test_golden_has_an_input_of_every_class() -> None:
    with np.load(TONES / "golden.npz") as golden:
        last = max(int(key.split("__t")[1]) for key in golden if key.startswith("run0__t"))
        found = [int(np.argmax(golden[f"run{n}__t{last}"])) for n in range(CLASSES)]
    assert found == list(range(CLASSES))


def test_l1_that_an_application_reserves_is_little_more_than_what_is_live(tmp_path: Path) -> None:
    """15,360 bytes are live at once; of equally fast plans the lowest one is taken."""
    plugins = load_plugins()
    compile_network(
        CompileOptions(TONES / "net.tflite", "gap8", "tflite", tmp_path / "app"), plugins
    )
    plan = json.loads((tmp_path / "app" / "plan.json").read_text(encoding="utf-8"))
    used = plan["memory"]["L1"]["used"]
    assert 15_360 <= used < 17_100
    header = (tmp_path / "app" / "inc" / "dory_network.h").read_text(encoding="utf-8")
    assert f"#define DORY_L1_BYTES {used}u" in header
    assert_exact(tmp_path / "app", plugins=plugins)
