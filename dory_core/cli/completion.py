"""Shell completion of option values: names of targets, formats, and options of a target.

Only the modules of entry points are imported, and broken plugins are not reported, because the user
is typing a line.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dory_core.errors import DoryError

if TYPE_CHECKING:
    from dory_core.hardware.target import Option
    from dory_core.plugins.manager import Plugins

Offers = list[tuple[str, str]]


def target_names(incomplete: str) -> Offers:
    """Return the installed targets that begin with ``incomplete``, with their summaries."""
    return _beginning(incomplete, ((t.name, t.summary) for t in _plugins().targets()))


def list_of_targets(incomplete: str) -> Offers:
    """Return completions of a list ``A,B`` by one more target."""
    done, comma, rest = incomplete.rpartition(",")
    given = done.split(",")
    offers = [(n, summary) for n, summary in target_names(rest) if n not in given]
    return [(done + comma + name, summary) for name, summary in offers]


def frontend_names(incomplete: str) -> Offers:
    """Return the installed file formats that begin with ``incomplete``, with their summaries."""
    return _beginning(incomplete, ((f.name, f.summary) for f in _plugins().frontends()))


def target_options(ctx: typer.Context, incomplete: str) -> Offers:
    """Return ``KEY=`` or ``KEY=VALUE`` of the target that the line names, else of all targets."""
    key, equals, value = incomplete.partition("=")
    if not equals:
        return _beginning(key, ((f"{o.name}=", o.help) for o in _options(ctx)))
    values = (v for o in _options(ctx) if o.name == key for v in _values(o))
    return [(f"{key}={v}", "") for v in values if v.startswith(value)]


def runner_names(ctx: typer.Context, incomplete: str) -> Offers:
    """Return the runners of the application that the line names, none without one."""
    from dory_core.driver.application import known_runners, read_plan

    # An option without its value ends the parsing; arguments are left in ``args``.
    [application, *_] = [*ctx.args, ctx.params.get("app") or "."]
    try:
        runners = known_runners(read_plan(Path(application)), _plugins())
    except DoryError:
        return []
    return _beginning(incomplete, ((r.name, r.summary) for r in runners))


def kernels(ctx: typer.Context, incomplete: str) -> Offers:
    """Return the values of option ``kernels``."""
    values = (v for o in _options(ctx) if o.name == "kernels" for v in _values(o))
    return _beginning(incomplete, ((v, "") for v in values))


@contextmanager
def words_of_bash() -> Iterator[None]:
    """Let bash complete ``KEY=VALUE``, which it splits at ``=`` to replace only VALUE.

    The parser of options receives one word, and bash the text after ``=``.
    """
    if os.environ.get("_DORY_COMPLETE") != "complete_bash":
        yield
        return
    words = os.environ.get("COMP_WORDS", "").split()
    position = int(os.environ.get("COMP_CWORD", "0"))
    words += [""] * (position + 1 - len(words))
    joined: list[str] = []
    for number, word in enumerate(words[: position + 1]):
        if joined and (word == "=" or words[number - 1] == "="):
            joined[-1] += word
        else:
            joined.append(word)
    os.environ |= {"COMP_WORDS": " ".join(joined), "COMP_CWORD": str(len(joined) - 1)}
    if len(joined) > position or "=" not in joined[-1]:
        yield
        return
    offers = StringIO()
    try:
        with redirect_stdout(offers):
            yield
    finally:
        sys.stdout.writelines(line.partition("=")[2] for line in offers.getvalue().splitlines(True))


def _plugins() -> Plugins:
    from dory_core.plugins.manager import load_plugins

    logging.getLogger("dory").setLevel(logging.CRITICAL)
    return load_plugins()


def _options(ctx: typer.Context) -> Iterator[Option]:
    plugins = _plugins()
    target = ctx.params.get("target")
    names = [t.name for t in plugins.targets()]
    seen = set()
    for name in [target] if target in names else names:
        try:
            options = plugins.options(name)
        except DoryError:
            continue
        for option in options:
            if option.name not in seen or target in names:
                seen.add(option.name)
                yield option


def _values(option: Option) -> tuple[str, ...]:
    return ("on", "off") if option.type is bool else tuple(str(v) for v in option.choices)


def _beginning(start: str, offers: Iterator[tuple[str, str]]) -> Offers:
    return [(name, text) for name, text in offers if name.startswith(start)]
