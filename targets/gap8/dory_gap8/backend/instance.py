"""Instances of the C templates: one small file per variant in use, with its header."""

from __future__ import annotations

import functools
import hashlib
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from dory_core.api import (
    Argument,
    Feature,
    FunctionCall,
    Kernel,
    Layer,
    OutputFile,
    Rejection,
    Requant,
    Struct,
    named,
)
from dory_gap8.code_sizes import kernel_bytes, running_bytes

#: Arguments of a kernel by name.
Arguments = tuple[tuple[str, Argument], ...]

# Element types that inputs and outputs of the kernels may have.
BYTE_TYPES = ("u8", "i8", "u16", "i16")
INPUT_TYPES = ("u2", "i2", "u4", "i4", *BYTE_TYPES)
OUTPUT_TYPES = (*INPUT_TYPES, "i32")
# Elements of 16 bits as two unsigned bytes (``Tensor.halves``).
HALVES = "u8x2"

# Templates that each template includes.
_REQUANT = ("even", "requant_impl")
_STRIPS = (
    *("depthwise_outputs_asm", "depthwise_strips", "even_asm", "function_asm"),
    *_REQUANT,
    "share",
)
_SQUARES = ("depthwise_blocks", "depthwise_blocks_asm", "depthwise_blocks_tile", *_STRIPS)
_BLOCK = (
    *("block_tile", "block_impl", "block_asm", "block_value", "even_asm", "function_asm"),
    *_REQUANT,
    "share",
)
_INCLUDES = {
    "conv": ("matmul_impl", "packed", *_REQUANT, "share"),
    "window": _BLOCK,
    "slide": ("slide_asm", "slide_run", *_BLOCK),
    "gather": _BLOCK,
    "filled": _BLOCK,
    "matrices": _BLOCK,
    "held": ("block_value", "even", "share"),
    "linear": ("matmul_impl", "packed", *_REQUANT, "share"),
    "depthwise_3x3": ("depthwise_3x3_asm", "depthwise_3x3_half_asm", *_SQUARES),
    "depthwise_5x5": ("depthwise_5x5_asm", *_SQUARES),
    "depthwise_any": ("depthwise_any_asm", *_STRIPS),
    "depthwise": ("packed", *_REQUANT, "share"),
    "maxpool": ("packed", "share"),
    "avgpool": ("packed", *_REQUANT, "share"),
    "add": ("packed", *_REQUANT, "share"),
    "linear_bytes": (*_REQUANT, "share"),
    "pool_bytes": (*_REQUANT, "pool_share", "share"),
    "maxpool_bytes": ("pool_share", "share"),
    "realpool": ("pool_bytes_impl", *_REQUANT, "pool_share", "share"),
    "add_bytes": ("share",),
    "pair": (*_REQUANT, "share"),
    "concat": ("bytes", "share"),
    "lut": ("share",),
    "move": ("bytes", "share"),
    "transpose": ("bytes", "share"),
    "resize": ("bytes", *_REQUANT, "share"),
    "softmax": ("share",),
    "norm": ("quotient", "share"),
    "shares": ("quotient", "share"),
}
_ARGUMENTS = {
    "depthwise_3x3": "strips",
    "depthwise_5x5": "strips",
    "depthwise_any": "strips",
    "window": "window",
    "slide": "window",
    "gather": "window",
    "filled": "window",
    "held": "window",
    "matrices": "matrices",
    "linear": "linear",
    "maxpool": "pool",
    "avgpool": "pool",
    "add": "add",
    "linear_bytes": "linear_bytes",
    "pool_bytes": "pool",
    "maxpool_bytes": "pool",
    "realpool": "realpool",
    "add_bytes": "add_bytes",
    "pair": "pair",
    "concat": "concat",
    "lut": "lut",
    "move": "move",
    "transpose": "transpose",
    "resize": "resize",
    "softmax": "softmax",
    "norm": "norm",
    "shares": "shares",
}


#: The name of an instance in its assembly.
KERNEL = "DORY_KERNEL"
_DIGEST_BYTES = 3


@dataclass(frozen=True)
class Instance:
    """An instance of a C template, and all that its function depends on.

    kind: of the template. label: what people call the function. purpose: one sentence for the
    file's comment. macros: names and values, of everything in which instances differ. assembly: a
    header next to it in which the function is called KERNEL, empty without one.
    """

    kind: str
    label: str
    purpose: str
    macros: tuple[tuple[str, str], ...]
    assembly: str = ""

    @property
    def symbol(self) -> str:
        """The function: two instances have the same one only if they are the same code."""
        code = "\n".join((self.kind, self._defines, self.assembly))
        return f"{self.label}_{hashlib.sha256(code.encode()).hexdigest()[: 2 * _DIGEST_BYTES]}"

    @property
    def code_bytes(self) -> int:
        """Bytes of its object, measured."""
        return kernel_bytes(self.kind, dict(self.macros))

    @property
    def running_bytes(self) -> int | None:
        """Bytes of code that a call runs, None where they were not measured."""
        return running_bytes(self.kind, dict(self.macros))

    @property
    def _defines(self) -> str:
        return "".join(f"#define {name} {value}\n" for name, value in self.macros)

    def files(self) -> tuple[OutputFile, ...]:
        """Return the instance and every file that it includes. Equal paths have equal content."""
        symbol, defines = self.symbol, self._defines
        guard = symbol.upper() + "_H"
        header = (
            f"/* {self.purpose} Every core of the cluster calls it for each tile. */\n"
            f"#ifndef {guard}\n#define {guard}\n\n"
            '#include "dory_gap8_types.h"\n\n'
            f"void {symbol}(const {argument_type(self.kind)} *a);\n\n#endif\n"
        )
        beside = ()
        if self.assembly:
            path = f"{symbol}_asm.h"
            defines += f'#define DORY_KERNEL_ASM "{path}"\n'
            beside = (OutputFile(f"kernels/{path}", self.assembly.replace(KERNEL, symbol)),)
        body = (
            f"/* {self.purpose} */\n"
            f'#include "{symbol}.h"\n\n'
            f"#define {KERNEL} {symbol}\n{defines}\n"
            f'#include "dory_gap8_{self.kind}_impl.h"\n'
        )
        names = ("simd", "types", *_INCLUDES[self.kind], f"{self.kind}_impl")
        return (
            OutputFile(f"kernels/{symbol}.c", body),
            OutputFile(f"kernels/{symbol}.h", header),
            *(shipped(f"dory_gap8_{name}.h") for name in sorted(names)),
            *beside,
        )


@dataclass(frozen=True)
class ClusterKernel(Kernel):
    """A kernel that is an instance of a template. cores: cores that share a tile."""

    features = frozenset({Feature.FLOAT32, Feature.TWO_ADDENDS, Feature.TURN})
    cores: int = 8

    @abstractmethod
    def instance(self, layer: Layer) -> Instance:
        """Return the instance that computes a layer."""

    def symbol(self, layer: Layer) -> str:
        """The function of the instance."""
        return self.instance(layer).symbol

    def code_bytes(self, layer: Layer) -> int | None:
        """Those of the instance."""
        return self.instance(layer).code_bytes

    def running_bytes(self, layer: Layer) -> int | None:
        """Return the bytes of code that a call on a tile runs."""
        return self.instance(layer).running_bytes

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """The header of the instance."""
        return (f"{self.symbol(layer)}.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The instance and the templates."""
        return self.instance(layer).files()


def c_type(tensor_type: str) -> str:
    """Return the C type that holds an element: ``uint8_t`` for ``u8`` and for ``u2``."""
    if tensor_type == HALVES:
        return "uint16_t"
    return f"{'int' if tensor_type[0] == 'i' else 'uint'}{max(int(tensor_type[1:]), 8)}_t"


def element_macros(name: str, tensor_type: str) -> tuple[tuple[str, str], ...]:
    """Return the macros of a tensor's elements in memory: ``DORY_X_BITS`` and the like."""
    return (
        (f"DORY_{name}_BITS", tensor_type[1:]),
        (f"DORY_{name}_SIGNED", str(int(tensor_type[0] == "i"))),
    )


def reject_channelwise(requants: Iterable[Requant]) -> Rejection | None:
    """Return why parameters that differ from channel to channel are not possible."""
    if any(step.is_channelwise for step in requants):
        return Rejection("its requantisation differs from channel to channel")
    return None


def vector_macros(tensor_type: str) -> tuple[tuple[str, str], ...]:
    """Return the macros of the input type of kernels that multiply four elements at once.

    Elements below 8 bits are multiplied as the bytes that they become, halves as bytes.
    """
    halves = tensor_type == HALVES
    vector = "u8" if halves else f"{tensor_type[0]}{max(int(tensor_type[1:]), 8)}"
    return (
        *element_macros("X", "u16" if halves else tensor_type),
        ("DORY_X_T", c_type(tensor_type)),
        ("DORY_X4_T", f"dory_gap8_{vector}x4_t"),
        ("DORY_LOAD4_X", f"dory_gap8_load4_{vector}"),
        ("DORY_STORE4_X", f"dory_gap8_store4_{vector}"),
        ("DORY_SET4_X", f"dory_gap8_set4_{vector}"),
        ("DORY_FROM_WORD_X", f"dory_gap8_from_word_{vector}"),
        ("DORY_DOT4", f"dory_gap8_dot4_{vector}"),
    )


@functools.cache
def shipped(name: str) -> OutputFile:
    """Return a file of the package's kernels as it is."""
    text = (files("dory_gap8") / "kernels" / name).read_text(encoding="utf-8")
    return OutputFile(f"kernels/{name}", text)


def argument_type(kind: str) -> str:
    """Return the C type of the argument of a kernel of this kind."""
    return f"dory_gap8_{_ARGUMENTS.get(kind, 'conv')}_t"


def call_text(symbol: str, kind: str, arguments: Iterable[tuple[str, Argument]]) -> FunctionCall:
    """Return the call of an instance with named arguments."""
    return FunctionCall(symbol, {"arguments": Struct(dict(arguments), argument_type(kind))})


def tile_arguments(*names: str) -> Arguments:
    """Return operands and sizes of the tile as arguments that are called like them."""
    return tuple(named(*names).items())
