"""A correct application: every mode, sanitizer and compiler gives the same, exact layers."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dory_core.errors import DoryError, UsageError
from dory_core.ir import Tensor
from dory_core.simulate.compiler import ZIGLANG, Compiler, find_compiler
from dory_core.simulate.request import RunRequest
from dory_core.simulate.result import LayerOutput
from dory_core.simulate.run import DMA_MODES
from dory_core.simulate.runner import HOST_RUNNER
from dory_core.simulate.runtime import runtime_files
from dory_core.testing.compilers import host_compiler_text
from dory_core.testing.sanitizers import require_sanitizer

from .mini import EXPECTED, INPUTS, LAYER, simulate, write_app


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("dma", DMA_MODES)
def test_every_mode_is_exact_on_embedded_vectors(tmp_path: Path, dma: str, seed: int) -> None:
    result = simulate(
        write_app(tmp_path),
        layers=[LAYER],
        expected=EXPECTED,
        dma=dma,
        seed=seed,
        repeat=2,
        output_layers=[3],
        target="mini",
    )
    assert result.exact
    assert [run.input for run in result.runs] == ["input 0", "input 1"] * 2


@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize("dma", DMA_MODES)
def test_sanitizers_have_nothing_to_say(tmp_path: Path, dma: str, sanitize: str) -> None:
    require_sanitizer(sanitize)
    app = write_app(tmp_path)
    result = simulate(app, layers=[LAYER], expected=EXPECTED, dma=dma, sanitize=sanitize)
    assert result.exact
    assert (app / f"build/host-{sanitize.replace(',', '-')}/app").is_file()


@pytest.mark.sanitizer
def test_the_program_gives_its_memory_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As who runs `make SANITIZE=address run` sees it."""
    require_sanitizer("address,undefined")
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1")
    try:
        simulate(
            write_app(tmp_path), layers=[LAYER], expected=EXPECTED, sanitize="address,undefined"
        )
    except DoryError as error:
        if "LeakSanitizer has encountered a fatal error" in error.message:
            pytest.skip("leaks cannot be looked for in this process")
        raise


def test_first_mismatch_is_named(tmp_path: Path) -> None:
    wrong = EXPECTED[0][3].copy()
    wrong[4, 7, 1] += 5
    wrong[9, 29, 1] -= 1
    result = HOST_RUNNER.run(
        write_app(tmp_path),
        RunRequest(
            layers=[LAYER],
            expected=[{3: wrong}],
            inputs=INPUTS[:1],
            input_names=["a.txt"],
            target="mini",
            dma="random",
        ),
    )
    assert not result.exact
    document = json.loads(json.dumps(result.to_json()))
    right = int(EXPECTED[0][3][4, 7, 1])
    assert document == {
        "version": 1,
        "target": "mini",
        "runner": "host",
        "dma": "random",
        "reference": "",
        "exact": False,
        "notes": [],
        "runs": [
            {
                "input": "a.txt",
                "layers": [
                    {
                        "index": 3,
                        "name": "add3",
                        "exact": False,
                        "mismatches": 2,
                        "first": {"c": 1, "h": 4, "w": 7, "expected": right + 5, "got": right},
                        "cycles": None,
                        "instructions": None,
                        "macs": 0,
                        "tensor": "",
                        "not_computed": 0,
                    }
                ],
            }
        ],
    }


def test_dump_leaves_out_what_nothing_computes(tmp_path: Path) -> None:
    tensor = Tensor("y", 2, 1, 2, 0, 9, 8, False, removed=((0, 7), (2, None)))
    layer = LayerOutput(3, "layer", tensor)
    values = layer.full(np.array([[[1, 2], [3, 4]]]))
    request = RunRequest([layer], [{3: values}], dump=tmp_path)
    request.save(0, {3: values})
    assert np.load(tmp_path / "layer_03_channels.npy").tolist() == [0, 1, 3]
    assert np.load(tmp_path / "layer_03.npy").tolist() == [[[7, 1, 2], [7, 3, 4]]]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "layer_03.npy",
        "layer_03_channels.npy",
    ]


def test_dump_holds_true_integers(tmp_path: Path) -> None:
    app = write_app(tmp_path / "app")
    simulate(app, layers=[LAYER], expected=EXPECTED, dump=tmp_path / "two")
    simulate(app, layers=[LAYER], expected=EXPECTED[:1], inputs=INPUTS[:1], dump=tmp_path / "one")
    first = np.load(tmp_path / "one/layer_03.npy")
    assert first.shape == (10, 30, 2)
    np.testing.assert_array_equal(first, EXPECTED[0][3])
    np.testing.assert_array_equal(np.load(tmp_path / "two/run_01/layer_03.npy"), EXPECTED[1][3])


def test_input_or_expected_of_the_wrong_size_is_a_usage_error(tmp_path: Path) -> None:
    app = write_app(tmp_path)
    with pytest.raises(UsageError, match="size is no multiple of the network's input"):
        simulate(app, layers=[LAYER], expected=EXPECTED[:1], inputs=[INPUTS[0][:-1]])
    with pytest.raises(UsageError, match=r"layer 3 'add3' have shape \(599,\)"):
        simulate(app, layers=[LAYER], expected=[{3: np.zeros(599, int)}], inputs=INPUTS[:1])
    with pytest.raises(UsageError, match="no expected values for layer 3"):
        simulate(app, layers=[LAYER], expected=[{}], inputs=INPUTS[:1])
    with pytest.raises(UsageError, match="has 2 inputs, expected values are given for 1"):
        simulate(app, layers=[LAYER], expected=EXPECTED[:1])


def test_make_run_needs_no_python(tmp_path: Path) -> None:
    app = write_app(tmp_path)

    def make(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", "-s", "-j2", f"CC={host_compiler_text()}", *arguments],
            cwd=app,
            capture_output=True,
            text=True,
            check=False,
        )

    result = make("run")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "run 0\nlayer 3 exact 600\nrun 1\nlayer 3 exact 600\n"

    vectors = app / "vectors/layer_03.bin"
    changed = bytearray(vectors.read_bytes())
    changed[640] ^= 1
    changed[650] ^= 1
    vectors.write_bytes(changed)
    result = make("run", "RUN_ARGS=--dma random --seed 9")
    assert result.returncode == 2  # what make itself returns
    assert "Error 5" in result.stderr
    got = changed[640] ^ 1
    assert result.stdout.endswith(
        f"layer 3 differs 2 of 600 bytes, first at byte 40: expected {changed[640]}, got {got}\n"
    )
    assert make("clean").returncode == 0
    assert not (app / "build").exists()


@pytest.mark.slow
def test_nothing_is_built_while_clean_removes_with_several_jobs(tmp_path: Path) -> None:
    app = write_app(tmp_path)
    for goals in (("all",), ("clean", "all"), ("clean", "run"), ("run", "clean")):
        command = ["make", "-s", "-j8", f"CC={host_compiler_text()}", *goals]
        done = subprocess.run(command, cwd=app, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert (app / "build/host/app").is_file() == (goals[-1] != "clean")


def test_make_rebuilds_what_changed(tmp_path: Path) -> None:
    app = write_app(tmp_path)

    def compiled(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["make", f"CC={host_compiler_text()}", *arguments],
            cwd=app,
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.split()[-3] for line in done.stdout.splitlines() if " -c " in line]

    assert "src/network.c" in compiled()
    assert compiled() == []
    header = app / "src/network.h"
    header.write_text(header.read_text() + "\n")
    assert sorted(compiled()) == ["hal/host/main_host.c", "src/network.c"]
    assert (
        len(compiled("CFLAGS=-O1")) == len([1 for p, _ in runtime_files() if p.endswith(".c")]) + 1
    )


def test_wrong_usage_of_the_program(tmp_path: Path) -> None:
    from dory_core.simulate.build import build

    app = write_app(tmp_path)
    program = build(app)
    for arguments in (
        ["--dma", "x"],
        ["--seed"],
        ["--seed", "-1"],
        ["--frob", "1"],
        ["--vectors", "no"],
    ):
        done = subprocess.run([program, *arguments], cwd=app, capture_output=True, check=False)
        assert done.returncode == 2, arguments


def test_runtime_is_complete_and_in_order() -> None:
    paths = [path for path, _ in runtime_files()]
    assert paths == sorted(paths)
    assert {
        "hal/include/dory_hal.h",
        "hal/include/dory_io.h",
        "hal/host/dory_hal_impl.h",
        "hal/host/main_host.c",
        "hal/host/host.mk",
    } <= set(paths)


def test_header_is_enough_for_a_chip(tmp_path: Path) -> None:
    """An implementation with inline functions compiles."""
    source = write_app(tmp_path) / "src/network.c"
    source.write_text(re.sub(r"^ *DORY_SIM_.*;\n", "", source.read_text(), flags=re.MULTILINE))
    (tmp_path / "chip").mkdir()
    (tmp_path / "chip/dory_hal_impl.h").write_text(
        "static inline uint32_t dory_core_id(void) { return 0; }\n"
        "static inline void dory_barrier(void) {}\n"
    )
    subprocess.run(
        [*find_compiler().command, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2",
         "-Ichip", "-Ihal/include", "-Iinc", "-Isrc", "-c", "src/network.c", "-o", "network.o"],
        cwd=tmp_path, check=True,
    )  # fmt: skip


def test_ziglang_compiles_and_runs_the_application(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="the ziglang wheel is not installed")
    version = subprocess.run([*ZIGLANG, "--version"], capture_output=True, text=True, check=True)
    compiler = Compiler(ZIGLANG, version.stdout)
    app = write_app(tmp_path)
    try:
        result = simulate(app, layers=[LAYER], expected=EXPECTED, dma="random", compiler=compiler)
    except DoryError as error:  # show the compiler's words
        pytest.fail(error.message)
    assert result.exact
