"""Test vectors inside a program for the chip: assembly that includes the files of ``vectors/``.

A target that has the option of ``dory_core.vectors.VECTORS_OPTION`` adds these files to its
application. Nothing is converted to C: compiling takes no time, whatever the vectors' size.
"""

from __future__ import annotations

from collections.abc import Sequence

from dory_core.codegen.application_record import Application
from dory_core.hardware import OutputFile

HEADER = "dory_vectors.h"
SOURCE = "dory_vectors.S"


def image_vectors(application: Application, which: str, folder: str) -> tuple[OutputFile, ...]:
    """Return header and source of the vectors in the image, at paths below ``folder``.

    which: ``none``, ``io`` or ``all``, as in the option. The header declares
    ``dory_vector_count()``, and ``dory_vector_input(run)``, ``dory_vector_output(run)`` and
    ``dory_vector_layer(run, layer)``, which return NULL for what the image does not hold. The
    assembler has to run in the application's directory.
    """
    layers = {one.index: one.output.tensor.size_bytes for one in application.layers}
    goldens = [f"layer_{index:02d}" for index in sorted(layers)]
    names = {"none": [], "io": ["input", "output"], "all": ["input", "output", *goldens]}[which]
    input_bytes = sum(place.tensor.size_bytes for place in application.inputs)
    output_bytes = sum(place.tensor.size_bytes for place in application.outputs)
    return (
        OutputFile(f"{folder}/{HEADER}", _header(names, layers, input_bytes, output_bytes)),
        OutputFile(f"{folder}/{SOURCE}", _source(names)),
    )


def _symbol(name: str) -> str:
    return f"dory_vectors_{name}"


def _source(names: Sequence[str]) -> str:
    lines = ["/* Test vectors, all runs one after the other. */"]
    for name in names:
        symbol = _symbol(name)
        lines += [
            f'  .section .rodata.{symbol}, "a"',
            "  .balign 8",
            f"  .global {symbol}, {symbol}_end",
            f"{symbol}:",
            f'  .incbin "vectors/{name}.bin"',
            f"{symbol}_end:",
        ]
    return "\n".join(lines) + "\n"


def _header(
    names: Sequence[str], layers: dict[int, int], input_bytes: int, output_bytes: int
) -> str:
    has = set(names)
    arrays = [f"extern const uint8_t {_symbol(name)}[], {_symbol(name)}_end[];" for name in names]
    count = "0"
    if "input" in has:
        begin, end = _symbol("input"), f"{_symbol('input')}_end"
        count = f"(uint32_t)({end} - {begin}) / {input_bytes}u"

    def one(name: str, size: int) -> str:
        return f"{_symbol(name)} + run * {size}u" if name in has else "NULL"

    cases = [
        f"    case {index}:\n      return {one(f'layer_{index:02d}', size)};"
        for index, size in sorted(layers.items())
        if f"layer_{index:02d}" in has
    ]
    lines = [
        "/* Test vectors in the image; NULL where it does not hold them. */",
        "#ifndef DORY_VECTORS_H",
        "#define DORY_VECTORS_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        *arrays,
        *([""] if arrays else []),
        "static inline uint32_t dory_vector_count(void)",
        "{",
        f"  return {count};",
        "}",
        "",
        "static inline const uint8_t *dory_vector_input(uint32_t run)",
        "{",
        "  (void)run;",
        f"  return {one('input', input_bytes)};",
        "}",
        "",
        "static inline const uint8_t *dory_vector_output(uint32_t run)",
        "{",
        "  (void)run;",
        f"  return {one('output', output_bytes)};",
        "}",
        "",
        "static inline const uint8_t *dory_vector_layer(uint32_t run, int layer)",
        "{",
        "  (void)run;",
        "  switch (layer) {",
        *cases,
        "    default:",
        "      return NULL;",
        "  }",
        "}",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"
