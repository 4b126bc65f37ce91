"""Plans against a trace of images through a model of the whole chip, which is not ours.

The model of caches, branch predictor, fetch and MDMA lies beside the collection of networks;
without it the tests are skipped. What it counts is a layer's own: the hand-over of inputs and of
states is not.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import statistics
import subprocess
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from image import require_emulator

from dory_core.tools import load_plugins, read_plan

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
MODEL = Path("prototypes/cortex_m7/trace_model")
SHORT = ("tflm_hello_world", "mlperf_ad01_int8", "openmv_force_int_quant")
LONG = (
    *("tones", "nemo_small_cnn", "mlperf_kws_ref_model", "mlonmcu_rnnoise_int8"),
    *("mlonmcu_cnn_s", "mlperf_str_ww_ref_model", "silabs_image_example1"),
)
MEDIAN, WORST = 0.05, 0.15


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    require_emulator()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("bench_m7_cycles")


@pytest.fixture(scope="module")
def model(bench: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = bench.folder_of("").parent / MODEL
    compiler, objdump = shutil.which("cc"), shutil.which("arm-none-eabi-objdump")
    if not folder.is_dir() or compiler is None or objdump is None:
        pytest.skip("needs the trace model, cc and arm-none-eabi-objdump")
    copy = tmp_path_factory.mktemp("model") / "model"
    shutil.copytree(folder, copy)
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", "libm7.so", "m7.c"]
    subprocess.run(command, cwd=copy, check=True)
    found = importlib.util.spec_from_file_location("trace_model", copy / "run.py")
    assert found is not None and found.loader is not None
    loaded = importlib.util.module_from_spec(found)
    with warnings.catch_warnings():  # it takes names from where they once were
        warnings.simplefilter("ignore", DeprecationWarning)
        found.loader.exec_module(loaded)
    return loaded


def ratio(name: str, bench: ModuleType, model: ModuleType, directory: Path) -> float:
    """Return the cycles of a plan by those of the trace of its image."""
    bench.compile_app(name, directory, load_plugins(), {})
    traced = model.run(directory, {way: model.VARIANTS[way] for way in ("ideal", "full")})
    cycles = sum(layer["models"][1]["cyc"] for layer in traced["layers"].values())
    return float(read_plan(directory)["totals"]["cycles"] / cycles)


@pytest.mark.parametrize("names", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)])
def test_plans_are_near_the_trace(
    names: tuple[str, ...], bench: ModuleType, model: ModuleType, tmp_path: Path
) -> None:
    found = {name: ratio(name, bench, model, tmp_path / name) for name in names}
    apart = {name: abs(1 - value) for name, value in found.items()}
    assert statistics.median(apart.values()) <= MEDIAN, found
    assert max(apart.values()) <= WORST, found
