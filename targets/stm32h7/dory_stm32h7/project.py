"""Files by which others take an application: its header, CMake, Zephyr, PlatformIO, Arduino."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from dory_core.api import OutputFile
from dory_stm32h7.part_files import WEIGHTS_SECTION

if TYPE_CHECKING:
    from dory_core.api import Application
    from dory_stm32h7.part import Part

_FILES = (
    "CMakeLists.txt",
    "zephyr/module.yml",
    "zephyr/Kconfig",
    "zephyr/CMakeLists.txt",
    "library.properties",
    "library.json",
)


def project_files(part: Part, app: Application) -> tuple[OutputFile, ...]:
    """Return the files, with names and facts of the network and the part."""
    values = {
        "TITLE": app.title,
        "PART": part.name,
        "PREFIX": app.prefix,
        "NAME": app.prefix.upper(),
        "WEIGHTS_SECTION": WEIGHTS_SECTION if part.external else "",
        "ZEPHYR_L1": part.tcm.region if part.tcm else ".noinit.dory_l1",
        "INPUT_IN_PLACE": str(int(len(app.inputs) == 1 and not app.inputs[0].passing)),
        "IN_PLACE": str(int(len(app.outputs) == 1)),
        "CACHED": str(int(part.cache is not None)),
    }
    header = OutputFile(f"hal/stm32h7/{app.prefix}_stm32h7.h", _filled("network_stm32h7.h", values))
    return (header, *(OutputFile(name, _filled(name, values)) for name in _FILES))


def _filled(name: str, values: dict[str, str]) -> str:
    text = (files("dory_stm32h7") / "project" / name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text
