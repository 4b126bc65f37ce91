"""The names of ``dory_core.simulate`` for plugins; see ``dory_core.lazy``."""

from dory_core.simulate.build import Recipe as Recipe
from dory_core.simulate.build import build_program as build_program
from dory_core.simulate.cache import cache_dir as cache_dir
from dory_core.simulate.cache import cached_file as cached_file
from dory_core.simulate.compiler import Compiler as Compiler
from dory_core.simulate.compiler import find_compiler as find_compiler
from dory_core.simulate.process import run_process as run_process
