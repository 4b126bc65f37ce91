"""A network output that is the network input, as every frontend has to read it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dory_core.testing import random_inputs, run_reference
from dory_core.tools import load_plugins
from dory_onnx.testing.integer import IntegerOnnxBuilder


def assert_passed_input_is_a_copy(
    builder: IntegerOnnxBuilder, frontend: str, only_output: bool, folder: Path
) -> None:
    """Add an Identity of the input as an output, and compare it with the input.

    Args:
        builder: A builder with only an input.
        only_output: True when it is the only output, False to add a convolution as another output.
        folder: Folder of the file.
    """
    passed = builder.node("Identity", builder.input)
    if not only_output:
        builder.at(builder.input).conv(8, 3).output()
    path = builder.output(passed).save(folder / "net.onnx")
    graph = load_plugins().frontend(frontend).parse(path)
    assert len(graph.outputs) == 2 - only_output
    values = random_inputs(graph, 1)
    copied = run_reference(graph, values)[graph.outputs[-1]]
    np.testing.assert_array_equal(copied, values[graph.inputs[0]])
