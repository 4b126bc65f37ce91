"""Write docs/commands.md: all commands and their options, from the command line itself.

    python docs/commands.py            writes it
    python docs/commands.py --check    says when it is stale, by status 1

The commands are those of dory and of the plugins that are installed: `make install` installs all.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from generated import written

from dory_core.cli.main import app
from dory_core.plugins.manager import load_plugins

PAGE = Path(__file__).parent / "commands.md"
_INTRODUCTION = """\
# Commands

Written by `python docs/commands.py` from the command line: what `dory COMMAND --help` prints.
`dory` without a command is `dory compile`; `dory --version` prints the version,
`dory --install-completion` makes the shell complete commands and options. Exit statuses are those
of [Errors](errors.md), documents of `--json` those of [JSON documents](json.md). All commands take
`--debug`, which shows the traceback of an error.
"""
_FOR_ALL = "debug"


@dataclass(frozen=True)
class Parameter:
    """An argument or an option of a command.

    option: as the command line has it. kind: annotation in the function of the command.
    """

    option: Any
    kind: Any
    default: Any

    @property
    def is_argument(self) -> bool:
        """Whether it has no name on the command line."""
        return not self.option.opts[0].startswith("-")

    @property
    def is_flag(self) -> bool:
        """Whether it has no value."""
        return bool in (self.kind, *get_args(self.kind)) or getattr(self.option, "count", False)

    @property
    def names(self) -> str:
        """What a user writes."""
        if self.is_argument:
            return self.option.metavar or self.option.name.upper()
        value = "" if self.is_flag else f" {self.option.metavar or '|'.join(self.choices)}"
        return ", ".join((*self.option.opts, *self.option.secondary_opts)) + value

    @property
    def choices(self) -> list[str]:
        """The values of an enumeration."""
        kinds = (self.kind, *get_args(self.kind))
        found = [one for one in kinds if inspect.isclass(one) and issubclass(one, Enum)]
        return [member.value for one in found for member in one]

    @property
    def meaning(self) -> str:
        """Its help and its default."""
        said = [" ".join((self.option.help or "").split())]
        if self.default is inspect.Parameter.empty and not self.is_argument:
            said.append("Always given.")
        elif self.default not in (None, inspect.Parameter.empty) and not self.is_flag:
            said.append(f"Default: `{getattr(self.default, 'value', self.default)}`.")
        return " ".join(filter(None, said))


def parameters(command: Any, function: Callable[..., Any]) -> list[Parameter]:
    """Return the arguments of a command, then its options. function: what it calls."""
    hints, declared = get_type_hints(function), inspect.signature(function).parameters
    found = [
        Parameter(option, hints[option.name], declared[option.name].default)
        for option in command.params
        if option.name in declared and option.name != _FOR_ALL
    ]
    return sorted(found, key=lambda one: not one.is_argument)


def text() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    added = load_plugins().commands(group.commands)
    parts = [_INTRODUCTION]
    for name, command in {**group.commands, **dict(sorted(added.items()))}.items():
        function = inspect.unwrap(command.callback)
        found = parameters(command, function)
        words = ["dory", name, *(one.names for one in found if one.is_argument)]
        first, _, more = (inspect.getdoc(function) or "").partition("\n\n")
        parts += [f"\n## `{' '.join(words)}`\n\n{first}\n", f"\n{more}\n" if more else ""]
        if found:
            parts.append("\n| | |\n| --- | --- |\n")
        parts += [_row(one) for one in found]
    return "".join(parts)


def _row(one: Parameter) -> str:
    cells = (f"`{one.names}`", one.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    sys.exit(written({PAGE: text()}, sys.argv[1:]))
