"""What the commands share: options, messages on stderr, documents on stdout."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dory_core import quoting
from dory_core.errors import DoesNotFit, DoryError, NotSupported, UsageError

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_COLUMNS = 200
_STATUS_BUG = 1

#: Hint of an error without a more specific one.
_USUAL_HINTS: tuple[tuple[type[DoryError], str], ...] = (
    (UsageError, "`dory --help` and `dory COMMAND --help` list commands and options"),
    (NotSupported, "`dory check` looks at the whole network; -v shows what each kernel takes"),
)

#: Errors of the operating system that the user can solve.
_SYSTEM_ERRORS = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE),
        *(errno.ENOMEM, errno.EAGAIN),
        *(errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG),
    }
)


class _Settings:
    """Values of ``--debug``, ``-v`` and ``-q``, the same for every command."""

    debug = False
    verbosity = 0


settings = _Settings()


def _set_debug(value: bool) -> bool:
    settings.debug = settings.debug or value
    return value


def _set_verbose(value: int) -> int:
    if value:
        set_verbosity(value)
    return value


def _set_quiet(value: bool) -> bool:
    if value:
        set_verbosity(-1)
    return value


Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug)
]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Say more; -vv says most.",
        callback=_set_verbose,
    ),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Say nothing but errors.", callback=_set_quiet)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


class Layout(StrEnum):
    """Order of the dimensions of an array."""

    hwc = "hwc"
    chw = "chw"


InputLayout = Annotated[
    Layout | None,
    typer.Option(
        "--input-layout",
        help="Order of the dimensions of the arrays of --input; it must fit the network's shape."
        " Without it, H x W x C.",
        show_default=False,
    ),
]


class _LevelFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"dory: {record.levelname.lower()}: {quoting.lines(record.getMessage())}"


class _StderrHandler(logging.StreamHandler[Any]):
    """Writes to the current ``sys.stderr``."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def set_verbosity(verbosity: int) -> None:
    """Choose what is logged: -1 errors, 0 warnings, 1 information, 2 everything."""
    settings.verbosity = verbosity
    levels = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}
    logger = logging.getLogger("dory")
    if not logger.handlers:
        handler = _StderrHandler()
        handler.setFormatter(_LevelFormatter())
        logger.addHandler(handler)
        logger.propagate = False
    logger.setLevel(levels.get(verbosity, logging.DEBUG))


def byte_size(text: str | int) -> int:
    """Return bytes of ``65536``, ``64k``, ``64kB`` or ``64KiB``; 1 kB = 1024 B."""
    from dory_core.cli.requests import size_in_bytes

    try:
        return size_in_bytes(text)
    except UsageError as error:
        raise typer.BadParameter(f"{error.message}; {error.hint}") from error


def key_values(pairs: Sequence[str]) -> dict[str, str]:
    """Return the mapping of ``--set KEY=VALUE`` options; a later one wins. Raises UsageError."""
    result = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(
                f"--set takes KEY=VALUE, not {pair!r}", "`dory targets` lists options and values"
            )
        result[key] = value
    return result


def console() -> Console:
    """Return a console on stdout; piped output is wide, so that no table is folded."""
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
    from rich.segment import Segment

    class Visible:
        """Output with every character visible and without blanks at the ends of lines.

        Only rich itself may control the terminal.
        """

        def __init__(self, content: ConsoleRenderable) -> None:
            self.content = content

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            blanks = ""  # blanks at the end of the line so far
            for segment in console.render(self.content, options):
                if segment.control:
                    yield segment
                    continue
                for number, line in enumerate(segment.text.split("\n")):
                    if number:
                        blanks = ""
                        yield Segment.line()
                    text = quoting.visible(line)
                    if shown := text.rstrip(" "):
                        yield Segment(blanks + shown, segment.style)
                        blanks = ""
                    blanks += text[len(shown) :]

    class Names(RenderHook):
        """Makes every printed character visible."""

        def process_renderables(
            self, renderables: list[ConsoleRenderable]
        ) -> list[ConsoleRenderable]:
            return [Visible(content) for content in renderables]

    class PipeConsole(Console):
        """Raises the error of a closed pipe, for which rich would exit with the status of a bug."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    out = PipeConsole(width=_PIPED_COLUMNS if piped else None, highlight=False)
    out.push_render_hook(Names())
    return out


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print the JSON document of ``--json``."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def report_error(error: BaseException) -> int:
    """Print the message and the hint of an error; return the exit status."""
    if settings.debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS:
        error = _from_system(error)
    if isinstance(error, MemoryError):
        error = DoesNotFit(
            "the network needs more memory than this machine has to compute it",
            "make its tensors smaller, or compile it on a machine with more memory",
        )
    if isinstance(error, DoryError):
        print(f"dory: error: {quoting.lines(error.message)}", file=sys.stderr)
        usual = (hint for kind, hint in _USUAL_HINTS if isinstance(error, kind))
        hint = error.hint or next(usual, "")
        if hint:
            print(f"dory: hint: {quoting.lines(hint)}", file=sys.stderr)
        return error.exit_code
    from dory_core.cli.blame import plugin_at_fault

    text = quoting.visible(" ".join(str(error).split()))
    fault = plugin_at_fault(error)
    where = f" ({quoting.visible(fault[1])})" if fault else ""
    owner = f"plugin {quoting.visible(fault[0].label)}" if fault else "dory"
    whom = "it to its authors" if fault else "it"
    print(f"dory: error: {type(error).__name__}: {text}{where}", file=sys.stderr)
    print(
        f"dory: this is a bug in {owner}, not in your network; please report {whom}",
        file=sys.stderr,
    )
    if not settings.debug:
        print("dory: hint: the same command with --debug shows the traceback", file=sys.stderr)
    return _STATUS_BUG


def _from_system(error: OSError) -> UsageError:
    """Return the error for the user of a full disk, a missing permission and the like."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space, or choose another place for output, TMPDIR and DORY_CACHE"
    elif error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN):
        hint = "raise the limits of this shell (ulimit -a shows them), or close other programs"
    else:
        hint = "check the permissions, or choose another path"
    return UsageError(f"{error.filename}: {reason}" if error.filename else reason, hint)
