"""Graph passes: one pass per file, each from one Graph to an equivalent one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dory_core.ir import Graph


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewriting of the Graph that changes no value of any layer's output.

    name: unique, shown with ``-v`` and used for the files of ``--dump-stages``.
    summary: one line that says what it does. run: returns the new Graph, or the same object when
    there is nothing to do.
    """

    name: str
    summary: str
    run: Callable[[Graph], Graph]
