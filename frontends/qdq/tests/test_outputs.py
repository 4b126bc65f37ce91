"""Outputs that are the input of the network, or one tensor: exact on every chip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_qdq.testing import OPERATORS, Builder

from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

SHAPE = (1, 3, 4, 5)


def _alone(builder: Builder) -> list[str]:
    return [builder.node("Identity", [builder.input(SHAPE).stored])]


def _beside(builder: Builder) -> list[str]:
    x = builder.input(SHAPE)
    return [OPERATORS["sigmoid"](builder, x).stored, builder.node("Identity", [x.stored])]


def _twice(builder: Builder) -> list[str]:
    last = OPERATORS["sigmoid"](builder, builder.input(SHAPE))
    return [last.stored, builder.node("Identity", [last.stored])]


@pytest.mark.sample(7)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("target", ["gap8", "stm32h7", "diana"])
@pytest.mark.parametrize("network", [_alone, _beside, _twice])
def test_outputs_are_exact(
    network: Callable[[Builder], list[str]], target: str, signed: bool, tmp_path: Path
) -> None:
    builder = Builder(np.random.default_rng(1), signed=signed)
    outputs = [(name, SHAPE) for name in network(builder)]
    path = tmp_path / "passed.onnx"
    path.write_bytes(builder.model(outputs))
    result = compile_network(CompileOptions(path, target, "qdq", tmp_path / "app"), load_plugins())
    copied = any("is a copy of the input" in note for note in result.plan.notes)
    shared = any("are one output of the network" in note for note in result.plan.notes)
    assert (copied, shared) == (network is not _twice, network is _twice)
    assert_exact(tmp_path / "app", plugins=load_plugins())
