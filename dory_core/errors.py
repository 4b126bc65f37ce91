"""The one exception family of dory: every error names the reason and the way out.

The command line prints ``message`` and ``hint`` and exits with ``exit_code``; a traceback is shown
only with ``--debug``.
"""

from __future__ import annotations


class DoryError(Exception):
    """An error that a user can act upon.

    Attributes:
        message: One line that names what failed and why (node, operator, attribute).
        hint: One line that says what to change; empty when there is nothing to suggest.
        exit_code: Exit status of the command line (1 bug, 2 usage, 3 not supported,
            4 does not fit, 5 verification failed, 6 tool missing).
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(DoryError):
    """Wrong usage: missing file, unknown name, an output directory that is not ours."""

    exit_code = 2


class NotSupported(DoryError):
    """The network cannot be computed exactly: the message names the node and the reason."""

    exit_code = 3


class DoesNotFit(DoryError):
    """A layer or the network exceeds a memory: the message names level, bytes and buffer.

    Attributes:
        needed_bytes: The least budget of the level with which it fits; None when it is not known,
            or when no budget helps.
    """

    exit_code = 4

    def __init__(self, message: str, hint: str = "", needed_bytes: int | None = None) -> None:
        super().__init__(message, hint)
        self.needed_bytes = needed_bytes


class VerificationFailed(DoryError):
    """Computed values differ from the golden: the message names layer and first mismatch."""

    exit_code = 5


class ToolMissing(DoryError):
    """A compiler, sanitizer or emulator is missing."""

    exit_code = 6


class PluginError(DoryError):
    """A plugin raised, returned or declared something that it must not: a bug of the plugin."""


def declared_in(thing: object) -> str:
    """Return the module of what a plugin made, for messages: it names the plugin's package."""
    owner = thing if isinstance(thing, type) or callable(thing) else type(thing)
    return str(getattr(owner, "__module__", type(thing).__module__))


def require(holds: object, otherwise: str) -> None:
    """Raise ValueError with the text ``otherwise`` unless ``holds`` is true."""
    if not holds:
        raise ValueError(otherwise)
