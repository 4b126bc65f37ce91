"""Transfers between L3 and L2: adversarial like the others, checked like the others."""

# ruff: noqa: E501 (lines of C, and tables of them)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dory_core.errors import VerificationFailed
from dory_core.simulate.run import DMA_MODES

from .mini import INPUTS, LAYER, simulate, write_app

IMAGE = bytes((i * 5 + 1) % 256 for i in range(200))

# y = x + image: x is spilled to L3 above the image and fetched again in three parts.
NETWORK_C = """\
#include <string.h>
#include "dory_hal.h"
#include "network.h"
const dory_table_t dory_tables[] = {{0, 0}};
const uint32_t dory_table_count = 0;
int dory_network_run(const dory_network_io_t *io) {
  uint8_t *const l2 = io->l2;
  if (dory_core_id() == 0) {
    memcpy(l2, io->input, 600);
    DORY_SIM_L2_DEFINE(l2, 600);
    dory_ext_wait(dory_ext_start(l2, 200, 600, DORY_L2_TO_L3));
    DORY_SIM_L2_DEAD(l2, 600);
    dory_ticket_t t[4];
    for (uint32_t i = 0; i < 3; ++i) t[i] = dory_ext_start(l2 + 200 * i, 200 + 200 * i, 200, DORY_L3_TO_L2);
    t[3] = dory_ext_start(l2 + 600, 0, 200, DORY_L3_TO_L2);
    DORY_SIM_LAYER(3, "add3"); /* a prefetch may cross the border of layers */
    for (int i = 3; i >= 0; --i) dory_ext_wait(t[i]);
    DORY_SIM_READ(l2, 800);
    DORY_SIM_WRITE(l2, 600);
    for (uint32_t i = 0; i < 600; ++i) l2[i] = (uint8_t)(l2[i] + l2[600 + i % 200]);
    DORY_SIM_LAYER_END();
    io->on_layer(io->user, 3, l2, 600);
    memcpy(io->output, l2, 600);
  }
  dory_barrier();
  return DORY_OK;
}
"""


def expected(data: bytes) -> dict[int, np.ndarray]:
    x = np.frombuffer(data, np.uint8).astype(int)
    image = np.frombuffer(IMAGE, np.uint8).astype(int)
    return {3: (x + np.tile(image, 3)) & 255}


def app_with(tmp_path: Path, old: str = "", new: str = "", header: str = "") -> Path:
    assert old in NETWORK_C
    app = write_app(
        tmp_path,
        header={"#define DORY_CORES 4": f"#define DORY_CORES 4\n{header}"},
        sources={"src/network.c": NETWORK_C.replace(old, new, 1) if old else NETWORK_C},
    )
    (app / "weights").mkdir()
    (app / "weights/l3.bin").write_bytes(IMAGE)
    return app


@pytest.mark.parametrize("dma", DMA_MODES)
def test_spill_and_prefetch_are_exact(tmp_path: Path, dma: str) -> None:
    result = simulate(
        app_with(tmp_path),
        layers=[LAYER],
        expected=[expected(data) for data in INPUTS],
        inputs=INPUTS,
        dma=dma,
        repeat=3,
        output_layers=[3],
    )
    assert result.exact
    assert len(result.runs) == 6


@pytest.mark.sample(3)
@pytest.mark.parametrize("dma", DMA_MODES)
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("int i = 3; i >= 0", "int i = 3; i >= 1", "layer 3 'add3': tile reads byte 0 of L2 while the transfer started at network.c:14"),
        ("DORY_SIM_READ(l2, 800);", "DORY_SIM_READ(l2, 801);", "tile reads bytes of L2 that nothing wrote: bytes 800..800"),
        ("l2 + 600, 0, 200", "l2 + 1006, 0, 200", "L3 transfer of 200 bytes does not lie inside L2"),
        ("l2 + 600, 0, 200", "io->l1, 0, 200", "L3 transfer of 200 bytes does not lie inside L2"),
        ("l2 + 600, 0, 200", "l2 + 600, 825, 200", "transfer of L3 bytes 825..1024, outside L3 of 1024 bytes"),
        ("l2 + 600, 0, 200", "l2 + 600, 800, 200", "transfer reads L3 bytes 800..999 that nothing wrote"),
        ("l2 + 600, 0, 200", "l2 + 599, 0, 200", "transfer writes byte 599 of L2 while the transfer started at network.c:14"),
        ("l2 + 600, 0, 200", "l2 + 600, 0, 0", "empty transfer between L3 and L2"),
        ("(l2, 200, 600,", "(l2, 199, 600,", "transfer writes L3 byte 199, part of the weights"),
        ("dory_ext_wait(t[i])", "dory_dma_wait(t[i])", "between L3 and L2 is given to dory_dma_wait"),
    ],
)  # fmt: skip
def test_faults_are_found(tmp_path: Path, dma: str, old: str, new: str, reason: str) -> None:
    with pytest.raises(VerificationFailed) as caught:
        simulate(
            app_with(tmp_path, old, new),
            layers=[LAYER],
            expected=[expected(INPUTS[0])],
            inputs=INPUTS[:1],
            dma=dma,
        )
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("#define DORY_EXT_ALIGN 16", "is no multiple of 16 bytes"),
        ("#define DORY_EXT_MAX_BYTES 599", "L3 transfer of 600 bytes, more than the limit of 599"),
    ],
)
def test_limits_of_the_external_link(tmp_path: Path, header: str, reason: str) -> None:
    with pytest.raises(VerificationFailed, match=reason):
        simulate(
            app_with(tmp_path, header=header),
            layers=[LAYER],
            expected=[expected(INPUTS[0])],
            inputs=INPUTS[:1],
        )


def test_ticket_left_at_the_end_of_the_network(tmp_path: Path) -> None:
    app = app_with(
        tmp_path,
        "    memcpy(io->output",
        "    (void)dory_ext_start(l2 + 900, 0, 10, DORY_L3_TO_L2);\n    memcpy(io->output",
    )
    with pytest.raises(
        VerificationFailed, match=r"started at network.c:23 .* was never waited for"
    ):
        simulate(app, layers=[LAYER], expected=[expected(INPUTS[0])], inputs=INPUTS[:1])
