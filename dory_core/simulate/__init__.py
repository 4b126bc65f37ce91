"""Host simulation: build an application with the host compiler, run it, compare every layer.

The names below are for the simulators of plugins: compilers, programs, processes and the cache.
"""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(
    {
        "dory_core.codegen.image_vectors": "image_vectors",
        "dory_core.golden.vectors": "VECTORS_OPTION",
        "dory_core.simulate.build": "Recipe build_program",
        "dory_core.simulate.cache": "cache_dir cached_file",
        "dory_core.simulate.compiler": "Compiler find_compiler",
        "dory_core.simulate.process": "run_process",
        "dory_core.simulate.request": "RunRequest",
        "dory_core.simulate.result": "LayerOutput LayerResult RunResult",
        "dory_core.simulate.runner": "Runner",
    }
)

__getattr__, __dir__ = namespace(__name__, HOMES)
