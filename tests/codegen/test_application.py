"""Generated applications as text and data."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from dory_core.codegen.replace import MARKER
from dory_core.driver.application import read_graph, read_plan, run_application
from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.errors import NotSupported, UsageError, VerificationFailed
from dory_core.golden.vectors import read_vectors
from dory_core.ir import Conv, Layer
from dory_core.ir.reference import random_inputs, run
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel
from dory_core.passes.extract import extract_layer
from dory_core.plan import Plan
from dory_core.plugins.manager import load_plugins
from dory_core.simulate.build import MARKS_FOLDER
from dory_core.simulate.compiler import ZIGLANG
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import network_cases
from dory_core.testing.compilers import host_compiler_text
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, ToyChip
from tests.toy.network import AROUND, save

GRAPH = next(case for case in network_cases() if case.name == "residual").build()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    directory = tmp_path_factory.mktemp("codegen") / "app"
    return directory, build_app(GRAPH, NAME, directory, budgets={1: 6000}, seeds=(3, 4))


def test_plan_json_is_the_plan(app: tuple[Path, Plan]) -> None:
    directory, plan = app
    assert read_plan(directory) == json.loads(json.dumps(plan.to_json()))


def test_shipped_files_know_nothing_of_the_simulation(app: tuple[Path, Plan]) -> None:
    directory, plan = app
    marked = {path.name for path in (directory / MARKS_FOLDER).iterdir()}
    shipped = {path for path in directory.rglob("*.[ch]") if "host" not in path.parts}
    assert {path.name for path in shipped if path.parent.name == "src"} - marked == {"network.h"}
    assert len(marked) == len(plan.program.functions) + 1
    assert not [path for path in shipped if "DORY_SIM" in path.read_text()]


def test_application_carries_its_network_and_vectors(app: tuple[Path, Plan]) -> None:
    directory, _ = app
    graph = read_graph(directory)
    assert graph == GRAPH
    vectors = read_vectors(directory / "vectors", graph)
    assert len(vectors) == 2
    expected = run(GRAPH, random_inputs(GRAPH, 4))
    for name, values in expected.items():
        assert (vectors[1][name] == values).all()


def test_generated_c_has_no_heap_float_or_mutable_globals(app: tuple[Path, Plan]) -> None:
    for file in (*app[0].glob("src/*.c"), *app[0].glob("kernels/*.[ch]")):
        text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S)
        assert not re.search(r"\b(malloc|calloc|realloc|free|float|double|alloca)\b", text), file
        for line in text.splitlines():
            if line.startswith("static ") and line.rstrip().endswith(";") and "(" not in line:
                assert "const" in line, f"{file.name}: {line}"


def test_every_layer_calls_a_kernel_that_is_shipped(app: tuple[Path, Plan]) -> None:
    directory, plan = app
    shipped = "\n".join(p.read_text() for p in directory.glob("kernels/*"))
    for step in plan.steps:
        text = (directory / f"src/dory_layer_{step.index:02d}.c").read_text()
        assert f"{step.kernel.symbol}(" in text
        assert step.kernel.symbol in shipped
        for header in step.kernel.headers:
            assert (directory / "kernels" / header).is_file()


def test_header_comment_states_shape_tile_and_memory(app: tuple[Path, Plan]) -> None:
    directory, plan = app
    step = plan.steps[0]
    text = (directory / "src/dory_layer_00.c").read_text()
    assert f"L1        {step.l1_bytes} of 6000 B" in text
    assert "Conv 3x3, stride 2x2" in text
    assert f"{step.schedule.count} tile" in text


def test_blocks_of_one_level_lie_within_its_budget(app: tuple[Path, Plan]) -> None:
    for level in app[1].levels:
        assert level.used <= level.budget
        assert all(b.offset >= 0 and b.end <= level.budget for b in level.blocks)


def make_run(app: Path, compiler: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-C", str(app), "run", f"CC={compiler}"]
    return subprocess.run(command, capture_output=True, text=True)


def test_make_run_needs_no_python(app: tuple[Path, Plan], tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is needed for this form")
    copy = tmp_path / "copy"
    shutil.copytree(app[0], copy)
    done = make_run(copy, host_compiler_text())
    assert done.returncode == 0, done.stderr
    exact = [line for line in done.stdout.splitlines() if re.match(r"layer \d+ exact", line)]
    assert len(exact) == 2 * len(GRAPH.ops)


def test_make_run_fails_when_a_layer_differs(app: tuple[Path, Plan], tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is needed for this form")
    copy = tmp_path / "copy"
    shutil.copytree(app[0], copy)
    file = copy / "vectors" / "layer_02.bin"
    data = bytearray(file.read_bytes())
    data[5] ^= 1
    file.write_bytes(data)
    done = make_run(copy, host_compiler_text())
    assert done.returncode != 0
    assert re.search(r"layer 2 differs 1 of \d+ bytes, first at byte 5", done.stdout)


@pytest.mark.slow
def test_generated_c_is_clean_with_clang(app: tuple[Path, Plan], tmp_path: Path) -> None:
    """CI builds this application with the compiler of the wheel, too, where there is no other."""
    if shutil.which("clang"):
        compiler = "clang"
    elif find_spec("ziglang") is not None:
        compiler = shlex.join(ZIGLANG)
    else:
        pytest.skip("neither clang nor the ziglang wheel is installed")
    copy = tmp_path / "copy"
    shutil.copytree(app[0], copy)
    done = make_run(copy, compiler)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


def test_value_that_differs_is_reported_with_its_place(
    app: tuple[Path, Plan], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(app[0], copy)
    (copy / MARKER).unlink()  # which would tell that the vector was edited
    file = copy / "vectors" / "layer_01.bin"
    data = bytearray(file.read_bytes())
    channels = GRAPH.tensors["layer_01"].channels
    width = GRAPH.tensors["layer_01"].width
    place = (2 * width + 1) * channels + 3
    data[place] ^= 1
    file.write_bytes(data)
    result = run_application(copy, plugins=load_plugins(), dma="late")
    assert not result.exact
    difference = result.first_difference
    assert difference is not None
    layer = difference[1]
    assert (layer.index, layer.mismatches) == (1, 1)
    assert layer.first is not None
    assert (layer.first.c, layer.first.h, layer.first.w) == (3, 2, 1)
    assert layer.first.expected == layer.first.got ^ 1


@pytest.mark.parametrize(
    ("folder", "line", "more", "says"),
    [
        (MARKS_FOLDER, r"DORY_SIM_TILE\([^;]*;", r"\g<0> \g<0>", "2 calls of its kernel"),
        (
            "src",
            r"(dory_dma_start\(.*\));\n((?s:.*)dory_dma_wait\(w_ticket\);)",
            r"\1;\n\2 dory_dma_wait(\1);",
            "3 transfers of",
        ),
    ],
    ids=["call", "transfer"],
)
def test_what_runs_more_often_than_planned_is_found_though_exact(
    folder: str, line: str, more: str, says: str, app: tuple[Path, Plan], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(app[0], copy, ignore=shutil.ignore_patterns("build"))
    file = copy / folder / "dory_layer_00.c"
    text, made = re.subn(line, more, file.read_text(), count=1)
    assert made == 1
    file.write_text(text)
    with pytest.raises(VerificationFailed, match=rf"^layer 0: .*{says}.*the plan says") as caught:
        run_application(copy, plugins=load_plugins())
    assert "every value is exact" in caught.value.hint


def test_directory_that_is_no_application_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_plan(tmp_path / "missing")
    with pytest.raises(UsageError):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text('{"generator": "somebody"}')
    with pytest.raises(UsageError) as caught:
        read_plan(tmp_path)
    assert "not written by dory" in caught.value.message


def test_layer_that_does_not_exist_cannot_be_extracted() -> None:
    with pytest.raises(UsageError) as caught:
        extract_layer(GRAPH, len(GRAPH.ops))
    assert "0 to" in caught.value.hint


def test_layer_with_two_inputs_is_a_network_of_its_own(tmp_path: Path) -> None:
    plan = build_app(extract_layer(GRAPH, 3), NAME, tmp_path / "app")
    assert len(plan.inputs) == 2
    assert_exact(tmp_path / "app")


def without_groups(layer: Layer) -> list[Kernel]:
    """Return kernels of which none computes a grouped convolution, neither dense nor depthwise."""
    grouped = isinstance(layer.op, Conv) and layer.op.groups > 1 and not layer.op.is_depthwise
    return [k for k in portable_kernels() if not grouped or "conv" not in k.name]


def test_check_names_every_layer_that_no_kernel_takes(tmp_path: Path) -> None:
    builder = GraphBuilder((8, 12, 12), seed=1)
    for channels, groups in ((12, 2), (8, 1), (12, 2)):
        builder.conv(channels, AROUND, groups=groups)
    path = save(builder.graph(), tmp_path)
    plugins = ToyChip(without_groups).plugins()
    report = check_network(CompileOptions(path, NAME, "plain"), plugins)
    assert not report.supported
    assert [layer.kernel is None for layer in report.layers] == [True, False, True]
    assert all(layer.rejections for layer in report.layers if layer.kernel is None)
    assert "no kernel" in report.reason
    with pytest.raises(NotSupported) as caught:
        compile_network(CompileOptions(path, NAME, "plain", tmp_path / "app"), plugins)
    assert report.layers[0].node in caught.value.message
    assert not (tmp_path / "app").exists()


def test_damaged_image_of_l3_is_wrong_usage_not_a_fault_of_the_code(tmp_path: Path) -> None:
    plan = build_app(GRAPH, NAME, tmp_path / "app", budgets={1: 6000, 2: 7000})
    assert plan.transfers
    image = tmp_path / "app" / "weights" / "l3.bin"
    assert_exact(tmp_path / "app", dma=("late",))
    image.write_bytes(image.read_bytes()[:-8])
    with pytest.raises(UsageError) as caught:
        assert_exact(tmp_path / "app", dma=("late",))
    assert "l3.bin" in caught.value.message


def test_generated_c_of_three_levels_is_small_static_and_says_what_it_moves(
    tmp_path: Path,
) -> None:
    plan = build_app(GRAPH, NAME, tmp_path / "app", budgets={1: 6000, 2: 7000})
    text = (tmp_path / "app" / "src" / "network.c").read_text()
    starts = re.findall(r"DORY_EXT_(LOAD|STORE)\((\d+), (\d+), (\d+), (\d+)\)", text)
    moved = [(way == "LOAD", *map(int, numbers)) for way, *numbers in starts]
    planned = [(t.incoming, t.slot, t.l2_offset, t.l3_offset, t.size) for t in plan.transfers]
    assert sorted(moved) == sorted(planned)
    assert len(re.findall(r"DORY_EXT_WAIT\(\d+\)", text)) == len(plan.transfers)
    assert "static const dory_event_t events[]" in text
    assert not list((tmp_path / "app" / "weights").glob("*.c"))
