"""A hand-written double-buffered application: y = x + bias, 12 tiles of 50 bytes, on 4 cores.

Tests replace lines of it to plant one fault each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir import Tensor
from dory_core.simulate.compiler import Compiler
from dory_core.simulate.request import RunRequest
from dory_core.simulate.result import LayerOutput, RunResult
from dory_core.simulate.run import run_host
from dory_core.simulate.runtime import runtime_files

TILE, TILES = 50, 12
BYTES = TILE * TILES
TENSOR = Tensor("layer_03", 2, 10, 30, 0, 255, 8, False)
LAYER = LayerOutput(3, "add3", TENSOR)

NETWORK_H = """\
#ifndef NETWORK_H
#define NETWORK_H
#include <stdint.h>
#include "dory_io.h"
#define DORY_CORES 4
#define DORY_L1_SIZE 200
#define DORY_L2_SIZE 1205
#define DORY_L3_SIZE 1024
#define DORY_NETWORK_INPUT_BYTES 600
#define DORY_NETWORK_OUTPUT_BYTES 600
#define DORY_NETWORK_LAYERS 1
int dory_network_run(const dory_network_io_t *io);
typedef struct { const void *data; uint32_t bytes; } dory_table_t;
extern const dory_table_t dory_tables[];
extern const uint32_t dory_table_count;
#endif
"""

NETWORK_C = """\
#include <string.h>
#include "dory_hal.h"
#include "network.h"

static const uint8_t bias[50] = {1, 2, 3};
const dory_table_t dory_tables[] = {{bias, sizeof bias}};
const uint32_t dory_table_count = 1;

enum { TILE = 50, TILES = 12 };

static void add(const uint8_t *x, const uint8_t *b, uint8_t *y) {
  for (uint32_t i = dory_core_id(); i < TILE; i += dory_core_count()) y[i] = (uint8_t)(x[i] + b[i]);
}

static dory_copy_t copy_of(void *dst, const void *src, uint8_t dir) {
  dory_copy_t copy = {dst, src, 0, 0, 1, 0, 0, 0, 0, 1, dir};
  copy.n0 = TILE / 5;
  copy.n1 = 5;
  copy.dst_s1 = copy.src_s1 = TILE / 5;
  return copy;
}

int dory_network_run(const dory_network_io_t *io) {
  uint8_t *const l1 = io->l1, *const l2 = io->l2;
  uint8_t *const x[2] = {l1, l1 + 50}, *const y = l1 + 100, *const b = l1 + 150;
  const uint32_t core = dory_core_id();
  dory_copy_t copy;
  dory_ticket_t in = 0;
  if (core == 0) {
    memcpy(l2, io->input, 600);
    DORY_SIM_L2_DEFINE(l2, 600);
  }
  DORY_SIM_LAYER(3, "add3");
  dory_barrier(); /* begins */
  if (core == 0) {
    copy = copy_of(b, bias, DORY_L2_TO_L1);
    dory_dma_wait(dory_dma_start(&copy));
    copy = copy_of(x[0], l2, DORY_L2_TO_L1);
    in = dory_dma_start(&copy);
  }
  for (int t = 0; t < TILES; ++t) {
    if (core == 0) {
      dory_dma_wait(in);
      copy = copy_of(x[(t + 1) & 1], l2 + (t + 1) * TILE, DORY_L2_TO_L1);
      if (t + 1 < TILES) in = dory_dma_start(&copy);
    }
    dory_barrier(); /* before */
    DORY_SIM_TILE(t, DORY_READS(b, TILE));
    if (core == 0) {
      DORY_SIM_READ(x[t & 1], TILE);
      DORY_SIM_WRITE(y, TILE);
    }
    add(x[t & 1], b, y);
    dory_barrier(); /* after */
    if (core == 0) {
      copy = copy_of(l2 + 600 + t * TILE, y, DORY_L1_TO_L2);
      dory_dma_wait(dory_dma_start(&copy));
    }
  }
  if (core == 0) {
    DORY_SIM_LAYER_END();
    io->on_layer(io->user, 3, l2 + 600, 600);
    memcpy(io->output, l2 + 600, 600);
    DORY_SIM_L2_DEAD(l2, 600);
  }
  dory_barrier();
  return DORY_OK;
}
"""


def expected_of(data: bytes) -> Mapping[int, npt.NDArray[np.int64]]:
    """Return the values of layer 3 for an input, flattened in HWC order."""
    bias = np.zeros(TILE, np.int64)
    bias[:3] = (1, 2, 3)
    x = np.frombuffer(data, np.uint8).astype(np.int64).reshape(TILES, TILE)
    return {3: ((x + bias) & 255).reshape(10, 30, 2)}


INPUTS = tuple(bytes((i * factor + 7) % 256 for i in range(BYTES)) for factor in (1, 3))
EXPECTED = tuple(expected_of(data) for data in INPUTS)


def write_app(
    folder: Path,
    replace: Mapping[str, str] | None = None,
    header: Mapping[str, str] | None = None,
    sources: Mapping[str, str] | None = None,
) -> Path:
    """Write the application and return its directory.

    replace, header: text to replace in network.c and network.h; each must occur. sources: files
    to write in addition, path to content.
    """
    network, network_h = NETWORK_C, NETWORK_H
    for old, new in (replace or {}).items():
        assert old in network, old
        network = network.replace(old, new)
    for old, new in (header or {}).items():
        assert old in network_h, old
        network_h = network_h.replace(old, new)
    files: dict[str, bytes] = dict(runtime_files())
    files["src/network.c"] = network.encode()
    files["src/network.h"] = network_h.encode()
    files["Makefile"] = b"include hal/host/host.mk\n"
    files["vectors/input.bin"] = b"".join(INPUTS)
    files["vectors/layer_03.bin"] = b"".join(
        values[3].astype(np.uint8).tobytes() for values in EXPECTED
    )
    files.update({path: text.encode() for path, text in (sources or {}).items()})
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return folder


def line_of(app_dir: Path, text: str, occurrence: int = 0) -> int:
    """Return the line number of network.c that contains ``text``."""
    lines = (app_dir / "src/network.c").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if text in line][occurrence]


def simulate(app_dir: Path, *, compiler: Compiler | None = None, **request: Any) -> RunResult:
    """Run an application on the host simulation; ``request``: fields of a RunRequest."""
    return run_host(app_dir, RunRequest(**request), compiler=compiler)
