"""Everything that a plugin imports from dory: ``from dory_core.api import Kernel, hookimpl``.

Other modules of ``dory_core`` are private and move between versions; tests of plugins also use
``dory_core.testing``. The names are listed in ``api.pyi``; each is imported when it is first asked
for, so that a plugin loads what it uses.
"""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(__file__)

__getattr__, __dir__ = namespace(__name__, HOMES)
