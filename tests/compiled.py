"""Networks of the collection, compiled with their goldens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dory_core.driver.compiler import CompileOptions, CompileResult, compile_network
from dory_core.plugins.manager import Plugins
from tests.nets import net


def compiled(
    name: str,
    directory: Path,
    plugins: Plugins,
    budgets: Mapping[int, int] | None = None,
    *,
    target: str = "gap8",
    settings: Mapping[str, str] | None = None,
) -> CompileResult:
    """Compile a network into ``directory``; budgets: bytes per level, the chip's by default."""
    source = net(name)
    return compile_network(
        CompileOptions(
            network=source.onnx,
            target=target,
            frontend=source.frontend,
            output=directory,
            golden=(source.golden,),
            input_bits=source.input_bits,
            input_signed=source.input_signed,
            budgets=budgets or {},
            settings=settings or {},
        ),
        plugins,
    )
