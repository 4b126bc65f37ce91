"""The ``dory`` command: choice of the command, and exit status."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dory_core import __version__
from dory_core.cli import cache, check, evaluate, frontends, golden, new, plugins, run, targets
from dory_core.cli import compile as compile_
from dory_core.cli.common import Debug, Quiet, Verbose, report_error, set_verbosity, settings
from dory_core.cli.completion import words_of_bash
from dory_core.cli.extensions import find_command, missing_command, plugin_commands
from dory_core.cli.files import directory_error
from dory_core.cli.frontends import LIST_OPERATORS
from dory_core.errors import UsageError

DEFAULT_COMMAND = "compile"
_SHARED_FLAGS = frozenset({"--debug", "-v", "-vv", "--verbose", "-q", "--quiet"})
_OWN_OPTIONS = frozenset({"-h", "--help", "--version", "--install-completion", "--show-completion"})
INTERRUPTED = 130
_STATUS_PIPE_CLOSED = 141
_STATUS_TERMINATED = 143

# Typer shows these itself; its versions differ in where the base class of usage errors lives.
_CLICK_EXCEPTION: Any = next(
    k for k in typer.BadParameter.__mro__ if k.__name__ == "ClickException"
)
_PARSER_ERRORS: tuple[type[BaseException], ...] = (typer.Exit, typer.Abort, _CLICK_EXCEPTION)


def expand(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a command's name in front.

    Without a command ``compile`` is meant, or ``frontends`` with ``--list-operators``. Flags that
    all commands share may stand before it.
    """
    rest = list(arguments)
    flags = []
    while rest and rest[0] in _SHARED_FLAGS:
        flags.append(rest.pop(0))
    if not rest or rest[0] in _OWN_OPTIONS:
        return rest
    if rest[0].startswith("-") and LIST_OPERATORS in rest:
        return [frontends.frontends.__name__, *flags, *rest]
    if rest[0].startswith("-") or Path(rest[0]).suffix or Path(rest[0]).is_file():
        return [DEFAULT_COMMAND, *flags, *rest]
    return [rest[0], *flags, *rest[1:]]


class DoryGroup(TyperGroup):
    """The commands: dory's own, and those of plugins, which are loaded only when one is asked for.

    Every error of a command becomes a message and an exit status here.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command in front where it is left out."""
        return super().parse_args(ctx, expand(args))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of dory's own commands and of those that plugins advertise."""
        return [*super().list_commands(ctx), *plugin_commands(ctx, self.commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return dory's own command, else a plugin's, else None."""
        own = super().get_command(ctx, cmd_name)
        return own if own is not None else find_command(ctx, cmd_name, self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command and its arguments.

        Raises:
            ToolMissing: When its package is missing.
            UsageError: For a directory in its place.
        """
        known = self.get_command(ctx, args[0]) is not None
        error = None if known else missing_command(args[0]) or directory_error(Path(args[0]))
        if error is not None:
            raise error
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; raises SystemExit with the status of its error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            print("dory: interrupted", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader has closed the pipe; buffered output must not be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(_STATUS_PIPE_CLOSED) from None
        except _CLICK_EXCEPTION as error:
            if not hasattr(error, "ctx") or "Help" in type(error).__name__:
                raise
            raise SystemExit(report_error(_wrong_usage(error, ctx))) from error
        except _PARSER_ERRORS:
            raise
        except Exception as error:
            raise SystemExit(report_error(error)) from error


def _wrong_usage(error: Any, group: Any) -> UsageError:
    """Return an error of the option parser as one of dory's: a sentence and a hint.

    group: context of ``dory`` itself, for errors that the parser gives no context of a command.
    """
    message = error.format_message().rstrip(".").replace(": Value error, ", ": ")
    explanation = getattr(getattr(error, "param", None), "help", None)
    missing = "Missing" in type(error).__name__
    names = (group.command_path, group.invoked_subcommand)
    command = error.ctx.command_path if error.ctx is not None else " ".join(filter(None, names))
    usual = f"`{command} --help` shows what it takes"
    return UsageError(
        message[:1].lower() + message[1:], explanation if missing and explanation else usual
    )


app = typer.Typer(
    name="dory",
    cls=DoryGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text, and half the time to the first line of --help
    help="Turn a quantised network into a C application for a microcontroller.",
    epilog="Without a command, compile is meant: dory --target T --frontend F NETWORK. "
    "Plugins may add commands of their own.",
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"dory {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Turn a quantised network into a C application for a microcontroller."""


app.command("compile")(compile_.compile_)
app.command("run")(run.run)
app.command("evaluate")(evaluate.evaluate)
app.command("check")(check.check)
app.command("golden")(golden.golden)
app.command("targets")(targets.targets)
app.command("frontends")(frontends.frontends)
app.command("plugins")(plugins.plugins)
app.command("new")(new.new)
app.command("cache")(cache.cache)


class _Terminated(BaseException):
    """SIGTERM. Not a SystemExit, which would look like a plugin that exits on import."""


def _terminate(number: int, frame: FrameType | None) -> None:
    """End as after an error, so that temporary files are removed and nothing is half-written."""
    raise _Terminated


def _open_streams() -> None:
    """Open what the shell has closed (``>&-``): a file must not become the standard output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends with SystemExit."""
    signal.signal(signal.SIGTERM, _terminate)
    _open_streams()
    # One short job: rare collections, and none of the modules when Python ends, save 0.2 s.
    gc.set_threshold(400_000, 50, 50)
    atexit.register(gc.freeze)
    # The matrices of a network are small: threads of numpy's BLAS wait longer than they compute.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings.debug = False
    set_verbosity(0)
    try:
        with words_of_bash():
            app(args=None if arguments is None else list(arguments), prog_name="dory")
    except _Terminated:
        raise SystemExit(_STATUS_TERMINATED) from None


if __name__ == "__main__":
    main()
