"""Buses to memories outside of the chip, with what a transfer over them costs.

No chip was measured. Clocks are those that boards have, rates follow by counting clocks:

- QUADSPI: four bits per clock of 100 MHz, which most such flashes reach; command, address and dummy
  clocks, some thirty, before a run (RM0433, QUADSPI, memory-mapped mode). It goes on reading after
  an access, so that a transfer in order is one run.
- OCTOSPI: eight bits on both edges of 100 MHz, as the flashes of ST's discovery boards with an
  STM32H735 or H7B3 (RM0468, RM0455).
- XSPI: the same at 200 MHz; of its PSRAM 16 bits (RM0477, and ST's board of the STM32H7S7).
- FMC: SDRAM of 16 bits at 100 MHz; a run opens a row and waits for the column, some eight clocks.
  The MDMA makes runs of 64 bytes, its longest bursts; 32 bits are up to twice as fast.
  Published for an STM32H743 with a W9825G6KH (mikrocontroller.net, topic 571964): 183 MB/s written,
  and 21.5 MB/s read by loads of two bytes, which are nine clocks each if the clock is 100 MHz.

What the core copies itself are runs of a line of its cache.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
WINDOW = 256 * KIB * KIB


@dataclass(frozen=True, slots=True)
class Bus:
    """A bus to a memory outside of the chip.

    Attributes:
        hz: Its clock.
        bits: Bits that it moves per clock.
        setup_clocks: Clocks before a run of bytes.
        run_bytes: Bytes of a run of the DMA; 0 when a whole transfer is one.
        window: Most bytes that it maps.
    """

    hz: float
    bits: int
    setup_clocks: int
    run_bytes: int = 0
    window: int = WINDOW

    def cycles(self, bytes_: int, core_hz: float) -> float:
        """Return the cycles of a core at ``core_hz`` that a run of bytes takes."""
        return (self.setup_clocks + 8 * bytes_ / self.bits) * core_hz / self.hz

    def setup_cycles(self, core_hz: float) -> int:
        """Return the cycles before a run."""
        return round(self.cycles(0, core_hz))

    def rate(self, run_bytes: int, core_hz: float) -> float:
        """Return the bytes per cycle of runs of ``run_bytes``; 0: of one run without an end."""
        if run_bytes == 0:
            return self.bits / 8 * self.hz / core_hz
        return run_bytes / self.cycles(run_bytes, core_hz)


BUSES = {
    "quadspi": Bus(100e6, 4, 30),
    "octospi": Bus(100e6, 16, 25),
    "xspi": Bus(200e6, 16, 25),
    "xspi16": Bus(200e6, 32, 25, 64),
    "fmc": Bus(100e6, 16, 8, 64),
}
