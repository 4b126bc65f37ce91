"""The application as the SDK builds it, on models of what the SDK and the cluster do.

``sdk/`` stands for the SDK: its rules, the names of its headers, and models of event unit, DMA, RAM
and flash behind them. The program is the one for the chip: main, HAL, network and kernels.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dory_core.api import (
    DoesNotFit,
    Graph,
    ToolMissing,
    UsageError,
    VerificationFailed,
    ops,
    simulate,
)
from dory_core.testing import extract_layer, random_inputs, run_application
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import network_cases
from dory_core.testing.compilers import host_compiler_text
from dory_core.testing.graphs import U16, GraphBuilder
from dory_core.tools import load_plugins

SDK = Path(__file__).parent / "sdk"

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None, reason="make stands for the one of the SDK"
)


def graph(name: str) -> Graph:
    return next(case for case in network_cases() if case.name == name).build()


@pytest.fixture(autouse=True)
def sdk_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_DIR", str(SDK / "rules"))
    monkeypatch.setenv("STUB_CC", host_compiler_text())
    # Not -O0, where zig traps what is undefined in the SDK's model.
    monkeypatch.setenv("STUB_LEVEL", "-O1")


def run(app: Path, **options: object) -> simulate.RunResult:
    return run_application(app, plugins=load_plugins(), runner="gvsoc", **options)


def make(app: Path, *goals: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *goals, "platform=gvsoc", "PMSIS_OS=pulpos"],
        cwd=app,
        capture_output=True,
        text=True,
        check=False,
    )


TILES, THREE_LEVELS, WHOLE_LAYERS = {1: 6000}, {1: 6000, 2: 7000}, {}
# With 7000 bytes of L2 one tensor of the residual network, of 16 x 9 x 7 bytes, goes through L3 in
# stripes: the tables of the sum (2096 bytes, since its outputs have 16 bits) take its room. The RAM
# need hold nothing else where constants stay in the flash.
RAM_BYTES = 16 * 9 * 7


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
    few = GraphBuilder((32, 4, 4), seed=1)
    for _ in range(10):
        few.conv(32, ops.Window(kernel=(1, 1)))
    networks = {"cat": few.graph(), "dog": graph("residual")}
    for name, network in networks.items():
        build_app(network, "gap8", tmp_path / name, budgets=THREE_LEVELS, prefix=name)
    cat, dog = tmp_path / "cat", tmp_path / "dog"
    assert 0 < most_under_way(cat) < most_under_way(dog)
    assert f"EXT_IN_FLIGHT {most_under_way(cat)}u" in (cat / "src" / "network.h").read_text()
    shutil.copytree(cat, dog / "src" / "cat")
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


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sdk") / "app"
    settings = {"profile": "layers"}
    build_app(graph("residual"), "gap8", directory, budgets={1: 6000}, settings=settings)
    return directory


@pytest.fixture
def copy(app: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(app, tmp_path / "copy"))


def test_make_clean_all_run_is_one_command(copy: Path) -> None:
    for _ in range(2):  # a second time over what the first has left
        done = make(copy, "clean", "all", "run")
        assert done.returncode == 0, done.stderr
        assert "dory: exact" in done.stdout
    assert "-O3" in done.stdout and "-Os" in done.stdout


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
    assert make(copy, "clean", "all", "run").returncode != 0


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


FAULTS = {
    # what is wrong: (file, text, what replaces it, words of the message)
    "program_does_not_build": ("src/network.c", "int dory_network_run", "in dory_net", "build"),
    "layer_is_not_reported": (
        "src/network.c",
        "  report(io, 2,",
        "  if (0) report(io, 2,",
        "layer 2",
    ),
    "stacks_do_not_fit": (
        "hal/gap8/main_gap8.c",
        "DORY_L1_USED + DORY",
        "60000 + DORY",
        "the stacks do not fit L1",
    ),
    "file_is_missing": ("hal/gap8/main_gap8.c", '"golden.bin"', '"silver.bin"', "golden.bin"),
    "voltage_is_not_set": (
        "hal/gap8/main_gap8.c",
        "PMU_set_voltage(DORY_GAP8_MILLIVOLT, 0);",
        "",
        "did not end properly",
    ),
}


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("streamed") / "app"
    plan = build_app(graph("residual"), "gap8", directory, budgets=THREE_LEVELS)
    assert plan.transfers
    return directory


@pytest.fixture(scope="module")
def from_flash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("flash") / "app"
    budgets = {**THREE_LEVELS, 3: RAM_BYTES}
    assert build_app(graph("residual"), "gap8", directory, budgets=budgets).constants_apart
    return directory


HARDWARE = {
    # what does not work: (environment of the model, application, words of the message)
    "no_room_in_the_ram": ("MODEL_NO_RAM=1", "streamed", "smaller --l3"),
    "file_is_not_there": ("MODEL_NO_FILES=l3.bin", "streamed", "does not hold the file"),
    "no_heap_for_the_file": (
        "MODEL_NO_FILES=l3.bin MODEL_NO_HEAP=1",
        "streamed",
        "the heap in L2 has no room .* --l2-reserve",
    ),
    "flash_gives_nothing": ("MODEL_BAD_FLASH=1", "streamed", "flash cannot be read"),
    "cluster_reads_no_constants": (
        "MODEL_BAD_CLUSTER_FLASH=1",
        "from_flash",
        "constants cannot be read from the flash",
    ),
    "cluster_reads_no_goldens": (
        "MODEL_BAD_CLUSTER_FLASH=1",
        "streamed",
        "goldens cannot be read from the flash",
    ),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("case", HARDWARE)
def test_hardware_that_does_not_work_is_named(
    case: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, app, words = HARDWARE[case]
    for setting in environment.split():
        monkeypatch.setenv(*setting.split("="))
    with pytest.raises(VerificationFailed, match=words):
        run(request.getfixturevalue(app))


def test_a_run_that_hangs_ends_with_a_message(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Core 0 waits at a barrier to which no other core comes."""
    layer = copy / "src/dory_layer_02.c"
    text = layer.read_text()
    assert "{\n  const uint32_t core = dory_core_id();\n" in text
    lost = "{\n  const uint32_t core = dory_core_id();\n  if (core == 0) dory_barrier();\n"
    layer.write_text(text.replace("{\n  const uint32_t core = dory_core_id();\n", lost, 1))
    monkeypatch.setenv("MODEL_HANGS", "1")
    board = copy / "hal/gap8/dory_gap8_board.h"
    board.write_text(re.sub(r"(TIMEOUT_MS) \d+u", r"\1 3000000u", board.read_text()))
    with pytest.raises(VerificationFailed, match="has not ended after 3000000 ms"):
        run(copy)


def test_time_limit_of_a_run_is_far_beyond_its_estimate(streamed: Path) -> None:
    board = (streamed / "hal/gap8/dory_gap8_board.h").read_text()
    limit = int(re.findall(r"TIMEOUT_MS (\d+)u", board)[0])
    plan = json.loads((streamed / "plan.json").read_text())
    assert limit > 20 * plan["totals"]["latency_ms"]


@pytest.mark.sample(6)
@pytest.mark.parametrize("fault", FAULTS)
def test_program_that_does_not_work_is_a_failure_with_a_reason(copy: Path, fault: str) -> None:
    name, old, new, words = FAULTS[fault]
    text = (copy / name).read_text()
    assert old in text
    (copy / name).write_text(text.replace(old, new, 1))
    with pytest.raises(VerificationFailed) as caught:
        run(copy)
    assert words in caught.value.message


def test_constants_stay_in_the_flash_when_the_ram_is_short(tmp_path: Path) -> None:
    """With a RAM for a tensor: the image is read from its file, activations lie in the RAM."""
    app = tmp_path / "app"
    plan = build_app(graph("residual"), "gap8", app, budgets={**THREE_LEVELS, 3: RAM_BYTES})
    assert plan.constants_apart > RAM_BYTES
    level = plan.levels[2]
    assert plan.constants_apart < level.used <= level.budget == RAM_BYTES + plan.constants_apart
    assert any(not transfer.incoming for transfer in plan.transfers)
    board = (app / "hal/gap8/dory_gap8_board.h").read_text()
    assert "CONSTANTS_IN_FLASH 1" in board
    assert f"L3_RAM_START {plan.constants_apart}u" in board
    assert run(app).exact
    for dma in ("early", "late"):
        assert run_application(app, plugins=load_plugins(), dma=dma).exact


@pytest.mark.slow
def test_board_without_l3_refuses_what_does_not_fit_with_numbers(tmp_path: Path) -> None:
    settings = {"board": "gapuino-l2"}
    with pytest.raises(DoesNotFit, match=r"needs \d+ B of L2, 6000 B are available") as caught:
        build_app(graph("residual"), "gap8", tmp_path / "no", budgets={2: 6000}, settings=settings)
    assert caught.value.exit_code == 4
    plan = build_app(graph("residual"), "gap8", tmp_path / "app", settings=settings)
    assert [level.name for level in plan.levels] == ["L1", "L2"]
    assert run(tmp_path / "app").exact


@pytest.mark.slow
def test_board_whose_dma_blocks_gains_nothing_by_double_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_ALONE", "1")
    settings = {"board": "gapuino"}
    budgets = {1: 6000, 2: 7000}
    plan = build_app(
        graph("residual"), "gap8", tmp_path / "app", budgets=budgets, settings=settings
    )
    assert all(b == 1 for s in plan.steps for b in (s.schedule.buffering.x, s.schedule.buffering.y))
    assert run(tmp_path / "app").exact


@pytest.mark.slow
def test_clocks_and_voltage_are_those_of_the_options(tmp_path: Path) -> None:
    settings = {"operating_point": "1.2V", "f_cluster": "150", "f_io": "200"}
    plan = build_app(graph("residual"), "gap8", tmp_path / "app", settings=settings)
    assert plan.operating_point is not None
    assert plan.operating_point.core_hz == 150e6
    done = make(tmp_path / "app", "clean", "all", "run")
    assert "1200 mV, fabric 200000000 Hz, cluster 150000000 Hz" in done.stderr


@pytest.mark.parametrize(
    "settings",
    [
        {"f_cluster": "120"},
        {"f_io": "-1"},
        {"operating_point": "1.2V", "f_cluster": "200"},
    ],
)
def test_clocks_that_the_chip_does_not_have_are_wrong_usage(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is not possible at 1"):
        load_plugins().context("gap8", settings)


def test_readme_tells_how_to_build_for_the_board(app: Path) -> None:
    text = (app / "README.md").read_text()
    assert "make clean all run platform=board PMSIS_OS=pulpos" in text
    assert "make clean all run platform=gvsoc PMSIS_OS=pulpos" in text
