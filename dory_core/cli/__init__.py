"""The command line: one file per command, heavy imports inside the commands.

What commands share is listed in ``__init__.pyi``; plugins have it as ``from dory_core.api import
cli``.
"""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(__file__)

__getattr__, __dir__ = namespace(__name__, HOMES)
