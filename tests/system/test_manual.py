"""The commands that README and manual show work as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from dory_deeploy.testing import DeeployBuilder
from dory_nemo.testing import NemoBuilder
from dory_onnx.testing import OnnxBuilder
from dory_qdq.testing.networks import random_network

from tests.cli.command_line import EXAMPLE, ROOT, dory
from tests.cli.test_manual import PAGES, commands

TONES = ROOT / "examples" / "tones"
# The plugins of these pages are installed by none of ours: tests/system/test_wheels.py runs them.
APART = [ROOT / "examples" / name / "README.md" for name in ("vendor_target", "vendor_frontend")]
COMMANDS = ("compile", "run", "check", "compare", "report", "quantize", "golden", "frontends")


def save_float(folder: Path) -> None:
    """Write a float network and samples for it."""
    draw = np.random.default_rng(1)
    builder = OnnxBuilder((3, 8, 8))
    weights = draw.normal(size=(4, 3, 3, 3)).astype(np.float32)
    builder.node("Conv", builder.value, builder.constant(weights))
    builder.node("Relu", builder.value)
    builder.node("Flatten", builder.value)
    builder.node("Gemm", builder.value, builder.constant(draw.normal(size=(144, 5)).astype("f")))
    builder.save(folder / "float.onnx")
    samples = draw.normal(size=(16, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", **{builder.input: samples})


def lay_out(page: Path, folder: Path) -> None:
    """Put the network that a page speaks of into ``folder``: the example, or one of its dialect."""
    text = page.read_text(encoding="utf-8")
    if "--frontend nemo" in text:
        NemoBuilder((3, 8, 8)).conv(8, 3, pads=1).linear(4).save(folder / "net.onnx")
        return
    if page.parent.name == "deeploy":
        DeeployBuilder((3, 8, 8)).conv(8, 3, pads=1).linear(4).save(folder / "network.onnx")
        return
    if page.parent.name == "qdq":
        pytest.importorskip("onnxruntime", reason="dory quantize needs it")
        (folder / "net.onnx").write_bytes(random_network(1))
        save_float(folder)
        return
    shutil.copytree(
        TONES if "net.tflite" in text else EXAMPLE,
        folder,
        ignore=shutil.ignore_patterns("*.py"),
        dirs_exist_ok=True,
    )


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "page", [p for p in PAGES if p not in APART], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_commands_work_verbatim(tmp_path: Path, page: Path) -> None:
    lay_out(page, tmp_path)
    for line in commands(page):
        outcome = dory(*shlex.split(line)[1:], cwd=tmp_path)
        assert outcome.status == 0, f"{line}\n{outcome.stderr}"


def test_options_of_the_readme_exist() -> None:
    pytest.importorskip("dory_report", reason="two of the commands are its own")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    known = "".join(dory(*command, "--help").stdout for command in ((), *zip(COMMANDS)))
    shown = set(re.findall(r"`[^`\n]*?(--[a-z0-9-]+)", text))
    assert len(shown) > 8
    assert [option for option in sorted(shown) if option not in known] == []
