"""Whole networks: the image of the Corstone-300 on QEMU, and the same C on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from dory_cortex_m55 import qemu, toolchain
from emulated import choose_compiler, require_qemu

from dory_core.api import ToolMissing, Traits, UsageError
from dory_core.testing import CompileOptions, Plugins, compile_network, run_application
from dory_core.tools import load_plugins, read_plan
from tests.nets import net, net_params, tflite_names, tflite_net

ROOT = Path(__file__).resolve().parents[3]
TONES = ROOT / "examples/tones"
# The four of MLPerf Tiny: detection of anomalies, keywords, images, a person.
MLPERF = (
    "mlperf_ad01_int8",
    "mlperf_kws_ref_model",
    "mlperf_pretrainedResnet_quant",
    "mlperf_vww_96_int8",
)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def compiled(
    plugins: Plugins, network: Path, golden: Path, app: Path, settings: dict[str, str] | None = None
) -> None:
    options = CompileOptions(
        network, "cortex_m55", "tflite", app, golden=(golden,), settings=settings or {}
    )
    assert compile_network(options, plugins).golden_exact


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("zig", marks=pytest.mark.slow)])
def test_image_is_exact_in_every_layer(
    compiler: str, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_qemu()
    choose_compiler(compiler, monkeypatch)
    compiled(plugins, TONES / "net.tflite", TONES / "golden.npz", tmp_path / "app")
    result = run_application(tmp_path / "app", plugins=plugins, runner="qemu", repeat=2)
    assert result.exact and result.runner == "qemu" and result.reference == "tflm"
    counts = [layer.instructions for layer in result.runs[0].layers]
    # Layer 6 multiplies 147456 pairs, 16 in an instruction; portable C takes 15 of them for each.
    assert all(count > 0 for count in counts) and counts[6] < 147456


def test_constants_in_ram_are_read_there(plugins: Plugins, tmp_path: Path) -> None:
    """The fully connected layer reads them where they are linked, other layers load them."""
    require_qemu()
    net, golden, app = TONES / "net.tflite", TONES / "golden.npz", tmp_path / "app"
    compiled(plugins, net, golden, app, {"constants": "ram"})
    constants = [
        (layer["kernel"], layer["weights"])
        for layer in read_plan(app)["layers"]
        if layer["weights"] is not None
    ]
    linked = {kernel for kernel, each in constants if each["fetched"] == Traits.LINKED}
    assert linked == {"dory_cortex_m55_linear"}
    assert {each["level"] for _, each in constants} == {2}
    assert "_weights_*) } > SRAM" in (app / toolchain.SCRIPT).read_text()
    assert run_application(app, plugins=plugins, runner="qemu").exact


@pytest.mark.slow
def test_portable_c_computes_the_same(plugins: Plugins, tmp_path: Path) -> None:
    require_qemu()
    settings = {"kernels": "portable", "part": "ensemble-hp"}
    compiled(plugins, TONES / "net.tflite", TONES / "golden.npz", tmp_path / "app", settings)
    assert run_application(tmp_path / "app", plugins=plugins, runner="qemu").exact


@pytest.mark.slow
@pytest.mark.parametrize("name", tflite_names() or [""])
def test_networks_are_exact_on_the_emulated_chip(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    require_qemu()
    if not name:
        pytest.skip("no TensorFlow Lite networks beside the project")
    net = tflite_net(name)
    compiled(plugins, net.path, net.golden, tmp_path / "app")
    assert run_application(tmp_path / "app", plugins=plugins, runner="qemu").exact
    if name in MLPERF:
        assert run_application(tmp_path / "app", plugins=plugins, runner="host").exact


@pytest.mark.slow
@pytest.mark.parametrize("name", net_params())
def test_networks_of_quantisers_are_exact_on_the_emulated_chip(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    require_qemu()
    found = net(name)
    options = CompileOptions(
        found.onnx,
        "cortex_m55",
        found.frontend,
        tmp_path / "app",
        golden=(found.golden,),
        input_bits=found.input_bits,
        input_signed=found.input_signed,
    )
    assert compile_network(options, plugins).golden_exact
    assert run_application(tmp_path / "app", plugins=plugins, runner="qemu").exact


def test_what_only_the_simulation_has_is_refused(plugins: Plugins, tmp_path: Path) -> None:
    compiled(plugins, TONES / "net.tflite", TONES / "golden.npz", tmp_path / "app")
    with pytest.raises(UsageError, match="neither DMA modes nor sanitizers"):
        run_application(tmp_path / "app", plugins=plugins, runner="qemu", dma="late")


def test_missing_qemu_is_named(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(plugins, TONES / "net.tflite", TONES / "golden.npz", tmp_path / "app")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert not qemu.runner().preferred and qemu.PROGRAM in qemu.runner().missing
    with pytest.raises(ToolMissing, match="qemu-system-arm"):
        run_application(tmp_path / "app", plugins=plugins, runner="qemu")
