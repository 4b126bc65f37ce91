"""Generated applications with one line changed: the run says which layer breaks which rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from array_networks import network_cases

from dory_core.api import VerificationFailed
from dory_core.testing.apps import assert_exact, build_app


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    app = tmp_path_factory.mktemp("mixed") / "app"
    case = next(case for case in network_cases() if str(case) == "mixed")
    build_app(case.build(), "diana", app)
    return app


# Layer 0 is a digital convolution, layer 1 an analog one, layer 3 a sum.
CHANGES = [
    (0, ".output_shift = ", ".output_shift = 32 + ", "digital_conv_2d: output_shift = "),
    (0, ".c = ", ".c = 1 + ", "digital_conv_2d: c = 17 is not a multiple of 16"),
    (0, ".oy = ", ".oy = 1 + ", "digital_conv_2d: the last of "),
    (
        0,
        "dory_diana_l1(l1 + L1_X)",
        "dory_diana_l1(l1 + L1_X + 8)",
        "l1_x = 8 is not a multiple of 16",
    ),
    (
        0,
        "dory_diana_l1(l1 + L1_X)",
        "dory_diana_l1(l2)",
        "dory_diana_l1 is given a pointer that is not",
    ),
    (0, "dory_weights_00)", "dory_weights_00 + 32)", "at l2_W do not lie in L2"),
    (0, "dory_cores_barrier_digital();", "", "analog_conv_2d: starts before the job of digital_"),
    (0, "    dory_cores", "    l1[0] = 1;\n    dory_cores", "touches byte 0 of L1"),
    (1, ".k = 32", ".k = 16", "holds a weight, but there are 144 rows and 16 columns"),
    (1, ".ox_unroll = ", ".ox_unroll = 1 + ", "ox_unroll = 3 is not 1, 2 or 4"),
    (3, ".ox = ", ".ox = 16 + ", "element_wise_sum: ox = "),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("layer", "old", "new", "words"), CHANGES, ids=[f"{c[0]}-{c[1].strip()}" for c in CHANGES]
)
def test_a_changed_call_is_named(mixed: Path, layer: int, old: str, new: str, words: str) -> None:
    source = mixed / f"src/dory_layer_{layer:02}.c"
    text = source.read_text()
    assert text.count(old) == 1, text
    try:
        source.write_text(text.replace(old, new))
        with pytest.raises(VerificationFailed) as failed:
            assert_exact(mixed)
    finally:
        source.write_text(text)
    assert words in failed.value.message
    assert "layer " in failed.value.message and ", tile 0: " in failed.value.message


def test_nothing_is_found_before_a_line_is_changed(mixed: Path) -> None:
    assert_exact(mixed)
