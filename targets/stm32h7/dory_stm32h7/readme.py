"""The README of an application: how to build and run it, or how to add it to another project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_stm32h7 import toolchain
from dory_stm32h7.part_files import cube_aliases
from dory_stm32h7.parts import part_of

if TYPE_CHECKING:
    from dory_core.api import Application, TargetContext

_APPLICATION = """\
## On the chip

`make image` builds `build/{variant}/{program}` with arm-none-eabi-gcc, or else with the compiler of
the ziglang wheel. With `pip install 'dory-stm32h7[emulator]'`, `dory run .` executes that very
image on an emulated {core} and counts instructions; without it the host simulation runs, and
`dory run` says which one ran and why. On a board, load it with a debugger that answers semihosting:
the program prints which outputs are exact and ends with 0 when all are, 5 when values differ, 70
when something failed.

`board/` is start-up code, linker script, a small C library and main. `board/board.h` names the weak
functions that another board replaces: where inputs come from, where outputs go. The clock stays
that of reset until `board_clock` is defined.
"""

_LIBRARY = """\
## In a project of your own

For example one of CubeIDE:

- Sources: `src/`, `weights/`, `kernels/`, `hal/stm32h7/`; with kernels of CMSIS-NN
  `kernels/external/`, too, but not the folders below it.
- Include path: `inc/`, `hal/include/`, `hal/stm32h7/`, `kernels/`, `kernels/external/` if there.
- Linker script: `INCLUDE dory_sections.ld` (in `hal/stm32h7/`) inside SECTIONS. It needs memories
  called DTCM, AXI_SRAM and D2_SRAM; in a script of CubeIDE, put before it

      {aliases}

- Program: `dory_stm32h7_init()` once, after clocks and caches are set up, then
  `dory_stm32h7_run(input, output, 0, 0)` for each input; `hal/stm32h7/dory_stm32h7.h` says the
  rest, `dory_stm32h7_config.h` all that can be chosen: `DORY_MDMA_CHANNELS=0x00FF` leaves
  channels 8 to 15 of the MDMA to you. Define `dory_stm32h7_wait` to sleep or yield while a
  transfer runs, and `dory_stm32h7_fault` for errors and time-outs of transfers. The arenas take
  {l1} B of DTCM and {l2} B of AXI SRAM; `--l1` and `--l2` make them smaller.
"""

_UNCACHED = """\
  AXI SRAM and D2 SRAM become regions of the MPU that bypass the D-cache (numbers 14 and 15), your
  variables in them as well; `DORY_MPU_REGION` names others. Regions of higher numbers lie above
  regions of lower ones, yours included. Code in these memories still runs, slower; with
  `DORY_ARENAS_EXECUTE_NEVER=1` it faults. With `DORY_ARENAS_CACHED=1` they stay cached and the
  driver cleans what it moves.
"""


def readme(ctx: TargetContext, app: Application, cached: bool) -> str:
    """Return the README. cached: the arenas stay in the D-cache."""
    part = part_of(ctx.options)
    if ctx.options.get("form") == "library":
        aliases = "\n      ".join(cube_aliases(part))
        own = _LIBRARY.format(l1=app.l1_bytes, l2=app.l2_bytes, aliases=aliases)
        own += "" if cached else _UNCACHED
    else:
        own = _APPLICATION.format(variant=part.name, program=toolchain.PROGRAM, core=part.core.name)
    return f"{app.readme}\n{own}"
