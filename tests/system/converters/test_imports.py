"""Memory is planned in a process that has imported TensorFlow, as a notebook that converts has."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("tensorflow", reason="`make test-converters` installs what is missing")

pytestmark = pytest.mark.slow

PACK = """
import tensorflow
import numpy as np
from dory_core.plan.blocks import Bin
from dory_core.planning.packing.exact import SOLVER_EFFORT, solve
from tests.planning.samples import wanted

random = np.random.default_rng(0)
for _ in range(20):
    steps = [int(n) for n in random.integers(0, 10, 12)]
    sizes = [int(n) for n in random.integers(1, 100, 12)]
    each = enumerate(zip(sizes, steps, strict=True))
    blocks = [wanted(f"b{n}", size, at, at + 3) for n, (size, at) in each]
    places, _ = solve(blocks, [Bin("l2", 1200, 1)], SOLVER_EFFORT)
    assert places is not None and len(places) == len(blocks)
"""


def test_the_solver_runs_after_tensorflow_was_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PACK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
