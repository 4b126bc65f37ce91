"""`--float-io`: the application converts real numbers beside the network, to the bit."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dory_core.cli.results import ApplicationRun
from dory_core.codegen.float_border import with_float_border
from dory_core.driver.answers import answers
from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import NotSupported
from dory_core.ir import Graph, Window
from dory_core.ir.parse import parse_graph
from dory_core.ir.reals import quantise
from dory_core.ir.text import graph_text
from dory_core.plugins.manager import Plugins
from dory_core.simulate.compiler import find_compiler
from dory_core.simulate.result import LayerOutput, Run, RunResult
from dory_core.testing.graphs import I8, GraphBuilder
from tests.toy.chip import NAME, ToyChip
from tests.toy.frontend import reading

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


def network(scale: float | None = 0.3, values: tuple[int, int] = I8) -> Graph:
    """Return a network of one input and two outputs, whose scale this is."""
    builder = GraphBuilder((3, 4, 5), values)
    first = builder.conv(4, Window(kernel=(1, 1)))
    builder.conv(2, Window(kernel=(1, 1)), output=I8)
    graph = builder.graph((first, builder.last))
    tensors = {
        name: replace(tensor, scale=scale, zero_point=-2 if tensor.signed else 9)
        for name, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)


def compiled(
    graph: Graph, folder: Path, prefix: str = "dory", ties_even: bool = False
) -> tuple[Path, Plugins]:
    plugins = Plugins.from_objects(toy=ToyChip(), built=reading(graph, ties_even))
    (folder / "net").touch()
    options = CompileOptions(
        folder / "net", NAME, "built", folder / "app", float_io=True, prefix=prefix
    )
    compile_network(options, plugins)
    return folder / "app", plugins


@pytest.mark.parametrize(("prefix", "even"), [("dory", False), ("cat", True)])
def test_real_numbers_are_rounded_and_compared_to_the_bit(
    tmp_path: Path, prefix: str, even: bool
) -> None:
    graph = network(0.25)  # quotients are exact, and their ties
    app, plugins = compiled(graph, tmp_path, prefix, even)
    tensor = graph.tensors["input"]
    quotients = np.random.default_rng(0).integers(-160, 160, (4, 5, 3)) + np.float32(0.5)
    reals = (quotients * np.float32(0.25)).astype(np.float32)
    reals[0, 0] = np.nan, np.inf, -np.inf
    reals[0, 1] = 3e38, -3e38, np.float32(0.25) * np.float32(0.49999997)
    np.save(tmp_path / "x.npy", reals)
    np.save(tmp_path / "chw.npy", reals.transpose(2, 0, 1))
    (tmp_path / "x.bin").write_bytes(reals.tobytes())
    np.save(tmp_path / "integers.npy", quantise(tensor, reals, even))
    files = [tmp_path / name for name in ("x.npy", "x.bin", "integers.npy")]
    dumps = []
    for path in files:
        dump = tmp_path / path.suffix
        result = run_application(app, plugins=plugins, inputs=[path], dump=dump, repeat=2)
        assert result.exact and len(result.runs) == 2
        assert "120 outputs are equal to the bit" in result.notes[1]
        dumps.append([np.load(p).tolist() for p in sorted(dump.rglob("layer_*.npy"))])
    assert dumps[0] == dumps[1] == dumps[2]
    layout = run_application(
        app, plugins=plugins, inputs=[tmp_path / "chw.npy"], input_layout="chw"
    )
    assert layout.exact
    assert "real numbers as C x H x W, rearranged to H x W x C, quantised" in layout.notes[0]
    assert run_application(app, plugins=plugins, dma="random").exact


def test_a_wrong_conversion_is_found(tmp_path: Path) -> None:
    app, plugins = compiled(network(), tmp_path)
    source = app / "src" / "float_io.c"
    text = source.read_text(encoding="utf-8")
    found = re.search(r"outputs\[\] = \{\n.*?0\.3f, (\d+),", text, re.DOTALL)
    assert found is not None
    source.write_text(text[: found.start(1)] + "8" + text[found.end(1) :], encoding="utf-8")
    with pytest.raises(Exception, match="float output 0 is"):
        run_application(app, plugins=plugins)


def test_functions_are_clean_c_and_declared(tmp_path: Path) -> None:
    app, _ = compiled(network(), tmp_path, "cat")
    header = (app / "inc" / "cat_network.h").read_text(encoding="utf-8")
    assert "void cat_quantize_input(const float *values, void *input);" in header
    assert "#define CAT_INPUT_VALUES 60u" in header and "#define CAT_OUTPUT_VALUES 120u" in header
    assert "#define CAT_OUTPUT_1_SCALE 0.3f" in header
    folders = [f"-I{app / name}" for name in ("inc", "hal/include")]
    command = [*find_compiler().command, *WARNINGS, *folders, "-c", str(app / "src/float_io.c")]
    done = subprocess.run([*command, "-o", str(tmp_path / "x.o")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_integers_are_the_default(tmp_path: Path) -> None:
    graph = network()
    plugins = Plugins.from_objects(toy=ToyChip(), built=reading(graph))
    (tmp_path / "net").touch()
    compile_network(CompileOptions(tmp_path / "net", NAME, "built", tmp_path / "app"), plugins)
    assert not (tmp_path / "app/src/float_io.c").exists()
    assert not (tmp_path / "app/hal/include/dory_float.h").exists()
    header = (tmp_path / "app/inc/dory_network.h").read_text(encoding="utf-8")
    assert "float *" not in header and "#define DORY_INPUT_ZERO_POINT (-2)" in header


def test_a_network_without_scales_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="no scale and zero point for 'input'"):
        compiled(network(None), tmp_path)
    assert not (tmp_path / "app").exists()
    narrow = network(values=(0, 15))
    narrow = replace(
        narrow, tensors={**narrow.tensors, "input": replace(narrow.tensors["input"], bits=4)}
    )
    with pytest.raises(NotSupported, match="'input' has elements of 4 bits"):
        compiled(narrow, tmp_path)


def test_elements_in_two_halves_are_refused() -> None:
    setup = setup_for(Plugins.from_objects(toy=ToyChip()), NAME)
    plan = run(network(values=(0, 255)), setup, after=IMPORTED)
    place = plan.inputs[0]
    halved = replace(place, tensor=replace(place.tensor, bits=16, halves=True))
    with pytest.raises(NotSupported, match="'input' has elements of two halves"):
        with_float_border(replace(plan, inputs=(halved,)), ties_even=False)


def test_scales_of_channels_stand_in_plan_and_header_and_convert_the_output(tmp_path: Path) -> None:
    graph, scales = network(0.25), (0.5, 0.0312)
    last = graph.outputs[1]
    own = replace(graph.tensors[last], scale=None, channel_scales=scales)
    graph = replace(graph, tensors={**graph.tensors, last: own})
    assert parse_graph(graph_text(graph, constants=True)).tensors == graph.tensors
    app, plugins = compiled(graph, tmp_path)
    result = run_application(app, plugins=plugins, runner="host")
    assert result.exact and "120 outputs are equal to the bit" in result.notes[0]
    reals = np.fromfile(app / "vectors" / "output_float.bin", "<f4")[-40:].reshape(20, 2)
    stored = np.fromfile(app / "vectors" / "output.bin", np.int8)[-40:].reshape(20, 2)
    assert np.array_equal(reals, (stored.astype(np.float32) + 2) * np.float32(scales))
    document = json.loads((app / "plan.json").read_text(encoding="utf-8"))
    first, second = document["network"]["outputs"]
    assert (first["scale"], first["channel_scales"]) == (0.25, [])
    assert (second["scale"], second["channel_scales"]) == (None, list(scales))
    header = (app / "inc" / "dory_network.h").read_text(encoding="utf-8")
    assert "#define DORY_OUTPUT_1_SCALES {0.5f, 0.0312f} /* of each channel; integers of" in header
    assert "#define DORY_OUTPUT_1_ZERO_POINT (-2)" in header
    assert "DORY_OUTPUT_1_SCALE " not in header


def test_the_answer_of_sums_with_a_scale_per_channel_is_that_of_the_reals(tmp_path: Path) -> None:
    """The largest integer is not the largest real number: no answer may be made of integers."""
    builder = GraphBuilder((1, 1, 1), (0, 255), name="sums")
    builder.linear(2)
    graph = builder.graph()
    last = graph.outputs[0]
    tensor = replace(graph.tensors[last], scale=None, channel_scales=(0.125, 0.5))
    runs = (Run("x.npy", (), values={0: np.array([[[40, 30]]])}),)
    outputs = (LayerOutput(0, "linear", tensor),)
    found = ApplicationRun(RunResult("toy", "host", "early", runs, outputs=outputs))
    assert found.outputs[last].argmax() == 0 and found.reals[last].argmax() == 1
    assert found.reals[last].tolist() == [[[[5.0, 15.0]]]]
    assert list(answers(found.result)) == [f"x.npy: output '{last}' class 1: 15, class 0: 5"]


def test_the_scale_of_another_channel_is_found(tmp_path: Path) -> None:
    graph = network(0.25)
    own = replace(graph.tensors[graph.outputs[1]], scale=None, channel_scales=(0.5, 0.25))
    app, plugins = compiled(
        replace(graph, tensors={**graph.tensors, graph.outputs[1]: own}), tmp_path
    )
    source = app / "src" / "float_io.c"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("{0.5f, 0.25f}", "{0.25f, 0.5f}"), encoding="utf-8")
    with pytest.raises(Exception, match="float output 80 is"):
        run_application(app, plugins=plugins)
