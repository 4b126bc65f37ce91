"""Progress of long work: a bar on a terminal, or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

#: Called with (stage, steps done, steps in all); 0 in all where that is unknown.
Progress = Callable[[str, int, int], None]


@contextmanager
def progress_bar(enabled: bool) -> Iterator[Progress | None]:
    """Yield a progress callback that draws on stderr; None where it would not be seen.

    A terminal shows a bar of rich; a notebook one of tqdm, where that is installed.
    """
    from dory_core.cli.common import settings

    if not enabled or settings.verbosity < 0:
        yield None
    elif _in_notebook():
        with _notebook_bar() as advance:
            yield advance
    elif sys.stderr.isatty():
        with _terminal_bar() as advance:
            yield advance
    else:
        yield None


@contextmanager
def shown_progress(wanted: Progress | bool | None) -> Iterator[Progress | None]:
    """Yield the callback of a function of Python: the given one, a bar, or None for False."""
    if callable(wanted):
        yield wanted
        return
    with progress_bar(enabled=wanted is not False) as progress:
        yield progress


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules and find_spec("tqdm") is not None


@contextmanager
def _notebook_bar() -> Iterator[Progress]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets the bar is text
        from tqdm.auto import tqdm
    bar: Any = tqdm(leave=False)

    def advance(stage: str, done: int, total: int) -> None:
        bar.set_description(stage, refresh=False)
        bar.total, bar.n = total or None, done
        bar.refresh()

    with bar:
        yield advance


@contextmanager
def _terminal_bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def advance(stage: str, done: int, total: int) -> None:
            bar.update(task, description=stage, completed=done, total=total or None)

        yield advance
