"""Write docs/operators.md: operators of the formats, and who computes them on each target.

    python docs/operators.py            writes it
    python docs/operators.py --check    status 1 when the page is stale

Operators are those that frontends list (``dory frontends --list-operators``). A kind of layer has
an own kernel on a target when a kernel of the plugin takes a sample layer of it with 8-bit inputs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping

from generated import written
from kernels import ROOT, is_portable, samples, targets

from dory_core.kernels.binding import rejection_of
from dory_core.plugins.frontend import Frontend
from dory_core.plugins.manager import Plugins, load_plugins

PAGE = ROOT / "docs" / "operators.md"
_OWN, _PORTABLE = "own", "portable"
_INTRODUCTION = """\
# Operators

Written by `python docs/operators.py`: the operators that each format may have, the layers that they
become, and the kernels of these layers on each target for data of 8 bits. own: a kernel of the
target; portable: plain C, which every target has; `-`: no layer is left of the operator. Where an
operator becomes one of several kinds, the slower answer stands. An operator that is not listed is
refused with a reason and, where others do the same, with the way out. `dory frontends
--list-operators` also tells what each one must be like; [kernels](kernels.md) are listed with their
types.
"""


def kernels_of_kinds(plugins: Plugins, target: str) -> dict[str, str]:
    """Return who computes each kind of layer with 8-bit data on a target."""
    ctx, found = plugins.context(target), dict[str, str]()
    for layer in samples():
        kind = layer.op.kind
        if found.get(kind) == _OWN or any(tensor.bits != 8 for tensor in layer.inputs):
            continue
        for kernel in plugins.kernels(ctx, layer):
            if found.get(kind) != _OWN and rejection_of(kernel, layer) is None:
                found[kind] = _PORTABLE if is_portable(kernel) else _OWN
    return found


def text() -> str:
    """Return the page."""
    plugins = load_plugins()
    kinds = {name: kernels_of_kinds(plugins, name) for name in targets(plugins)}
    lines = [_INTRODUCTION]
    for frontend in plugins.frontends():
        if frontend.operators is not None and _is_ours(plugins, frontend):
            lines += _table(frontend, kinds)
    return "\n".join(lines) + "\n"


def _is_ours(plugins: Plugins, frontend: Frontend) -> bool:
    folders = {f"dory-{path.parent.name}" for path in (ROOT / "frontends").glob("*/pyproject.toml")}
    return plugins.provider("frontend", frontend.name).dist in folders


def _table(frontend: Frontend, kinds: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield f"## {frontend.name}: {frontend.summary}\n"
    yield f"| operator | becomes | {' | '.join(kinds)} |"
    yield f"| --- | --- |{' --- |' * len(kinds)}"
    for one in frontend.operators() if frontend.operators else ():
        cells = (_worst(one.becomes, known) for known in kinds.values())
        yield f"| {one.name} | {one.becomes} | {' | '.join(cells)} |"
    yield ""


def _worst(becomes: str, known: Mapping[str, str]) -> str:
    found = {known[word] for word in re.findall(r"\w+", becomes) if word in known}
    return max(found, default="-")  # portable comes after own


if __name__ == "__main__":
    sys.exit(written({PAGE: text()}, sys.argv[1:]))
