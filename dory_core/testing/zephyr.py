"""An application of Zephyr that takes generated modules, for tests without Zephyr.

Kconfig is read by its own parser; functions of Zephyr that a module's CMake calls have the same
meaning in a plain project.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

__all__ = ["write_zephyr_application"]

_PROJECT = """\
cmake_minimum_required(VERSION 3.18)
project(zephyr_application LANGUAGES C)
macro(zephyr_library_named name)
  set(library ${{name}})
  add_library(${{name}} STATIC)
  target_include_directories(${{name}} PRIVATE ${{includes}} {libc})
endmacro()
macro(zephyr_library_sources)
  target_sources(${{library}} PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_library_include_directories)
  target_include_directories(${{library}} PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_library_compile_definitions)
  target_compile_definitions(${{library}} PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_include_directories)
  set(includes ${{ARGN}})
endmacro()
{settings}
{modules}
"""


def write_zephyr_application(folder: Path, modules: Sequence[Path], libc: Path) -> dict[str, str]:
    """Write a CMake project with modules that are turned on; return the values of their options.

    Args:
        folder: Of the project; it is created.
        modules: Folders of applications that have a module for Zephyr.
        libc: Folder of the headers of a C library.
    """
    kconfiglib = pytest.importorskip("kconfiglib", reason="pip install kconfiglib")
    settings: dict[str, str] = {}
    for module in modules:
        kconfig = kconfiglib.Kconfig(str(module / "zephyr/Kconfig"), warn_to_stderr=False)
        assert not kconfig.warnings
        [enabled] = [name for name in kconfig.syms if name.endswith("_NETWORK")]
        kconfig.syms[enabled].set_value(2)
        settings |= {
            name: symbol.str_value for name, symbol in kconfig.syms.items() if symbol.nodes
        }
    text = _PROJECT.format(
        libc=libc,
        settings="\n".join(f'set(CONFIG_{name} "{value}")' for name, value in settings.items()),
        modules="\n".join(f"add_subdirectory({one}/zephyr {one.name})" for one in modules),
    )
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(text)
    return settings
