"""What the user asks of a command, as options of the compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.cli.files import existing_file
from dory_core.errors import UsageError
from dory_core.hardware.options import INPUT_ROWS, OUTPUT_ROWS

if TYPE_CHECKING:
    from dory_core.driver.compiler import CompileOptions
    from dory_core.driver.given import Source
    from dory_core.plugins.manager import Plugins

_UNITS = {"": 1, "b": 1, "k": 1024, "kb": 1024, "kib": 1024}
_UNITS |= dict.fromkeys(("m", "mb", "mib"), 1 << 20)


def compile_options(
    network: str | Path,
    target: str,
    plugins: Plugins,
    *,
    frontend: str | None = None,
    settings: Mapping[str, object] | None = None,
    l2_reserve: int | str = 0,
    **others: Any,
) -> CompileOptions:
    """Return the options of a compilation, a check or a comparison.

    Args:
        network: File of the network.
        target: Name of the target, empty for none.
        plugins: Plugins that provide frontend and target.
        frontend: Name of the frontend; None takes the one that recognises the file.
        settings: Target options (``--set``).
        l2_reserve: Bytes of L2 that the surrounding program needs, or a text such as ``32k``.
        others: Other fields of CompileOptions.

    Raises:
        UsageError: When there is no such file, or when not exactly one frontend recognises it.
    """
    from dory_core.driver.compiler import CompileOptions

    path = existing_file(Path(network), "network")
    name = frontend_name(frontend, path, plugins)
    reserve = size_in_bytes(l2_reserve) if l2_reserve else 0
    texts = option_texts(settings)
    return CompileOptions(path, target, name, settings=texts, l2_reserve=reserve, **others)


def frontend_name(frontend: str | None, path: Path, plugins: Plugins) -> str:
    """Return the name of the frontend for a file.

    Args:
        frontend: The name that the user gave, or None.
        path: File of the network.
        plugins: Plugins that provide frontends.

    Raises:
        UsageError: When no name was given and not exactly one frontend recognises the file.
    """
    return frontend or plugins.frontend_for(path).name


def size_in_bytes(size: str | int) -> int:
    """Return bytes of ``65536``, ``64k``, ``64kB`` or ``64KiB``; 1 kB = 1024 B.

    Raises: UsageError for another text, and for zero.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", str(size).lower())
    if match is None or match[2] not in _UNITS or int(match[1]) == 0:
        raise UsageError(f"{size!r} is no size", "write bytes as 65536, 64k, 64KiB or 1M")
    return int(match[1]) * _UNITS[match[2]]


def given_budgets(
    l1: int | str | None, l2: int | str | None, l3: int | str | None
) -> dict[int, int]:
    """Return the budgets that the user gave, in bytes by level number. Raises UsageError."""
    given = enumerate((l1, l2, l3), start=1)
    return {level: size_in_bytes(size) for level, size in given if size is not None}


def option_texts(settings: Mapping[str, object] | None) -> dict[str, str]:
    """Return options of a target as text: numbers and truth values as ``--set`` takes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (settings or {}).items()
    }


def row_settings(input_rows: bool, output_rows: bool) -> dict[str, str]:
    """Return the options of a target for inputs that come by rows, and outputs that go so."""
    given = {INPUT_ROWS.name: input_rows, OUTPUT_ROWS.name: output_rows}
    return {name: "on" for name, is_given in given.items() if is_given}


def listed_paths(paths: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """Return one path, or several, as a tuple."""
    several = [paths] if isinstance(paths, (str, Path)) else paths
    return tuple(Path(path) for path in several)


def input_sources(given: Any) -> tuple[Source, ...]:
    """Return the inputs that a user gives: files, and arrays by the name of the input.

    given: a file, an array, arrays by name, or a list of these.
    """
    several = given if isinstance(given, (list, tuple)) else [given]
    return tuple(map(input_source, several))


def input_source(given: Any) -> Source:
    """Return one input that a user gives: a file, or arrays by name; a single array has none."""
    import numpy as np

    if isinstance(given, (str, Path)):
        return Path(given)
    if isinstance(given, Mapping):
        return {str(name): np.asarray(array) for name, array in given.items()}
    return {"": np.asarray(given)}
