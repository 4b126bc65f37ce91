"""Instances of the C templates: one small file per variant in use, with its header."""

from __future__ import annotations

import functools
import hashlib
from abc import abstractmethod
from collections.abc import Iterable
from importlib.resources import files

from dory_core.api import (
    Argument,
    Feature,
    FunctionCall,
    Kernel,
    Layer,
    Number,
    OutputFile,
    Struct,
    Tensor,
    Tile,
    ceil_div,
    named,
    ops,
)

#: Arguments of a kernel by name.
Arguments = tuple[tuple[str, Argument], ...]
PREFIX = "dory_stm32h7"
BYTES = ("u8", "i8")
HALVES = ("u16", "i16")
OUTPUTS = ("u8", "i8", "u16", "i16", "i32")

_DIGITS = 6  # of the digest in names

# Headers that each template includes.
_INCLUDES = {
    "conv": (
        "assembly",
        "matmul_impl",
        "pairs_impl",
        "requant_impl",
        "vector_impl",
        "weights_impl",
    ),
    "depthwise": (
        "assembly",
        "planar_impl",
        "requant_impl",
        "strip_impl",
        "weights_impl",
        "wide_impl",
    ),
    "linear": ("assembly", "requant_impl", "rows_impl", "vector_impl", "weights_impl"),
    "matrices": ("assembly", "matmul_impl", "pairs_impl", "requant_impl", "weights_impl"),
    "maxpool": ("pool_window",),
    "avgpool": ("pool_window", "requant_impl"),
    "realpool": ("binary32_impl", "pool_window"),
    "pair": ("requant_impl",),
    "move": ("copy_impl",),
    "transpose": ("copy_impl",),
    "lut": (),
    "sums": (),
    "concat": ("copy_impl",),
    "resize": ("copy_impl", "requant_impl"),
    "softmax": ("binary32_impl",),
    "layernorm": ("binary32_impl",),
    "norm": (),
    "shares": (),
}
_ARGUMENTS = {"depthwise": "conv", "maxpool": "pool", "avgpool": "pool", "realpool": "pool"}


class TimedKernel(Kernel):
    """A kernel whose cycles are known.

    percent: of a core's cycles for the kernel by those of a Cortex-M7 (``parts.Core``).
    beyond: what the model of the pipeline leaves out (calibration.BEYOND), percent and cycles of a
    call.
    """

    percent = 100
    beyond = (0, 0)

    @abstractmethod
    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Return the tenths of cycles of one call on ``tile``."""

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of one call on ``tile``."""
        percent, call = self.beyond
        return ceil_div(self.tenths(layer, tile) * self.percent * (100 + percent), 100_000) + call


class InstanceKernel(TimedKernel):
    """A kernel whose C is an instance of the template ``template``, ``dory_stm32h7_*_impl.h``.

    fpv5: what compilers may not say of the FPU of the part's core (``parts.Core``).
    """

    template: str
    fpv5 = False
    features = frozenset({Feature.FLOAT32, Feature.TWO_ADDENDS, Feature.TURN})

    @abstractmethod
    def label(self, layer: Layer) -> str:
        """Return the name of the function for people."""

    @abstractmethod
    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """Return the macros of the instance, names and values: everything in which they differ."""

    def symbol(self, layer: Layer) -> str:
        """The function: two instances have the same one only if they are the same code."""
        code = f"{_code(self.template)}\n{self._defines(layer)}"
        return f"{self.label(layer)}_{hashlib.sha256(code.encode()).hexdigest()[:_DIGITS]}"

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """The header of the instance."""
        return (f"{self.symbol(layer)}.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The instance and every file that it includes."""
        symbol = self.symbol(layer)
        purpose = f"{self.summary}, see {PREFIX}_{self.template}_impl.h."
        header = (
            f"/* {purpose} */\n#ifndef {symbol.upper()}_H\n#define {symbol.upper()}_H\n\n"
            f'#include "{PREFIX}_types.h"\n\n'
            f"void {symbol}(const {self._argument()} *a);\n\n#endif\n"
        )
        body = (
            f'/* {purpose} */\n#include "{symbol}.h"\n\n'
            "/* Networks of one program may each bring it: one of them is linked. */\n"
            f"#pragma weak {symbol}\n#define DORY_KERNEL {symbol}\n"
            f'{self._defines(layer)}\n#include "{PREFIX}_{self.template}_impl.h"\n'
        )
        return (
            OutputFile(f"kernels/{symbol}.c", body),
            OutputFile(f"kernels/{symbol}.h", header),
            *_template(self.template),
        )

    def _defines(self, layer: Layer) -> str:
        core = (("DORY_FPV5", 1),) if self.fpv5 else ()
        macros = (*core, *self.instance_macros(layer))
        return "".join(f"#define {name} {value}\n" for name, value in macros)

    def instance_call(
        self, layer: Layer, arguments: Iterable[tuple[str, Argument]]
    ) -> FunctionCall:
        """Return the call of the instance with named arguments, a literal in read-only memory."""
        struct = Struct(dict(arguments), self._argument(), literal=True)
        return FunctionCall(self.symbol(layer), {"arguments": struct})

    def _argument(self) -> str:
        return f"{PREFIX}_{_ARGUMENTS.get(self.template, self.template)}_t"


@functools.cache
def _template(name: str) -> tuple[OutputFile, ...]:
    """Return every file that an instance of a template includes."""
    parts = _INCLUDES[name]
    parts += ("binary32_impl",) if "requant_impl" in parts else ()
    shipped = ("simd", "types", f"{name}_impl", *parts)
    return tuple(_shipped(f"{PREFIX}_{part}.h") for part in sorted(shipped))


@functools.cache
def _code(template: str) -> str:
    """Return the code of a template: another release of dory may have another one."""
    return "".join(str(file.content) for file in _template(template))


@functools.cache
def _shipped(name: str) -> OutputFile:
    text = (files("dory_stm32h7") / "kernels" / name).read_text(encoding="utf-8")
    return OutputFile(f"kernels/{name}", text)


def tile_arguments(*names: str) -> Arguments:
    """Return operands and sizes of the tile as arguments that are called like them."""
    return tuple(named(*names).items())


def step_arguments(window: ops.Window) -> Arguments:
    """Return strides and dilations."""
    return (
        ("stride_h", window.strides[0]),
        ("stride_w", window.strides[1]),
        ("dilation_h", window.dilations[0]),
        ("dilation_w", window.dilations[1]),
    )


def pad_value(layer: Layer) -> int:
    """Return the value of padding, 0 when there is none."""
    window = layer.window
    return window.pad_value if any(window.pads) else 0


def pad_token(layer: Layer) -> str:
    """Return the part of an instance's name that tells its padding."""
    return f"_pads_{pad_value(layer)}".replace("-", "m") if pad_value(layer) else ""


def kernel_arguments(window: ops.Window) -> Arguments:
    """Return the size of a window."""
    return (("kernel_h", window.kernel[0]), ("kernel_w", window.kernel[1]))


def c_type(tensor: Tensor) -> str:
    """Return the C type of an element."""
    return f"{'int' if tensor.signed else 'uint'}{tensor.bits}_t"


def type_macros(name: str, tensor: Tensor) -> tuple[tuple[str, object], ...]:
    """Return the macros ``DORY_X_T``, ``DORY_X_BITS`` and ``DORY_X_SIGNED`` of a tensor."""
    return (
        (f"DORY_{name}_T", c_type(tensor)),
        (f"DORY_{name}_BITS", tensor.bits),
        (f"DORY_{name}_SIGNED", int(tensor.signed)),
    )
