"""What the user asks of a command, as options of the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.cli.files import existing_file

if TYPE_CHECKING:
    from dory_core.driver.compiler import CompileOptions
    from dory_core.plugins.manager import Plugins


def compile_options(
    network: str | Path,
    target: str,
    plugins: Plugins,
    *,
    frontend: str | None = None,
    settings: Mapping[str, str] | None = None,
    **others: Any,
) -> CompileOptions:
    """Return the options of a compilation, a check or a comparison.

    Args:
        network: File of the network.
        target: Name of the target, empty for none.
        plugins: Plugins that provide frontend and target.
        frontend: Name of the frontend; None takes the one that recognises the file.
        settings: Target options (``--set``) as text.
        others: Other fields of CompileOptions.

    Raises:
        UsageError: When there is no such file, or when not exactly one frontend recognises it.
    """
    from dory_core.driver.compiler import CompileOptions

    path = existing_file(Path(network), "network")
    return CompileOptions(
        path, target, frontend_name(frontend, path, plugins), settings=settings or {}, **others
    )


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


def given_budgets(l1: int | None, l2: int | None, l3: int | None) -> dict[int, int]:
    """Return the budgets that the user gave, in bytes by level number."""
    return {level: size for level, size in enumerate((l1, l2, l3), start=1) if size is not None}
