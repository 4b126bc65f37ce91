"""The command line: one file per command, heavy imports inside the commands.

These names are what commands share; plugins import them as ``from dory_core.api import cli``.
"""

from typing import TYPE_CHECKING, Any

from dory_core.cli.common import (
    Debug,
    Json,
    Quiet,
    Verbose,
    byte_size,
    console,
    existing_file,
    print_json,
    progress_bar,
    settings,
    write_file,
)
from dory_core.cli.compile import (
    L1,
    L2,
    L3,
    Frontend,
    InputBits,
    InputSigned,
    Network,
    Objective,
    budgets,
    frontend_name,
    target_settings,
)
from dory_core.cli.tables.units import bytes_text, count_text, share_text, tile_text

if TYPE_CHECKING:
    from dory_core.cli.tables.plan import (
        conversions_text,
        cycles_text,
        engines_text,
        new_table,
        print_plan,
    )

__all__ = [
    "Debug",
    "Frontend",
    "InputBits",
    "InputSigned",
    "Json",
    "L1",
    "L2",
    "L3",
    "Network",
    "Objective",
    "Quiet",
    "Verbose",
    "budgets",
    "byte_size",
    "bytes_text",
    "console",
    "conversions_text",
    "count_text",
    "cycles_text",
    "engines_text",
    "existing_file",
    "frontend_name",
    "new_table",
    "print_json",
    "print_plan",
    "progress_bar",
    "settings",
    "share_text",
    "target_settings",
    "tile_text",
    "write_file",
]


def __getattr__(name: str) -> Any:
    # Tables need rich, which commands without one do without.
    if name in __all__:
        from dory_core.cli.tables import plan

        return getattr(plan, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
