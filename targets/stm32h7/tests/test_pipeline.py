"""The model of the Cortex-M7's pipeline against what was measured on an STM32H743.

Source: public project jnk0le/random, pipeline cycle test, doc/cortex_m7.md.
"""

from __future__ import annotations

import pytest
from dory_stm32h7.emulator.pipeline import cycles


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        # Two per cycle, unless both multiply, both store, or one needs the other's result.
        (["add r0, r1, r2", "add r3, r4, r5"], 1),
        (["smlad r0, r1, r2, r0", "smlad r3, r4, r5, r3"], 2),
        (["str r0, [r1]", "str r2, [r3]"], 2),
        (["add r0, r1, r2", "add r1, r0, r2"], 2),
        (["mul r0, r0, r1"], 2),
        (["smlad r0, r1, r2, r0"], 1),
        # Loads pair from different banks.
        (["ldr r0, [r2, #0]", "ldr r1, [r2, #4]"], 1),
        (["ldr r0, [r2, #0]", "ldr r1, [r2, #8]"], 2),
        # Floating point: arithmetic does not pair and has results after 3 cycles.
        (["vadd.f32 s0, s1, s2", "vmul.f32 s3, s4, s5"], 2),
        (["vadd.f32 s0, s0, s1"], 3),
        (["vmov s0, r0", "vcvt.f32.s32 s0, s0", "vmul.f32 s0, s0, s1", "vmov r0, s0"], 10),
        (["vdiv.f32 s0, s1, s2"], 16),
        (["vsqrt.f32 s0, s1"], 14),
    ],
)
def test_cycles_of_a_block_are_the_measured_ones(block: list[str], expected: int) -> None:
    assert cycles(block) == pytest.approx(expected)
