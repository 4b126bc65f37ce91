"""PULP-NN as a second backend: the library of the user's, under its own names, with its layouts.

``--kernels pulp-nn=PATH`` names a copy of the library: its folder ``32bit`` or ``64bit`` (the width
of the batch normalisation), or the folder above them, which means ``64bit``. The application gets
the library's files as they are. What the library cannot compute exactly is rejected with the reason
and falls to the portable kernels; the backend of dory's own kernels is never linked with it.
"""

from dory_gap8.pulp_nn.kernels import pulp_nn_kernels
from dory_gap8.pulp_nn.library import Library, find_library

__all__ = ["Library", "find_library", "pulp_nn_kernels"]
