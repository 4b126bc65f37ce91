"""Host simulation: build an application with the host compiler, run it, compare every layer.

Of what it consists, ``__init__.pyi`` lists what plugins use for simulators of their own: compilers,
programs, processes and the cache.
"""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(__file__)

__getattr__, __dir__ = namespace(__name__, HOMES)
