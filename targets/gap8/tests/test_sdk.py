"""The application as the SDK builds it, on models of what the SDK and the cluster do.

``sdk/`` stands for the SDK: its rules, the names of its headers, and models of event unit, DMA, RAM
and flash behind them. The program is the one for the chip: main, HAL, network and kernels.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sdk_runs import SDK, THREE_LEVELS, graph, make, run

from dory_core.api import ToolMissing, UsageError, ops
from dory_core.testing import extract_layer, random_inputs, run_application
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.compilers import host_compiler_text
from dory_core.testing.graphs import U16, GraphBuilder
from dory_core.tools import load_plugins

pytestmark = [
    pytest.mark.usefixtures("sdk_environment"),
    pytest.mark.skipif(shutil.which("make") is None, reason="make stands for the one of the SDK"),
]


TILES = {1: 6000}
WHOLE_LAYERS = {}


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("cores", "budgets"),
    [
        pytest.param(1, TILES, id="one_core_tiles"),
        pytest.param(3, THREE_LEVELS, id="three_cores_three_levels"),
        pytest.param(8, WHOLE_LAYERS, id="eight_cores_whole_layers"),
        pytest.param(8, THREE_LEVELS, id="eight_cores_three_levels"),
        *(
            pytest.param(cores, budgets, marks=pytest.mark.slow)
            for cores, budgets in ((1, THREE_LEVELS), (1, WHOLE_LAYERS), (3, TILES), (8, TILES))
        ),
    ],
)
def test_every_layer_is_exact_with_late_transfers(
    tmp_path: Path, cores: int, budgets: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STUB_LEVEL")
    plan = build_app(
        graph("residual"),
        "gap8",
        tmp_path / "app",
        budgets=budgets,
        settings={"cores": str(cores)},
        seeds=(3, 4),
    )
    assert bool(plan.transfers) == (2 in budgets)
    result = run(tmp_path / "app")
    assert result.runner == "gvsoc"
    assert len(result.runs) == 2
    assert result.exact


@pytest.mark.sample(2)
@pytest.mark.parametrize("cores", [8, 1])
def test_rows_of_inputs_and_outputs_come_and_go(tmp_path: Path, cores: int) -> None:
    b = GraphBuilder((4, 20, 12), seed=62)
    for channels in (8, 8, 4):
        b.conv(channels, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    settings = {"cores": str(cores), "input_rows": "on", "output_rows": "on"}
    app = tmp_path / "app"
    plan = build_app(b.graph(), "gap8", app, budgets={2: 3500}, settings=settings, seeds=(3, 4))
    assert plan.inputs[0].passing and plan.outputs[0].passing
    assert_exact(app, repeat=1)
    result = run(app)
    assert result.runner == "gvsoc" and len(result.runs) == 2
    assert result.exact
    assert "pi_camera_capture_async" in (app / "README.md").read_text()


def most_under_way(app: Path) -> int:
    """Return how many transfers of L3 an application has under way at once."""
    events = re.findall(r"EXT_(LOAD|STORE|WAIT)\((\d+)", (app / "src" / "network.c").read_text())
    busy: set[str] = set()
    most = 0
    for kind, number in events:
        busy = busy - {number} if kind == "WAIT" else busy | {number}
        most = max(most, len(busy))
    return most


@pytest.mark.slow
def test_the_hal_of_another_network_has_room_for_few_transfers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two networks in one firmware, whose HAL is the one of the network with fewer transfers."""
    many = GraphBuilder((32, 4, 4), seed=1)
    for _ in range(10):
        many.conv(32, ops.Window(kernel=(1, 1)))
    networks = {"cat": graph("residual"), "dog": many.graph()}
    for name, network in networks.items():
        build_app(network, "gap8", tmp_path / name, budgets=THREE_LEVELS, prefix=name)
    cat, dog = tmp_path / "cat", tmp_path / "dog"
    assert f"EXT_IN_FLIGHT {most_under_way(dog)}u" in (dog / "src" / "network.h").read_text()
    room = re.search(r"EXT_IN_FLIGHT (\d+)u", (cat / "src" / "network.h").read_text())
    assert room is not None and 0 < most_under_way(cat) <= int(room[1]) < most_under_way(dog)
    shutil.copytree(cat, dog / "src" / "cat")
    shutil.copy(cat / "inc" / "cat_network.h", dog / "inc")
    hal = dog / "hal" / "gap8" / "dory_gap8_ext.c"
    hal.write_text(hal.read_text().replace('"network.h"', '"../../src/cat/src/network.h"'))
    for source in (*cat.glob("src/*.c"), *cat.glob("weights/*.c")):
        text = source.read_text().replace('"network.h"', '"cat/src/network.h"')
        (dog / "src" / f"cat_{source.name}").write_text(text)
    for kernel in cat.glob("kernels/*"):
        shutil.copy(kernel, dog / "kernels" / kernel.name)
    bounds = "-fsanitize=bounds -fsanitize-undefined-trap-on-error"
    monkeypatch.setenv("STUB_CC", f"{host_compiler_text()} {bounds}")
    done = make(dog, "clean", "all", "run")
    assert done.returncode == 0 and "dory: exact" in done.stdout, done.stderr


@pytest.mark.slow
def test_state_is_that_of_the_vectors_before(tmp_path: Path) -> None:
    """Each vector runs twice there; state is brought back by the vectors in front of it."""
    build_app(graph("state"), "gap8", tmp_path / "app", settings={"cores": "3"}, seeds=(3, 4, 5))
    result = run(tmp_path / "app", repeat=2)
    assert result.exact
    assert [one.input for one in result.runs] == [f"input {n}" for n in (0, 1, 2)] * 2


@pytest.mark.slow
def test_a_library_of_kernels_gets_the_number_of_cores(tmp_path: Path) -> None:
    """The contract of PULP-NN in 64 bits; it names cores as the library does."""
    library = tmp_path / "64bit"
    shutil.copytree(SDK.parent / "pulp_nn", library)
    header = library / "include" / "pulp_nn_kernels.h"
    header.write_text(header.read_text().replace("BN_T", "int64_t"))
    settings = {"kernels": f"pulp-nn={library}", "cores": "4"}
    plan = build_app(graph("residual"), "gap8", tmp_path / "app", settings=settings)
    assert {step.kernel.name for step in plan.steps} >= {"pulp_nn_conv_Ho_parallel"}
    assert run(tmp_path / "app").exact


def test_make_clean_all_run_is_one_command(copy: Path) -> None:
    for _ in range(2):  # a second time over what the first has left
        done = make(copy, "clean", "all", "run")
        assert done.returncode == 0, done.stderr
        assert "dory: exact" in done.stdout
    assert "-O3" in done.stdout and "-Os" in done.stdout


def test_kernels_around_assembly_are_compiled_for_less_code(tmp_path: Path) -> None:
    """The first depthwise layer has strips in assembly; one with two requantisations is plain C."""
    b = GraphBuilder((16, 8, 8))
    same = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    b.conv(16, same, groups=16)
    b.conv(16, ops.Window(kernel=(1, 1)))
    b.conv(16, same, groups=16, second=True)
    plan = build_app(b.graph(), "gap8", tmp_path / "app")
    commands = make(tmp_path / "app", "-n", "build").stdout.splitlines()
    levels = []
    for step in plan.steps:
        [line] = [line for line in commands if f" kernels/{step.kernel.symbol}.c" in line]
        levels.append(re.findall(r"-O[s23]", line)[-1])
    assert levels == ["-Os", "-O2", "-O3"]


@pytest.mark.slow
def test_goals_follow_one_another_with_several_jobs(copy: Path) -> None:
    """The image is made of a program that is linked, and nothing is built while `clean` removes."""
    for goals in (("all",), ("clean", "all"), ("clean", "all", "run")):
        done = make(copy, "-j8", *goals)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (copy / "BUILD" / "golden.bin").is_file()
    assert "dory: exact" in done.stdout


@pytest.mark.parametrize("rules", ["", "/nowhere"])
def test_a_platform_of_the_sdk_without_the_sdk_says_so(
    copy: Path, monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    monkeypatch.setenv("RULES_DIR", rules)
    for platform in ("gvsoc", "board"):
        command = ["make", "clean", "all", "run", f"platform={platform}"]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert f"platform={platform} needs the GreenWaves SDK" in done.stderr
        assert f'RULES_DIR (now "{rules}")' in " ".join(done.stderr.split())
        assert "exact" not in done.stdout
    assert not (copy / "build").exists()


@pytest.mark.slow
def test_the_same_directory_builds_for_the_host_without_the_sdk(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RULES_DIR")
    command = ["make", "run", f"CC={host_compiler_text()}"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "layer 0 exact" in done.stdout


def test_result_is_that_of_the_host_with_cycles_of_each_layer(app: Path) -> None:
    target, host = run(app), run_application(app, plugins=load_plugins())
    assert [layer.index for layer in target.runs[0].layers] == [
        layer.index for layer in host.runs[0].layers
    ]
    assert all(layer.exact and layer.mismatches == 0 for layer in target.runs[0].layers)
    assert all(layer.cycles is not None and layer.cycles > 0 for layer in target.runs[0].layers)


@pytest.mark.slow
def test_cycles_are_measured_on_request_only(tmp_path: Path) -> None:
    build_app(graph("residual"), "gap8", tmp_path / "app")
    result = run(tmp_path / "app")
    assert all(layer.cycles is None for layer in result.runs[0].layers)


def test_values_that_differ_are_reported_as_on_the_host(copy: Path) -> None:
    (copy / ".dory-application").unlink()  # which would tell that the vectors were edited
    for layer in (1, 3):
        file = copy / "vectors" / f"layer_{layer:02d}.bin"
        data = bytearray(file.read_bytes())
        data[37] ^= 1
        data[-1] ^= 0x40
        file.write_bytes(data)
    target, host = run(copy), run_application(copy, plugins=load_plugins())
    assert not target.exact
    pairs = list(zip(target.runs[0].layers, host.runs[0].layers, strict=True))
    assert {n: mine.mismatches for n, (mine, _) in enumerate(pairs) if not mine.exact} == {
        1: 2,
        3: 2,
    }
    assert all((mine.mismatches, mine.first) == (its.mismatches, its.first) for mine, its in pairs)
    assert make(copy, "all", "run").returncode != 0


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("case", ["precisions", "two_inputs", "view"])
def test_elements_of_any_width_and_several_inputs(case: str, tmp_path: Path) -> None:
    if case == "two_inputs":
        network = extract_layer(graph("residual"), 3)
    elif case == "view":  # the output only names the bytes of another tensor anew
        builder = GraphBuilder((8, 9, 7), seed=5)
        first = builder.conv(6, ops.Window(kernel=(1, 1)))
        flat = builder.reshape((126, 3, 1))
        network = builder.graph((flat, builder.conv(5, ops.Window(kernel=(1, 1)), source=first)))
    else:
        builder = GraphBuilder((8, 9, 7), seed=5)
        builder.conv(6, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)), output=U16)
        builder.conv(5, ops.Window(kernel=(1, 1)), output=(0, 15))
        builder.conv(3, ops.Window(kernel=(1, 1)), output=None)
        network = builder.graph()
    build_app(network, "gap8", tmp_path / "app")
    assert run(tmp_path / "app").exact


@pytest.mark.slow
def test_several_runs_and_other_inputs(app: Path, tmp_path: Path) -> None:
    values = random_inputs(graph("residual"), 11)["input"]
    np.savetxt(tmp_path / "input.txt", values.transpose(1, 2, 0).reshape(-1), fmt="%d")
    result = run(app, inputs=[tmp_path / "input.txt"], repeat=2)
    assert len(result.runs) == 2
    assert result.exact
    assert result.runs[0].input.endswith("input.txt")


@pytest.mark.parametrize(
    "options", [{"dma": "late"}, {"sanitize": "thread"}, {"dump": Path("d")}, {"seed": 2}]
)
def test_what_only_the_host_has_is_refused(app: Path, options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="no --dma, --seed, --sanitize and --dump"):
        run(app, **options)


def test_missing_sdk_is_a_missing_tool(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RULES_DIR")
    with pytest.raises(ToolMissing, match="RULES_DIR") as caught:
        run(app)
    assert caught.value.exit_code == 6


def test_readme_tells_how_to_build_for_the_board(app: Path) -> None:
    text = (app / "README.md").read_text()
    assert "make clean all run platform=board PMSIS_OS=pulpos" in text
    assert "make clean all run platform=gvsoc PMSIS_OS=pulpos" in text
