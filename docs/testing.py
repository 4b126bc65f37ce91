"""Write docs/testing.md: the names of ``dory_core.testing``, from their docstrings.

python docs/testing.py            writes it
python docs/testing.py --check    status 1 when the page is stale
"""

from __future__ import annotations

import sys
from types import ModuleType

import reference
from generated import written

from dory_core import testing
from dory_core.testing import kernels, kind_cases, random_layers

PAGE = reference.DOCS / "testing.md"
_INTRODUCTION = """\
# Names of dory_core.testing

What tests of plugins import; [plugins.md](plugins.md#testing-a-target) shows how. Written by
`python docs/testing.py` from the docstrings. pytest calls the tests of a conformance class, a
plugin sets its attributes.
"""
#: Titles, the module that has the names, and the names.
_SECTIONS: tuple[tuple[str, ModuleType, tuple[str, ...]], ...] = (
    ("Targets", testing, ("TargetConformance", "Capabilities", "Case")),
    ("Frontends", testing, ("FrontendConformance", "NetworkFile")),
    ("Kernels", testing, ("KernelConformance",)),
    (
        "Single kernels: dory_core.testing.kernels",
        kernels,
        (
            *("HostLibrary", "Machine", "KernelCase", "make_case", "whole_case"),
            *("alone", "typed", "values_of"),
        ),
    ),
    (
        "Random layers: dory_core.testing.random_layers",
        random_layers,
        ("LayerSpace", "RandomLayers"),
    ),
    ("Examples of layers: dory_core.testing.kind_cases", kind_cases, ("example_layers",)),
    ("Plugins", testing, ("Plugins",)),
)
_OTHERS = """
## Parts of the core

Tests may use these as well; they may change in any version.

"""


def text() -> str:
    """Return the page."""
    parts, listed = [_INTRODUCTION], set[str]()
    for title, module, names in _SECTIONS:
        parts.append(f"\n## {title}\n")
        parts += [reference.described(module, name) for name in names]
        listed |= set(names)
    homes = {n: home for n, (home, _) in testing.HOMES.items() if n not in listed}
    rows = "".join(f"| `{name}` | `{home}` |\n" for name, home in sorted(homes.items()))
    return f"{''.join(parts)}{_OTHERS}| name | from |\n| --- | --- |\n{rows}"


if __name__ == "__main__":
    sys.exit(written({PAGE: text()}, sys.argv[1:]))
