"""The kit for kernels: calls with arguments that are not there."""

from __future__ import annotations

from dory_core.api import (
    FunctionCall,
    Kernel,
    Layer,
    Number,
    OutputFile,
    Rejection,
    Tile,
    named,
    ops,
    size,
)
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case


class CopyKernel(Kernel):
    """A maximum over single elements, with an argument that is not there."""

    name = "copies"

    def accepts(self, layer: Layer) -> Rejection | None:
        return None

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        return tile.h * tile.w * tile.c_out

    def symbol(self, layer: Layer) -> str:
        return "copies"

    def call(self, layer: Layer) -> FunctionCall:
        count = size("y_h") * size("y_w") * size("y_c")
        return FunctionCall("copies", {"none": None, **named("x", "y"), "count": count})

    def headers(self, layer: Layer) -> tuple[str, ...]:
        return ("copies.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        head = "void copies(const void *none, const uint8_t *x, uint8_t *y, uint32_t count)"
        loop = "for (uint32_t i = 0; none == 0 && i < count; i++) { y[i] = x[i]; }"
        header = f"#include <stdint.h>\n{head};\n"
        return (
            OutputFile("kernels/copies.h", header),
            OutputFile("kernels/copies.c", f'#include "copies.h"\n{head} {{ {loop} }}\n'),
        )


def test_a_call_may_have_no_pointer_whatever_headers_define() -> None:
    layer = typed(alone(ops.MaxPool, window=ops.Window(kernel=(1, 1))), (3, 4, 5, 0, 255))
    HostLibrary([whole_case(CopyKernel(), layer)]).check()
