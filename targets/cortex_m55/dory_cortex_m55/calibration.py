"""Everything that estimates rest on, with its source: a model of the core. No chip was measured."""

from __future__ import annotations

# Copies by the core, 16 bytes in a load and a store of two cycles each (hal/dory_copy.c). A start
# is a call with its loops; a row begins a loop.
COPY_SETUP = 40
COPY_ROW = 10.0
COPY_BYTES_PER_CYCLE = 4.0
# From the core to SRAM and back over AXI, once for a run of lines that are fetched ahead.
RAM_LATENCY = 12
# A DMA that the program drives: writing its registers, and a row's descriptor. By counting.
DMA_SETUP = 150
DMA_ISSUE = 100
DMA_ROW = 8.0
