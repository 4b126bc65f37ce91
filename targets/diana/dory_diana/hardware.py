"""Memories, links, options and operating points of Diana, as data with their sources."""

from __future__ import annotations

from dory_core.api import (
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    OperatingPoint,
    Option,
    Target,
    TargetContext,
)
from dory_diana.options import ADC_SCALE, ENGINES, REQUANT, engines_of

NAME = "diana"

# Houshmand et al., "DIANA: An End-to-End Hybrid DIgital and ANAlog Neural Network SoC for the
# Edge", JSSC 2023: 256 KiB of activations shared by the arrays, 512 KiB of L2 for the host.
L1_KIB = ("256", "128")
DIGITAL_WEIGHT_BYTES = 64 * 1024
# 1152 rows of 512 cells of two bits, and mul and add of each column.
ANALOG_WEIGHT_BYTES = 1152 * 512 // 4 + 512 * 8
L2_BYTES = 512 * 1024
# The stack that a network may use: layers, kernels and the calls of the driver.
STACK_BYTES = 2 * 1024
# Runtime, driver, kernels, stack and heap of the host lie in L2 next to the network.
L2_RESERVED_BYTES = 46 * 1024 + STACK_BYTES
# Code of a layer: its tile loop with the constants in it.
CODE_BYTES_PER_LAYER = (768, 768)

# 16 x 16 multipliers of the digital array, one product each per cycle; 1152 x 512 cells of the
# analog one, whose operation takes 70 ns.
DIGITAL_MACS_PER_CYCLE = 256.0
ANALOG_MACS_PER_CYCLE = 1152 * 512 / (70e-9 * 260e6)

NOMINAL = OperatingPoint(
    "260MHz",
    core_hz=260e6,
    io_hz=260e6,
    energy_j_per_cycle=2 * DIGITAL_MACS_PER_CYCLE / 14e12,
    source="public cost models of the arrays: 260 MHz; JSSC 2023: 14 TOP/s/W at 8 bits, the best "
    "that the digital array reaches, taken for every cycle of the arrays: a lower bound",
    engines=("digital", "analog"),
)

TARGET = Target(
    NAME,
    "Diana: a RISC-V host with 512 KiB of L2, a digital 16x16 array and an analog 1152x512 one",
    options=(
        Option(
            "l1_kib",
            int,
            256,
            "KiB of the memory for activations that the arrays share: 256 or 128",
            L1_KIB,
        ),
        Option(
            "engines",
            str,
            ",".join(ENGINES),
            "who may compute layers: a list of digital, analog, host",
        ),
        Option(
            "requant",
            str,
            REQUANT[0],
            "exact: arrays take layers whose requantisation they have exactly; approximate: others "
            "get the nearest one, and how many outputs differ on the test vectors is reported",
            REQUANT,
        ),
        Option(
            "adc_scale",
            int,
            ADC_SCALE,
            "accumulators per step of the analog array's converters, a property of the chip",
        ),
        Option(
            "form",
            str,
            "application",
            "application: with main and Makefile for the chip; library: the layers' functions and "
            "one header, for a runtime of your own",
            ("application", "library"),
        ),
    ),
    operating_points=(NOMINAL,),
)

# A call of the DMA takes 70 cycles until its first bytes arrive, and then moves 16 per cycle
# (public cost models of the chip); the host waits for it.
DMA = Link(
    upper=1,
    lower=2,
    setup_cycles=70,
    bytes_per_cycle=16.0,
    issue_cycles=70,
    blocking=True,
)

# A layout conversion by the host: the loop over the elements of a row has 8 instructions.
CONVERSION_CYCLES = 8.0


def hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the chip. The host computes only on L2: it does not reach L1."""
    activations = frozenset({"activations"})
    l1 = (
        Memory("L1", int(ctx.options.get("l1_kib", 256)) * 1024, 0, activations, 16),
        Memory("digital weights", DIGITAL_WEIGHT_BYTES, holds=frozenset({"digital weights"})),
        Memory("analog array", ANALOG_WEIGHT_BYTES, holds=frozenset({"analog weights"})),
    )
    l2 = Memory(
        "L2 SRAM",
        L2_BYTES,
        L2_RESERVED_BYTES,
        activations | {"weights", "code"},
        alignment_bytes=16,
        code_bytes_per_layer=CODE_BYTES_PER_LAYER,
    )
    return MemoryHierarchy(
        (Level(1, l1), Level(2, (l2,))),
        (DMA,),
        peak_macs_per_cycle=ANALOG_MACS_PER_CYCLE
        if "analog" in engines_of(ctx)
        else DIGITAL_MACS_PER_CYCLE,
        storage_bits=(8, 16, 32),
        channel_multiple=16,
        conversion_cycles=CONVERSION_CYCLES,
        resident_l1=True,
        engine_peaks=(
            ("digital", DIGITAL_MACS_PER_CYCLE),
            ("analog", round(ANALOG_MACS_PER_CYCLE)),
        ),
    )
