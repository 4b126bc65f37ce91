"""The README of an application: how to build and run it, or how to add it to another project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_stm32h7 import toolchain
from dory_stm32h7.descriptors import DRIVER_BYTES, list_bytes
from dory_stm32h7.hardware import copies
from dory_stm32h7.part import KIB
from dory_stm32h7.part_files import cube_aliases
from dory_stm32h7.parts import part_of

if TYPE_CHECKING:
    from dory_core.api import Application, TargetContext, Tensor
    from dory_stm32h7.part import Part

_EXAMPLE = """\
## The least main

```c
#include "{prefix}_stm32h7.h"
#include "{prefix}_network.h"

{before}static {y} output[{name}_OUTPUT_BYTES / sizeof({y})];

int main(void)
{{
  {prefix}_stm32h7_init();
{within}  for (unsigned i = 0; i < {name}_INPUT_BYTES / sizeof *input; i++) {{
    input[i] = 0; /* element i of the input, H x W x C */
  }}
  if ({prefix}_stm32h7_run(input, output, 0, 0) != DORY_OK) {{
    return -1;
  }}
  int best = 0; /* the class with the largest output */
  for (int i = 1; i < (int)(sizeof output / sizeof *output); i++) {{
    best = output[i] > output[best] ? i : best;
  }}
  return best;
}}
```

"""

_BY_ROWS = """\
## Rows from a camera

The DCMI raises an interrupt at the end of each line, and its DMA writes lines into a ring, which
holds what the network has not taken yet. `lines` is 0 when a frame begins.

```c
#include "stm32h7xx_hal.h"
#include <string.h>
#include "{prefix}_stm32h7.h"
#include "{prefix}_network.h"

enum {{ RING = 16, ROW = {row} }};
static uint8_t ring[RING][ROW]; /* HAL_DCMI_Start_DMA in circular mode */
static volatile uint32_t lines;

void HAL_DCMI_LineEventCallback(DCMI_HandleTypeDef *dcmi) {{ (void)dcmi; lines++; }}

static int next_rows(void *user, uint32_t input, void *dst, uint32_t first, uint32_t rows)
{{
  for (uint32_t row = first; row < first + rows; row++) {{
    while (lines <= row) {{ __WFI(); }}
    memcpy((uint8_t *)dst + (row - first) * ROW, ring[row % RING], ROW);
  }}
  return lines >= first + RING ? -1 : 0; /* the camera was faster: the run ends with DORY_EROWS */
}}

int run(void) {{
  const dory_network_io_t io = {{.next_rows = next_rows{output}}};
  return {prefix}_stm32h7_run_io(&io); /* {prefix}_stm32h7_init once before it */
}}
```

"""

_PROJECTS = """## In other builds

- CMake: `add_subdirectory` of this folder, and
  `target_link_libraries(firmware PRIVATE {prefix}_network)`. Variables `DORY_L1_SECTION`,
  `DORY_L2_SECTION`, `DORY_WEIGHTS_SECTION` and so on name sections of a linker script of yours.
  Other macros of `dory_stm32h7_config.h` are for both targets, `{prefix}_network` and
  `dory_support`. Without a cross compiler the library is the host simulation.
- STM32CubeIDE: drag this folder into the project, exclude {excluded} from
  the build and add the include paths `inc`, `src`, `hal/include`, `hal/stm32h7`, `kernels`; or make
  a CMake project of it as above.
- Zephyr: a module. Name this folder in `ZEPHYR_EXTRA_MODULES`, set `CONFIG_{name}_NETWORK=y`.
- PlatformIO: name this folder in `lib_deps`. Unless the framework is Arduino or the linker script
  has the sections of dory, give macros such as `DORY_L1_SECTION` names that begin with `.bss`.
- Arduino IDE: `make arduino` writes `build/arduino/{prefix}_network`, for `libraries/`.

"""

_SEVERAL = """\
## Several networks in one program

Compile each with a prefix of its own (`--prefix NAME`) and the same release of dory: all that
belongs to one network carries its prefix. Kernels and driver are the same for all: in CMake they
are one library, `dory_support`; in other builds each network may bring them, and one copy is
linked. Build each network with include paths of its own: their folders have files of the same
names. Each `NAME_stm32h7_init` is called once; one network runs at a time.

"""

_ARENAS = """## Memory beside the network's

{memory}

## Arenas of your own

`{prefix}_stm32h7_run` has arenas. With one of your own for `{prefix}_network_run`, leave 16 bytes
behind the `{name}_L1_BYTES` of L1, and behind the constants, that may be read: kernels in assembly
load up to 12 bytes behind an operand before they know that it has ended, and use none of them.

"""

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
- Include path of these files: `inc/`, `src/`, `hal/include/`, `hal/stm32h7/`, `kernels/`, and
  `kernels/external/` if there; of the program: `inc/`, `hal/include/`, `hal/stm32h7/`.
- Linker script: `INCLUDE dory_sections.ld` (in `hal/stm32h7/`) inside SECTIONS. It needs memories
  called DTCM, AXI_SRAM and D2_SRAM; in a script of CubeIDE, put before it

      {aliases}

- Program: `{prefix}_stm32h7_init()` once, after clocks and caches are set up, then
  `{prefix}_stm32h7_run(input, output, 0, 0)` for each input; `hal/stm32h7/{prefix}_stm32h7.h` says
  the rest, `dory_stm32h7_config.h` all that can be chosen: `DORY_MDMA_CHANNELS=0x000F` leaves
  channels 4 to 15 of the MDMA to you. Define `dory_stm32h7_wait` to sleep or yield while a
  transfer runs, and `dory_stm32h7_fault` to be told of errors and time-outs of transfers, after
  which the run returns `DORY_EDMA`. The arenas take {l1} B of DTCM and {l2} B of AXI SRAM;
  `--l1` and `--l2` make them smaller.
- An input that the program writes to `{prefix}_stm32h7_input()` is not copied, and an output that
  stays at `{prefix}_stm32h7_output()` neither, where `{name}_INPUT_IN_PLACE` and
  `{name}_OUTPUT_IN_PLACE` are 1.
"""

_UNCACHED = """\
  {memories} become regions of the MPU that bypass the D-cache (numbers {first} to {last}), your
  variables in them as well; `DORY_MPU_REGION` names others. Regions of higher numbers lie above
  regions of lower ones, yours included. Code in these memories still runs, slower; with
  `DORY_ARENAS_EXECUTE_NEVER=1` it faults. With `DORY_ARENAS_CACHED=1` they stay cached and the
  driver cleans what it moves.
"""


_OUTSIDE = """\
## Memories outside of the chip

They are ready before `{prefix}_stm32h7_init` is called{where}.

{memories}
"""

_OUTSIDE_FLASH = """\
- {name}: {which} have the section `.dory_weights` with
  `-DDORY_WEIGHTS_SECTION='".dory_weights"'`{set}. It lies in the memory EXTERNAL_FLASH of the
  linker script, at 0x{address:08X} with {kib} KiB. In Zephyr give
  `CONFIG_{macro}_NETWORK_WEIGHTS_SECTION` the name of a section that your script loads there."""

_OUTSIDE_RAM = """\
- {name}: the arena of `{macro}_L3_BYTES` bytes has the section `.dory_l3`, in the memory
  EXTERNAL_RAM of the linker script, at 0x{address:08X} with {kib} KiB; in Zephyr a region of the
  devicetree, such as SDRAM1.
  `DORY_L3_ADDRESS` places it without a section. Where the arenas stay cached (Zephyr, Arduino,
  `DORY_ARENAS_CACHED=1`), make the RAM normal memory, written back, in the MPU of your program."""


def _outside(part: Part, app: Application, library: bool) -> str:
    """Return the section on memories outside of the chip; empty without any."""
    lines, macro = [], app.prefix.upper()
    if part.external is not None:
        flash = part.external
        set_ = "" if library else ", which the build files define"
        lines.append(
            _OUTSIDE_FLASH.format(
                name=flash.name,
                address=flash.address,
                kib=flash.size_bytes // KIB,
                macro=macro,
                set=set_,
                which="constants"
                if part.constants == (flash,)
                else "constants without room inside",
            )
        )
    if part.external_ram is not None and app.uses_l3:
        ram = part.external_ram
        lines.append(
            _OUTSIDE_RAM.format(
                name=ram.name, address=ram.address, kib=ram.size_bytes // KIB, macro=macro
            )
        )
    where = "" if library else ": `board_clock` of the board is the place for that"
    text = _OUTSIDE.format(prefix=app.prefix, where=where, memories="\n".join(lines))
    return f"{text}\n" if lines else ""


def _uncached(part: Part) -> str:
    """Return the paragraph on memories of the arenas that bypass the D-cache."""
    names = [ram.name for ram in (*part.rams, part.external_ram) if ram is not None]
    last = part.mpu_regions - 1
    memories = " and ".join(", ".join(names).rsplit(", ", 1))
    return _UNCACHED.format(memories=memories, first=last + 1 - len(part.uncached), last=last)


def readme(ctx: TargetContext, app: Application, cached: bool) -> str:
    """Return the README. cached: the arenas stay in the D-cache."""
    part = part_of(ctx.options)
    library = ctx.options.get("form") == "library"
    if library:
        aliases = "\n      ".join(cube_aliases(part))
        own = _LIBRARY.format(
            prefix=app.prefix,
            name=app.prefix.upper(),
            l1=app.l1_bytes,
            l2=app.l2_bytes,
            aliases=aliases,
        )
        own += "" if cached else _uncached(part)
    else:
        own = _APPLICATION.format(variant=part.name, program=toolchain.PROGRAM, core=part.core.name)
    names = {"prefix": app.prefix, "name": app.prefix.upper()}
    types = {"x": _c_type(app.inputs[0].tensor), "y": _c_type(app.outputs[0].tensor)}
    excluded = "`hal/host/` and `build/`" if library else "`hal/host/`, `board/` and `build/`"
    example = _EXAMPLE.format(**names, **types, **_input(app, types["x"]))
    projects = _PROJECTS.format(**names, excluded=excluded)
    first = app.inputs[0]
    if first.passing:
        output = ", .put_rows = put_rows" if app.outputs[0].passing else ", .output = output"
        numbers = {"row": first.row_bytes, "output": output}
        example = _BY_ROWS.format(**names, **numbers)
    elif app.outputs[0].passing:
        example = ""  # it has the whole output
    outside = _outside(part, app, library)
    arenas = _ARENAS.format(**names, memory=_driver_memory(ctx, app))
    return f"{app.readme}\n{outside}{example}{arenas}{_SEVERAL}{projects}{own}"


def _driver_memory(ctx: TargetContext, app: Application) -> str:
    """Return the sentence on the memory of the driver."""
    if copies(ctx.options):
        return "The core moves the data itself: the driver has no memory of its own."
    return (
        f"Lists of the MDMA take {list_bytes(app)} B of AXI SRAM (section `.dory_mdma`), once in\n"
        f"a program, and the driver {DRIVER_BYTES} B of variables. The stack needs less than 1 KiB."
    )


def _input(app: Application, kind: str) -> dict[str, str]:
    """Return the declaration of the input in the example: where the network reads it, if it may."""
    name, prefix = app.prefix.upper(), app.prefix
    if len(app.inputs) == 1:
        line = f"  {kind} *const input = ({kind} *){prefix}_stm32h7_input(); /* not copied */\n"
        return {"before": "", "within": line}
    line = f"static {kind} input[{name}_INPUT_BYTES / sizeof({kind})];\n"
    return {"before": line, "within": ""}


def _c_type(tensor: Tensor) -> str:
    return f"{'int' if tensor.signed else 'uint'}{tensor.bits}_t"
