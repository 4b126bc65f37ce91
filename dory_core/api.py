"""Everything that a plugin imports from dory: ``from dory_core.api import Kernel, hookimpl``.

Other modules of ``dory_core`` are private and move between versions; tests of plugins also use
``dory_core.testing``. A name is imported from its module when it is first asked for, so that a
plugin loads what it uses.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dory_core import cli as cli
    from dory_core.application import read_plan as read_plan
    from dory_core.application import read_timeline as read_timeline
    from dory_core.budgets import BUDGET_NAMES as BUDGET_NAMES
    from dory_core.codegen.application_record import Application as Application
    from dory_core.codegen.application_record import ApplicationLayer as ApplicationLayer
    from dory_core.codegen.image_vectors import image_vectors as image_vectors
    from dory_core.compiler import CompileOptions as CompileOptions
    from dory_core.compiler import plan_only as plan_only
    from dory_core.errors import DoesNotFit as DoesNotFit
    from dory_core.errors import DoryError as DoryError
    from dory_core.errors import NotSupported as NotSupported
    from dory_core.errors import ToolMissing as ToolMissing
    from dory_core.errors import UsageError as UsageError
    from dory_core.errors import VerificationFailed as VerificationFailed
    from dory_core.estimate.cache import window_access as window_access
    from dory_core.expr import Number as Number
    from dory_core.expr import ceil_div as ceil_div
    from dory_core.expr import maximum as maximum
    from dory_core.expr import minimum as minimum
    from dory_core.frontend import Frontend as Frontend
    from dory_core.frontend import FrontendOptions as FrontendOptions
    from dory_core.hardware import Cache as Cache
    from dory_core.hardware import DmaHal as DmaHal
    from dory_core.hardware import Level as Level
    from dory_core.hardware import Link as Link
    from dory_core.hardware import Memory as Memory
    from dory_core.hardware import MemoryHierarchy as MemoryHierarchy
    from dory_core.hardware import OperatingPoint as OperatingPoint
    from dory_core.hardware import Option as Option
    from dory_core.hardware import OutputFile as OutputFile
    from dory_core.hardware import Target as Target
    from dory_core.hardware import TargetContext as TargetContext
    from dory_core.hooks import hookimpl as hookimpl
    from dory_core.ir import Add as Add
    from dory_core.ir import ArgMax as ArgMax
    from dory_core.ir import Array as Array
    from dory_core.ir import AvgPool as AvgPool
    from dory_core.ir import Concat as Concat
    from dory_core.ir import Conv as Conv
    from dory_core.ir import ConvTranspose as ConvTranspose
    from dory_core.ir import Graph as Graph
    from dory_core.ir import Layer as Layer
    from dory_core.ir import LayerRanges as LayerRanges
    from dory_core.ir import Linear as Linear
    from dory_core.ir import Lut as Lut
    from dory_core.ir import Maximum as Maximum
    from dory_core.ir import MaxPool as MaxPool
    from dory_core.ir import Minimum as Minimum
    from dory_core.ir import Mul as Mul
    from dory_core.ir import Op as Op
    from dory_core.ir import Pad as Pad
    from dory_core.ir import Pairwise as Pairwise
    from dory_core.ir import Requant as Requant
    from dory_core.ir import Reshape as Reshape
    from dory_core.ir import Resize as Resize
    from dory_core.ir import Slice as Slice
    from dory_core.ir import Softmax as Softmax
    from dory_core.ir import Tensor as Tensor
    from dory_core.ir import Transpose as Transpose
    from dory_core.ir import Window as Window
    from dory_core.ir import mean_requant as mean_requant
    from dory_core.ir import requant as requant
    from dory_core.ir import storage_for as storage_for
    from dory_core.ir.features import MEAN_INSIDE as MEAN_INSIDE
    from dory_core.ir.features import PAD_VALUE as PAD_VALUE
    from dory_core.ir.features import TWO_ADDENDS as TWO_ADDENDS
    from dory_core.ir.geometry import Tile as Tile
    from dory_core.ir.geometry import extent as extent
    from dory_core.ir.geometry import tensor_bytes as tensor_bytes
    from dory_core.ir.graph import value_range as value_range
    from dory_core.ir.layout import Layout as Layout
    from dory_core.ir.ranges import infer_layer as infer_layer
    from dory_core.ir.ranges import infer_types as infer_types
    from dory_core.kernel import Access as Access
    from dory_core.kernel import Constraint as Constraint
    from dory_core.kernel import Kernel as Kernel
    from dory_core.kernel import MemoryAccesses as MemoryAccesses
    from dory_core.kernel import Rejection as Rejection
    from dory_core.kernel import StructCall as StructCall
    from dory_core.kernel import StructValue as StructValue
    from dory_core.kernel import Term as Term
    from dory_core.kernel import Traits as Traits
    from dory_core.kernel import WeightBlock as WeightBlock
    from dory_core.kernel import reject_maximum as reject_maximum
    from dory_core.kernel import reject_type as reject_type
    from dory_core.kernels import PortableCosts as PortableCosts
    from dory_core.kernels import portable_kernels as portable_kernels
    from dory_core.passes import Pass as Pass
    from dory_core.plan import Place as Place
    from dory_core.plan import Plan as Plan
    from dory_core.plugins import load_plugins as load_plugins
    from dory_core.requantisation import Narrow as Narrow
    from dory_core.requantisation import Staircase as Staircase
    from dory_core.requantisation import cached_per_layer as cached_per_layer
    from dory_core.requantisation import exact_addend_interval as exact_addend_interval
    from dory_core.requantisation import narrow as narrow
    from dory_core.requantisation import narrow_32 as narrow_32
    from dory_core.requantisation import narrow_product as narrow_product
    from dory_core.requantisation import search_steps as search_steps
    from dory_core.requantisation import staircase as staircase
    from dory_core.requantisation import steps_of_sums as steps_of_sums
    from dory_core.simulate.build import Recipe as Recipe
    from dory_core.simulate.build import build_program as build_program
    from dory_core.simulate.cache import cache_dir as cache_dir
    from dory_core.simulate.compiler import Compiler as Compiler
    from dory_core.simulate.compiler import find_compiler as find_compiler
    from dory_core.simulate.process import run_process as run_process
    from dory_core.simulate.result import LayerOutput as LayerOutput
    from dory_core.simulate.result import LayerResult as LayerResult
    from dory_core.simulate.result import RunResult as RunResult
    from dory_core.simulate.runner import Runner as Runner
    from dory_core.simulate.runner import RunRequest as RunRequest
    from dory_core.vectors import VECTORS_OPTION as VECTORS_OPTION
#: What the namespace holds: title of a section of docs/api.md, module, names.
SECTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Hooks and errors": {
        "dory_core.hooks": ("hookimpl",),
        "dory_core.errors": (
            "DoesNotFit",
            "DoryError",
            "NotSupported",
            "ToolMissing",
            "UsageError",
            "VerificationFailed",
        ),
    },
    "Chips": {
        "dory_core.hardware": (
            "Cache",
            "DmaHal",
            "Level",
            "Link",
            "Memory",
            "MemoryHierarchy",
            "OperatingPoint",
            "Option",
            "OutputFile",
            "Target",
            "TargetContext",
        ),
        "dory_core.vectors": ("VECTORS_OPTION",),
    },
    "Networks": {
        "dory_core.ir": (
            "Add",
            "ArgMax",
            "Array",
            "AvgPool",
            "Concat",
            "Conv",
            "ConvTranspose",
            "Graph",
            "Layer",
            "LayerRanges",
            "Linear",
            "Lut",
            "Maximum",
            "MaxPool",
            "Minimum",
            "Mul",
            "Op",
            "Pad",
            "Pairwise",
            "Requant",
            "Reshape",
            "Resize",
            "Slice",
            "Softmax",
            "Tensor",
            "Transpose",
            "Window",
            "mean_requant",
            "requant",
            "storage_for",
        ),
        "dory_core.ir.graph": ("value_range",),
        "dory_core.ir.layout": ("Layout",),
        "dory_core.passes": ("Pass",),
        "dory_core.ir.ranges": ("infer_layer", "infer_types"),
    },
    "Kernels": {
        "dory_core.kernel": (
            "Access",
            "Constraint",
            "Kernel",
            "MemoryAccesses",
            "Rejection",
            "StructCall",
            "StructValue",
            "Term",
            "Traits",
            "WeightBlock",
            "reject_maximum",
            "reject_type",
        ),
        "dory_core.kernels": ("PortableCosts", "portable_kernels"),
        "dory_core.estimate.cache": ("window_access",),
    },
    "Tiles": {
        "dory_core.ir.features": ("MEAN_INSIDE", "PAD_VALUE", "TWO_ADDENDS"),
        "dory_core.ir.geometry": ("Tile", "extent", "tensor_bytes"),
        "dory_core.expr": ("Number", "ceil_div", "maximum", "minimum"),
    },
    "Requantisation": {
        "dory_core.requantisation": (
            "Narrow",
            "Staircase",
            "cached_per_layer",
            "exact_addend_interval",
            "narrow",
            "narrow_32",
            "narrow_product",
            "search_steps",
            "staircase",
            "steps_of_sums",
        ),
    },
    "Frontends": {
        "dory_core.frontend": ("Frontend", "FrontendOptions"),
    },
    "Applications": {
        "dory_core.plan": ("Place",),
        "dory_core.codegen.image_vectors": ("image_vectors",),
        "dory_core.codegen.application_record": ("Application", "ApplicationLayer"),
    },
    "Runners": {
        "dory_core.application": ("read_plan",),
        "dory_core.simulate.build": ("Recipe", "build_program"),
        "dory_core.simulate.cache": ("cache_dir",),
        "dory_core.simulate.compiler": ("Compiler", "find_compiler"),
        "dory_core.simulate.process": ("run_process",),
        "dory_core.simulate.result": ("LayerOutput", "LayerResult", "RunResult"),
        "dory_core.simulate.runner": ("Runner", "RunRequest"),
    },
    "Commands": {
        "dory_core": ("cli",),
        "dory_core.application": ("read_timeline",),
        "dory_core.budgets": ("BUDGET_NAMES",),
        "dory_core.compiler": ("CompileOptions", "plan_only"),
        "dory_core.plugins": ("load_plugins",),
        "dory_core.plan": ("Plan",),
    },
}

#: What names stand for that have no docstring of their own.
CONSTANTS: Mapping[str, str] = {
    "BUDGET_NAMES": "Numbers of the memory levels by the names of their budgets: l1, l2, l3.",
    "MEAN_INSIDE": "For Kernel.features: averages over the part of the window in the image.",
    "Number": "An int, a numpy integer array or an expression of the solver.",
    "PAD_VALUE": "For Kernel.features: padding with another value than zero.",
    "TWO_ADDENDS": "For Kernel.features: a second addend for accumulators below zero.",
    "VECTORS_OPTION": "The option for the test vectors in an image for the chip.",
}

_MODULES = {
    name: module
    for modules in SECTIONS.values()
    for module, names in modules.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_MODULES[name])
    if not hasattr(module, name):  # a package of the core
        importlib.import_module(f"{_MODULES[name]}.{name}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MODULES)
