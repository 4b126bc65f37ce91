"""Graph passes: one pass per file, each from one Graph to an equivalent one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dory_core.ir import Graph


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewriting of the Graph that changes no value of any layer's output, unless it says so.

    name: unique, shown with ``-v`` and used for the files of ``--dump-stages``.
    summary: one line that says what it does. run: returns the new Graph, with the same layers and
    tensors by index and name, or the same object when there is nothing to do. exact: False for one
    that may change values because an option of the target asks for it; how many differ on the test
    vectors, and by how much, is then measured and reported.
    """

    name: str
    summary: str
    run: Callable[[Graph], Graph]
    exact: bool = True
