"""Names of other people in text: each language has one function that makes them harmless there.

Files, nodes, tensors, options and plugins are called what somebody liked. Wherever such a name
becomes part of a text that is read by a program, a person or a terminal, it goes through the
function of that text's language.
"""

from __future__ import annotations

import html as _html
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, TypeVar, cast

__all__ = [
    "LONGEST",
    "c_comment",
    "c_string",
    "html",
    "lines",
    "makefile",
    "markdown",
    "markdown_code",
    "number",
    "path",
    "script",
    "shell",
    "shortened",
    "visible",
    "visible_document",
]

#: Characters of a name that generated C and Makefiles show; longer ones lose their middle.
LONGEST = 200

# Longer numbers tell a reader no more than their size; Python has no digits for the longest ones.
_MOST_BITS = 80

_Document = TypeVar("_Document")

# An underscore between letters marks nothing.
_MARKDOWN = re.compile(r"[\\`*\[\]<>|&~$#]|(?<![^\W_])_|_(?![^\W_])")


def number(value: int) -> str:
    """Return an integer in decimal digits, one of many bits as a power of two that it exceeds."""
    if abs(value) < 1 << _MOST_BITS:
        return str(value)
    return f"{'-' if value < 0 else ''}2^{abs(value).bit_length() - 1}"


def visible(text: str) -> str:
    """Return a text in one line that shows every character: ``<U+001B>`` for one without a shape.

    Characters without a shape control terminals, turn the direction of writing, or end lines.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in text)


def lines(text: str) -> str:
    """Return a text of several lines so that a terminal may show it; tabs stay.

    Lines after the first one are indented: none of them can pass for a message of its own.
    """
    shown = ("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))
    return "\n  ".join(shown)


def visible_document(document: _Document) -> _Document:
    """Return a JSON document in which every text is :func:`visible`, keys included."""
    shown: Any = document
    if isinstance(document, str):
        shown = visible(document)
    elif isinstance(document, Mapping):
        shown = {visible_document(k): visible_document(v) for k, v in document.items()}
    elif isinstance(document, (list, tuple)):
        shown = [visible_document(value) for value in document]
    return cast("_Document", shown)


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return a text of at most ``longest`` characters; a longer one loses its middle."""
    if len(text) <= longest:
        return text
    tail = (longest - 3) // 2
    return f"{text[: longest - 3 - tail]}...{text[len(text) - tail :]}"


def c_comment(text: str, longest: int = LONGEST) -> str:
    """Return a name for a comment of C: ASCII that neither ends the comment nor splices lines."""
    plain = _ascii(shortened(visible(text), longest)).replace("\\", "/")
    for ending in ("*/", "/*", "??"):  # the last one begins a trigraph
        while ending in plain:
            plain = plain.replace(ending, f"{ending[0]} {ending[1]}")
    return plain


def c_string(text: str) -> str:
    """Return a C string literal that shows a name, in ASCII."""
    plain = _ascii(shortened(visible(text)))
    escaped = (f"\\{ord(c):03o}" if c in '"\\?' else c for c in plain)
    return f'"{"".join(escaped)}"'


def makefile(text: str) -> str:
    """Return a name for a comment of a Makefile: make expands nothing in it."""
    return c_comment(text).replace("$", "$$")


def markdown(text: str) -> str:
    """Return a name for running text of Markdown, or a cell of one of its tables."""
    return _MARKDOWN.sub(r"\\\g<0>", visible(text))


def markdown_code(text: str) -> str:
    """Return a text as code of Markdown, in more backticks than it has in a row."""
    shown = visible(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{shown}{space}{fence}"


def html(text: object) -> str:
    """Return a text for an element or a quoted attribute of HTML."""
    return _html.escape(visible(str(text)))


def script(document: object) -> str:
    """Return a document as JSON that may stand inside a script element of HTML."""
    text = json.dumps(document, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def shell(*words: str) -> str:
    """Return a command that a person may read and paste into a shell, in one line."""
    return " ".join(shlex.quote(word) if word.isprintable() else _ansi_c(word) for word in words)


def path(name: object) -> str:
    """Return a path as an argument of a command, which no leading dash makes an option."""
    text = str(name)
    return f"./{text}" if text.startswith("-") else text


def _ansi_c(word: str) -> str:
    """Return a word as bash, ksh and zsh quote what does not print."""
    return f"$'{''.join(_escaped(c) for c in word)}'"


def _escaped(c: str) -> str:
    if c in "\\'":
        return f"\\{c}"
    if c.isprintable():
        return c
    return "".join(f"\\x{byte:02x}" for byte in c.encode(errors="surrogateescape"))


def _ascii(text: str) -> str:
    return "".join(c if c.isascii() else f"<U+{ord(c):04X}>" for c in text)
