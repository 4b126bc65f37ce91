"""All files of an application, printed from the Plan."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dory_core.codegen.copies import copies_by_helper
from dory_core.codegen.names import layer_symbol, weights_symbol
from dory_core.codegen.printer import print_layer
from dory_core.errors import DoryError
from dory_core.hardware import OutputFile
from dory_core.plan import TIMELINE_FILE, LayerStep, Plan
from dory_core.plan.operations import LayerProgram
from dory_core.planning.constants import table_bytes
from dory_core.runtime import runtime_files

TEMPLATES = Path(__file__).parent / "templates"
#: Of applications with copies that the DMA does not make in one command.
COPY_HELPER = "hal/include/dory_copy.h"
#: Of applications with float input and output.
FLOAT_HELPER = "hal/include/dory_float.h"
REPLACEABLE = {"Makefile", "README.md"}


@cache
def _template(name: str) -> Any:
    from mako.template import Template

    return Template(filename=str(TEMPLATES / name), strict_undefined=True, input_encoding="utf-8")


def render(name: str, **values: object) -> str:
    """Return the template ``name`` printed with values."""
    return str(_template(name).render(**values))


def layer_file(plan: Plan, step: LayerStep, program: LayerProgram) -> str:
    """Return the C file of one layer."""
    definitions, body = print_layer(plan.prefix, step, program, plan.cores)
    values = {"plan": plan, "step": step, "program": program}
    return render("layer.c.mako", **values, definitions=definitions, body=body)


def weights_file(prefix: str, step: LayerStep) -> str:
    """Return the C file with the constants of one layer as little-endian 32-bit words.

    prefix: of the Plan.
    """
    assert step.weights is not None
    data = table_bytes(step.weights)
    words = np.frombuffer(data, dtype="<u4").tolist()
    rows = (
        "  " + " ".join(f"0x{word:08x}," for word in words[i : i + 8])
        for i in range(0, len(words), 8)
    )
    symbol = weights_symbol(prefix, step)
    return (
        f"/* Constants of layer {step.index}: {len(data)} bytes, the blocks of its tiles in the\n"
        " * order in which they are loaded. */\n"
        '#include "network.h"\n\n'
        f"const uint32_t {symbol}[{len(words)}] DORY_TABLE = {{\n" + "\n".join(rows) + "\n};\n"
    )


def application_files(provided: Iterable[OutputFile], plan: Plan) -> tuple[OutputFile, ...]:
    """Return the files of the application but its vectors, each path once.

    provided: what kernels, HAL and target add; a target may replace Makefile and README.md.

    Raises DoryError when two providers disagree about a file.
    """
    provided = tuple(provided)
    prefix = plan.prefix
    chip_hal = any(f.path.startswith("hal/") for f in provided)
    files = [
        OutputFile("plan.json", json.dumps(plan.to_json(), indent=1) + "\n"),
        OutputFile(TIMELINE_FILE, json.dumps(plan.timeline_json(), separators=(",", ":")) + "\n"),
        OutputFile("Makefile", render("Makefile.mako", plan=plan)),
        OutputFile("README.md", render("README.md.mako", plan=plan, chip_hal=chip_hal)),
        OutputFile(".clang-format", (TEMPLATES / "clang-format").read_text(encoding="utf-8")),
        OutputFile(f"inc/{prefix}_network.h", render("public.h.mako", plan=plan)),
        OutputFile("inc/network.h", render("network.h.mako", plan=plan)),
        OutputFile("src/network.c", render("network.c.mako", plan=plan)),
    ]
    for step, program in zip(plan.steps, plan.program.layers, strict=True):
        if step.is_view:
            continue
        files.append(
            OutputFile(f"src/{layer_symbol(prefix, step)}.c", layer_file(plan, step, program))
        )
        if step.weights is not None and step.weights.linked:
            files.append(
                OutputFile(f"weights/{weights_symbol(prefix, step)}.c", weights_file(prefix, step))
            )
    if plan.float_io:
        files.append(OutputFile("src/float_io.c", render("float_io.c.mako", plan=plan)))
    needed = {
        COPY_HELPER: any(map(copies_by_helper, plan.program.layers)),
        FLOAT_HELPER: plan.float_io,
    }
    files += [
        OutputFile(path, content) for path, content in runtime_files() if needed.get(path, True)
    ]
    replaced = {f.path for f in provided} & REPLACEABLE
    files = [f for f in files if f.path not in replaced]
    files += provided
    unique: dict[str, OutputFile] = {}
    for file in files:
        known = unique.setdefault(file.path, file)
        if known.content != file.content:
            raise DoryError(f"two different files are called {file.path} in the application")
    return tuple(unique.values())
