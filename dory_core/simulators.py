"""What runners of targets use: compilers, programs, processes and the cache.

Plugins have it as ``from dory_core.api import simulate``.
"""

from dory_core.codegen.image_vectors import image_vectors as image_vectors
from dory_core.golden.vectors import VECTORS_OPTION as VECTORS_OPTION
from dory_core.simulate.build import Recipe as Recipe
from dory_core.simulate.build import build_program as build_program
from dory_core.simulate.cache import cache_dir as cache_dir
from dory_core.simulate.cache import cached_file as cached_file
from dory_core.simulate.compiler import Compiler as Compiler
from dory_core.simulate.compiler import find_compiler as find_compiler
from dory_core.simulate.process import run_process as run_process
from dory_core.simulate.request import RunRequest as RunRequest
from dory_core.simulate.result import LayerOutput as LayerOutput
from dory_core.simulate.result import LayerResult as LayerResult
from dory_core.simulate.result import RunResult as RunResult
from dory_core.simulate.runner import Runner as Runner
