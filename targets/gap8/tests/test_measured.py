"""Estimates of whole networks: against cycles measured on GVSOC, and within more and more L2."""

from __future__ import annotations

from pathlib import Path

import pytest

import dory_core.tools as dory

SHARED = Path(__file__).resolve().parents[4] / "shared"

#: Cycles of the first inference on GVSOC (`dory: network cycles`), means over two or three places
#: of the code in L2. Those of okay_nabu spread by 4 % over random orders of its objects.
MEASURED = {
    "nets/nemo_mv1_025_96/net.onnx": 694_604,
    "nets/nemo_mv2_035_96/net.onnx": 899_022,
    "nets/quantlab_mv1_025_96_4b/net.onnx": 688_405,
    "nets/nemo_ds_cnn_kws/net.onnx": 231_309,
    "nets/nemo_eegnet_1d_8b_1xW/net.onnx": 39_040,
    "nets/nemo_TCN_T/net.onnx": 115_079,
    "nets/nemo_PenguiNet_32/net.onnx": 873_811,
    "nets/nemo_NAS_Frontnet/net.onnx": 595_455,
    "nets/nemo_resnet8/net.onnx": 716_788,
    "nets/nemo_dronet_complete/net.onnx": 2_813_525,
    "nets/nemo_proxylessnas_pulp_dronet/net.onnx": 6_161_975,
    "nets_tflite/mlperf_vww_96_int8/net.tflite": 470_191,
    "nets_tflite/mlperf_kws_ref_model/net.tflite": 244_362,
    "nets_tflite/esphome_okay_nabu/net.tflite": 45_261,
    "nets_tflite/tflm_micro_speech/net.tflite": 38_156,
    "nets_tflite/openmv_movenet_192/net.tflite": 21_241_170,
    "nets_onnx/qdq_micro_kws_m/net.onnx": 483_800,
    "nets_onnx/qdq_mlperf_kws_k1/net.onnx": 282_578,
    "nets_onnx/qdq_mlperf_resnet8_k1/net.onnx": 778_092,
    "nets_onnx/ortq_vww96_u8s8_pc/net.onnx": 529_479,
}
QUICK = ("eegnet", "TCN_T", "okay_nabu", "ds_cnn", "kws_k1", "micro_speech")


def network_of(name: str) -> Path:
    """Return the file of a network; skip where it is not there."""
    network = SHARED / name
    if not network.is_file():
        pytest.skip(f"{network} is not there")
    return network


def cases() -> list[object]:
    """Return the networks, those that take long marked."""
    return [
        pytest.param(name, marks=() if any(q in name for q in QUICK) else pytest.mark.slow)
        for name in MEASURED
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", cases())
def test_totals_are_within_five_percent_of_the_simulator(name: str) -> None:
    estimate = dory.compile(network_of(name), target="gap8").cycles
    assert estimate == pytest.approx(MEASURED[name], rel=0.05)


def test_more_l2_is_hardly_slower() -> None:
    """Streamed networks are also cut for less L2: small constants are there earlier."""
    network = network_of("nets/nemo_small_cnn/net.onnx")
    cycles = [
        dory.compile(network, target="gap8", l2=l2).cycles
        for l2 in (28_000, 32_000, 37_000, 41_500, 46_700)
    ]
    for n in range(1, len(cycles)):
        assert cycles[n] <= 1.05 * min(cycles[:n])
