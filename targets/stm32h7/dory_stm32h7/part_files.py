"""What the files of an application say of its part: a header and a linker script."""

from __future__ import annotations

from pathlib import Path

from dory_core.api import OutputFile
from dory_stm32h7.part import KIB, Part, Ram

#: Section of the constants of parts whose linker script has another place for them than .rodata.
WEIGHTS_SECTION = ".dory_weights"

_HEADER = """\
/* Facts of the part {name} ({source}). */
#ifndef DORY_STM32H7_PART_H
#define DORY_STM32H7_PART_H

#define DORY_PART "{name}"

{facts}
#endif
"""

_SCRIPT = """\
/* Memory map of the part {name} ({source}). */
MEMORY
{{
{memories}
}}
{aliases}
INCLUDE board/sections.ld
"""

_WEIGHTS = ".dory_weights : ALIGN(32) {{ *(.dory_weights){more} }} > EXTERNAL_FLASH"
_ARENA = ".dory_l3 (NOLOAD) : ALIGN(32) { KEEP(*(.dory_l3)) } > EXTERNAL_RAM"

_EXTERNAL = """
/* Memories outside of the chip; they are ready before main starts. */
SECTIONS
{{
  {sections}
}}
"""

#: Memories that sections.ld names, with what stands for them on a part without.
_ROLES = ("DTCM", "AXI_SRAM", "D2_SRAM")


def part_header(part: Part) -> OutputFile:
    """Return the header with what the driver and the start-up code need to know of the part."""
    lines = []
    if part.tcm is not None:
        lines += [
            "/* The memory for tiles: the MDMA reaches it over a bus of its own. */",
            f"#define DORY_DTCM_ADDRESS 0x{part.tcm.address:08X}u",
            f"#define DORY_DTCM_BYTES {part.tcm.size_bytes}u",
            "",
        ]
    if part.clocks:
        rows = ", ".join(f"{{0x{bits.address:08X}u, 0x{bits.mask:X}u}}" for bits in part.clocks)
        lines += [
            "/* Registers of RCC and the bits that give the MDMA and memories their clocks. */",
            f"#define DORY_CLOCKS {{{rows}}}",
            "",
        ]
    if part.external_ram is not None:
        lines += [
            f"/* {part.external_ram.name} outside of the chip: its address, and log2 of the bytes",
            " * of a region of the MPU. Without one the core takes it for a device. */",
            "#ifndef DORY_EXTERNAL_RAM",
            f"#define DORY_EXTERNAL_RAM 0x{part.external_ram.address:08X}u",
            "#endif",
            f"#define DORY_EXTERNAL_RAM_LOG2 {(part.external_ram.size_bytes - 1).bit_length()}u",
            "",
        ]
    if part.uncached:
        regions = [f"{{0x{base:08X}u, {log2}u}}" for base, log2 in part.uncached]
        if part.external_ram is not None:
            regions[-1] = "{DORY_EXTERNAL_RAM, DORY_EXTERNAL_RAM_LOG2}"
        lines += [
            "/* Regions of the MPU that cover memories of the arenas: address, log2 of bytes. */",
            f"#define DORY_UNCACHED {{{', '.join(regions)}}}",
            "",
        ]
    lines += [
        "/* 1: reads of AXI SRAM may be wrong with several of them under way, in chips before",
        " * revision V (ES0392, 2.2.9). */",
        f"#define DORY_AXI_READ_ERRATUM {int(part.one_read)}",
        "",
        "/* 1: the core has caches. */",
        f"#define DORY_PART_CACHES {int(part.cache is not None)}",
        "",
    ]
    facts = "\n".join(lines)
    text = _HEADER.format(name=part.name, source=part.source, facts=facts)
    return OutputFile("hal/stm32h7/dory_stm32h7_part.h", text)


def script_path(part: Part) -> str:
    """Return the path of the linker script of the part."""
    return f"board/{part.name}.ld"


def linker_script(part: Part) -> OutputFile:
    """Return the memory map of the part."""
    regions = [("FLASH", "rx", part.flash.address, part.flash.size_bytes)]
    if part.external is not None:
        external = part.external
        regions.append(("EXTERNAL_FLASH", "r", external.address, external.size_bytes))
    if part.tcm is not None:
        regions.append((part.tcm.region, "rw", part.tcm.address, part.tcm.size_bytes))
    rams = (*part.rams, *((part.external_ram,) if part.external_ram else ()))
    regions += [(ram.region, "rwx", ram.address, ram.size_bytes) for ram in rams]
    width = max(len(f"{name} ({flags})") for name, flags, *_ in regions)
    memories = "\n".join(
        f"  {f'{name} ({flags})':<{width}} : ORIGIN = 0x{address:08x}, LENGTH = {size // KIB}K"
        for name, flags, address, size in regions
    )
    aliases = "".join(
        f'REGION_ALIAS("{role}", {region})\n' for role, region in _role_regions(part, own=True)
    )
    sections = external_sections(part, " *(.rodata.dory_vectors_*)")
    if sections:
        aliases += _EXTERNAL.format(sections="\n  ".join(sections))
    text = _SCRIPT.format(name=part.name, source=part.source, memories=memories, aliases=aliases)
    return OutputFile(script_path(part), text)


def external_sections(part: Part, more: str = "") -> tuple[str, ...]:
    """Return the lines of a linker script that place what lies outside of the chip.

    more: other input sections that lie next to the constants.
    """
    weights = (_WEIGHTS.format(more=more),) if part.external else ()
    return (*weights, *((_ARENA,) if part.external_ram else ()))


def project_sections(part: Part) -> OutputFile:
    """Return the sections for a linker script of the user."""
    text = (Path(__file__).parent / "hal/dory_sections.ld").read_text(encoding="utf-8")
    more = external_sections(part)
    if more:
        text += "/* Outside of the chip. */\n" + "\n".join(more) + "\n"
    return OutputFile("hal/stm32h7/dory_sections.ld", text)


def cube_aliases(part: Part) -> tuple[str, ...]:
    """Return the lines that give the memories of a script of STM32CubeIDE the names of ours."""
    return tuple(
        f'REGION_ALIAS("{role}", {region})' for role, region in _role_regions(part, own=False)
    )


def _role_regions(part: Part, own: bool) -> tuple[tuple[str, str], ...]:
    """Return the roles of sections.ld whose memories have other names. own: in our scripts."""
    rams: list[Ram] = [part.tcm or part.rams[0], part.rams[0], part.rams[-1]]
    named = (
        (role, ram.region if own else ram.cube) for role, ram in zip(_ROLES, rams, strict=True)
    )
    return tuple((role, region) for role, region in named if role != region)


def defines(part: Part) -> tuple[tuple[str, str], ...]:
    """Return the macros with which all C files of an image are compiled."""
    return (("DORY_WEIGHTS_SECTION", f'"{WEIGHTS_SECTION}"'),) if part.external else ()
