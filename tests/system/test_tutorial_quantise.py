"""The tutorial from a float network to an application: its commands run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command_line import ROOT, Outcome, dory, environment, python

TUTORIAL = ROOT / "docs" / "tutorial_quantise.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("onnxruntime", "dory_qdq", "dory_gap8"):
        pytest.importorskip(name, reason="the tutorial's packages are not installed")
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def commands() -> list[str]:
    text = TUTORIAL.read_text(encoding="utf-8")
    return [
        line
        for block in re.findall(r"```sh\n(.*?)```", text, re.S)
        for line in block.split("\n")
        if line
    ]


def run(command: str, folder: Path) -> Outcome:
    program, *arguments = shlex.split(command)
    if program == "dory":
        return dory(*arguments, cwd=folder)
    assert program == "python"
    return python(*arguments, env=environment(), cwd=folder)


def shares(output: str) -> dict[str, float]:
    found = re.findall(r"^(.+): ([\d.]+)% of 500 are right$", output, re.M)
    return {name: float(share) for name, share in found}


@pytest.mark.slow
def test_commands_of_the_tutorial(folder: Path) -> None:
    outcomes = {}
    for command in commands():
        outcomes[command] = outcome = run(command, folder)
        assert outcome.status == 0, f"{command}\n{outcome.stdout}{outcome.stderr}"
    *_, last = outcomes.values()
    found = shares(last.stdout)
    assert set(found) == {"float", "int8", "generated C"}
    assert found["float"] > 95
    assert abs(found["float"] - found["int8"]) <= 2
    assert found["generated C"] == found["int8"], "the code equals onnxruntime's integers"
    report = next(o.stdout for c, o in outcomes.items() if c.startswith("dory quantize"))
    assert "accuracy on these 64 samples: float " in report
    assert "in float:" not in report


def test_a_float_network_is_refused_with_the_next_step(tmp_path: Path) -> None:
    testing = pytest.importorskip("dory_onnx.testing", reason="dory-onnx is not installed")
    builder = testing.OnnxBuilder((1, 4, 4))
    builder.node("Conv", builder.value, builder.constant(np.full((2, 1, 3, 3), 0.3)))
    onnx.save(builder.model(("batch", 1, 4, 4)), str(tmp_path / "float.onnx"))
    outcome = dory("--target", "gap8", "float.onnx", cwd=tmp_path)
    assert outcome.status == 3
    assert "the network is not quantised" in outcome.stderr
    assert "`dory quantize`" in outcome.stderr
