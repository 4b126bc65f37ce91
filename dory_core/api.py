"""What a plugin for a chip imports: ``from dory_core.api import Kernel, hookimpl``.

Plugins import ``dory_core.api``, ``dory_core.importing`` (what makes a Graph: frontends and passes)
and ``dory_core.tools`` (commands and reports). All other modules of ``dory_core`` are private and
move between versions; tests of plugins also use ``dory_core.testing``.
"""

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from dory_core import simulators
from dory_core.codegen.application_record import Application as Application
from dory_core.codegen.application_record import ApplicationLayer as ApplicationLayer
from dory_core.codegen.application_record import CopyShape as CopyShape
from dory_core.errors import DoesNotFit as DoesNotFit
from dory_core.errors import DoryError as DoryError
from dory_core.errors import NotSupported as NotSupported
from dory_core.errors import ToolMissing as ToolMissing
from dory_core.errors import UsageError as UsageError
from dory_core.errors import VerificationFailed as VerificationFailed
from dory_core.expr import Number as Number
from dory_core.expr import ceil_div as ceil_div
from dory_core.expr import maximum as maximum
from dory_core.expr import minimum as minimum
from dory_core.hardware.caches import InstructionCache as InstructionCache
from dory_core.hardware.code_sizes import CodeSizes as CodeSizes
from dory_core.hardware.links import Link as Link
from dory_core.hardware.memories import Level as Level
from dory_core.hardware.memories import Memory as Memory
from dory_core.hardware.memories import MemoryHierarchy as MemoryHierarchy
from dory_core.hardware.target import DmaHal as DmaHal
from dory_core.hardware.target import OperatingPoint as OperatingPoint
from dory_core.hardware.target import Option as Option
from dory_core.hardware.target import OutputFile as OutputFile
from dory_core.hardware.target import Target as Target
from dory_core.hardware.target import TargetContext as TargetContext
from dory_core.ir import Graph as Graph
from dory_core.ir import Layer as Layer
from dory_core.ir import Requant as Requant
from dory_core.ir import Tensor as Tensor
from dory_core.ir import geometry as geometry
from dory_core.ir import ops as ops
from dory_core.ir import requantisation as requantisation
from dory_core.ir.features import Feature as Feature
from dory_core.ir.geometry import Tile as Tile
from dory_core.ir.layout import Layout as Layout
from dory_core.kernels import portable_kernels as portable_kernels
from dory_core.kernels.call import Argument as Argument
from dory_core.kernels.call import FunctionCall as FunctionCall
from dory_core.kernels.call import Items as Items
from dory_core.kernels.call import Local as Local
from dory_core.kernels.call import Operand as Operand
from dory_core.kernels.call import Struct as Struct
from dory_core.kernels.call import Symbol as Symbol
from dory_core.kernels.call import named as named
from dory_core.kernels.call import size as size
from dory_core.kernels.kernel import Constraint as Constraint
from dory_core.kernels.kernel import Kernel as Kernel
from dory_core.kernels.kernel import Rejection as Rejection
from dory_core.kernels.kernel import Term as Term
from dory_core.kernels.kernel import Traits as Traits
from dory_core.kernels.kernel import WeightBlock as WeightBlock
from dory_core.kernels.kernel import reject_maximum as reject_maximum
from dory_core.kernels.kernel import reject_type as reject_type
from dory_core.kernels.kernel import reject_weights as reject_weights
from dory_core.passes import Pass as Pass
from dory_core.plan import Place as Place
from dory_core.plugins.hooks import hookimpl as hookimpl
from dory_core.schedule import caches as caches

#: Runners of targets.
simulate = simulators

#: Names that may change in any version; all others change only with the version of the API.
PROVISIONAL = frozenset(
    {
        "Application",
        "ApplicationLayer",
        "CodeSizes",
        "CopyShape",
        "Feature",
        "Place",
        "caches",
        "requantisation",
        "simulate",
    }
)

if not TYPE_CHECKING:  # for type checkers such a function would define every name

    def __getattr__(name: str) -> Any:
        """Return a name that earlier versions had here, with a DeprecationWarning."""
        others = () if name.startswith("_") else ("dory_core.importing", "dory_core.tools")
        for space in map(importlib.import_module, others):
            if hasattr(space, name):
                text = f"{__name__}.{name} is {space.__name__}.{name} now"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                return getattr(space, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
