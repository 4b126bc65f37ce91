"""The command line: one file per command, heavy imports inside the commands.

These names are what commands share; plugins import them as ``from dory_core.api import cli``.
"""

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
    Objective,
    Onnx,
    budgets,
    target_settings,
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
    "Objective",
    "Onnx",
    "Quiet",
    "Verbose",
    "budgets",
    "byte_size",
    "console",
    "existing_file",
    "print_json",
    "progress_bar",
    "settings",
    "target_settings",
    "write_file",
]
