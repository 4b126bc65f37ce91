"""Write what docs/ says about names and hooks: pages of names, and the hooks of plugins.md.

    python docs/reference.py            writes them
    python docs/reference.py --check    says which are stale, status 1 when one is

All come from docstrings: of ``dory_core.plugins.hookspecs``, of what ``dory_core.api``,
``dory_core.importing`` and ``dory_core.tools`` list (api.md, importing.md, tools.md), and of what
``dory_onnx`` lists (onnx.md), where it is installed.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from dory_core import api, importing, tools
from dory_core.plugins import hookspecs
from dory_core.plugins.hooks import specifications

DOCS = Path(__file__).parent
_RESULTS = ("dory_core.cli.evaluation", "dory_core.cli.frames")
#: By namespace: the titles of its page, and the modules whose names stand below them.
SECTIONS = {
    api: {
        "Hooks and errors": ("dory_core.plugins.hooks", "dory_core.errors"),
        "Chips": (
            "dory_core.hardware.memories",
            "dory_core.hardware.caches",
            "dory_core.hardware.links",
            "dory_core.hardware.code_sizes",
            "dory_core.hardware.target",
        ),
        "Networks": ("dory_core.ir", "dory_core.ir.layout", "dory_core.passes"),
        "Kernels": (
            "dory_core.kernels.kernel",
            "dory_core.kernels.call",
            "dory_core.kernels",
            "dory_core.ir.features",
            "dory_core.schedule.caches",
        ),
        "Tiles": ("dory_core.ir.geometry", "dory_core.expr"),
        "Requantisation": ("dory_core.ir.requantisation",),
        "Applications": ("dory_core.plan", "dory_core.codegen.application_record"),
        "Runners": ("dory_core.simulators",),
    },
    importing: {
        "Frontends": ("dory_core.plugins.frontend",),
        "Graphs": ("dory_core.ir", "dory_core.ir.ranges", "dory_core.ir.rearrange"),
        "Goldens": ("dory_core.golden.desktop", "dory_core.golden.arrays"),
    },
    tools: {
        "From Python": ("dory_core.cli.python", "dory_core.cli.results", *_RESULTS),
        "Commands and reports": (
            "dory_core.cli.shared",
            "dory_core.quoting",
            "dory_core.driver.application",
            "dory_core.plugins.manager",
        ),
    },
}
INTRODUCTIONS = {
    api: "What a plugin for a chip imports. What each hook is given and returns is in\n"
    "[plugins.md](plugins.md).",
    importing: "What makes a Graph: for frontends, and for targets whose passes rewrite it.",
    tools: "Commands and reports, and dory from Python.",
}
_HOOKS_BEGIN, _HOOKS_END = "<!-- hooks: docs/reference.py -->\n", "<!-- end of hooks -->\n"
_ORDER = "in this order: hooks marked `first`, the plugin of the target, the others"
#: A section of a docstring in Google style: its title and its entries, which are indented.
_SECTION = re.compile(
    r"^(Args|Attributes|Raises|Returns|Yields):\n(    .*(?:\n    .*)*)", re.MULTILINE
)
_ENTRY = re.compile(r"^([\w*]+(?:, [\w*]+)*): (.*(?:\n    .*)*)", re.MULTILINE)
_INTRODUCTION = """\
# Names of {module}

{text}

Written by `python docs/reference.py` from the docstrings. A plugin imports `dory_core.api`,
`dory_core.importing` and `dory_core.tools`, and nothing else from `dory_core`; its tests also use
`dory_core.testing`. A *provisional* name may change in any version, every other one only with the
version of the API (`DORY_API`).
"""
_ONNX = """\
# Names of dory_onnx

Written by `python docs/reference.py` from the docstrings. Frontends of ONNX dialects share this
package ([frontends/onnx](../frontends/onnx/README.md)); `dory new frontend NAME` writes one.
"""


def hooks_text() -> str:
    """Return a section for each hook: how answers are joined, what it is for, its example."""
    return "\n".join(_hook(name, parameters) for name, parameters in specifications().items())


def _hook(name: str, parameters: tuple[str, ...]) -> str:
    function = getattr(hookspecs, name)
    returns = str(inspect.signature(function).return_annotation)
    asked = _ORDER if "ctx" in parameters else "in load order"
    if returns.endswith(" | None"):
        joined = f"The first plugin, {asked}, that returns something else than None decides."
    elif returns.startswith("list"):
        joined = f"The lists of all plugins are joined {asked}."
    else:
        joined = "Every plugin is asked, in load order, for a command that is not dory's own."
    text, example = _parts(inspect.getdoc(function) or "")
    heading = f"### `{name}({', '.join(parameters)})`"
    said = f"Returns `{returns}`. {joined}\n\n{_listed(text)}"
    return f"{heading}\n\n{said}\n\n```pycon\n{example}\n```\n"


def _parts(docstring: str) -> tuple[str, str]:
    """Return the text of a docstring and the example at its end."""
    text, mark, example = docstring.partition(">>>")
    return text.strip(), (mark + example).strip()


def names_text(namespace: ModuleType) -> str:
    """Return the page of a namespace; KeyError when a name is in no section, or in two."""
    sections = SECTIONS[namespace]
    homes = [home for modules in sections.values() for home in modules]
    head = _INTRODUCTION.format(module=namespace.__name__, text=INTRODUCTIONS[namespace])
    parts, listed = [head], []
    for title, modules in sections.items():
        parts.append(f"\n## {title}\n")
        names = [name for home in modules for name in _at(namespace, home, homes)]
        parts += [_name(namespace, name) for name in names]
        listed += names
    if sorted(listed) != sorted(homes_of(namespace)):
        raise KeyError(f"SECTIONS differ: {sorted({*listed} ^ {*homes_of(namespace)})}")
    return "".join(parts)


def _at(namespace: ModuleType, home: str, homes: Sequence[str]) -> list[str]:
    """Return the names of a module, or of a package that is listed for itself."""
    found = homes_of(namespace)
    paths = {name: f"{module}.{name}" for name, module in found.items()}
    return [
        name
        for name, module in found.items()
        if paths[name] == home or (module == home and paths[name] not in homes)
    ]


def homes_of(module: ModuleType) -> dict[str, str]:
    """Return the names that a module re-exports (``import A as A``, ``a = b``), with their modules.

    It is empty for a module that defines what it offers.
    """
    found = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom):
            found |= {a.name: node.module or "" for a in node.names if a.asname == a.name}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            [name] = [target.id for target in node.targets if isinstance(target, ast.Name)]
            found[name] = getattr(module, name).__name__
    return found


def onnx_text() -> str:
    """Return docs/onnx.md."""
    import dory_onnx
    from dory_onnx import testing

    names = "".join(_name(dory_onnx, name) for name in dory_onnx.__all__)
    helpers = "".join(
        _entry(name, inspect.getdoc(getattr(testing, name)) or "") for name in testing.__all__
    )
    return f"{_ONNX}{names}\n## Tests: dory_onnx.testing\n{helpers}"


def _name(namespace: Any, name: str) -> str:
    text = described(namespace, name)
    if name not in getattr(namespace, "PROVISIONAL", ()):
        return text
    heading, _, rest = text.lstrip("\n").partition("\n")
    return f"\n{heading}\n\n*Provisional.*\n{rest}"


def described(namespace: Any, name: str) -> str:
    thing = inspect.unwrap(getattr(namespace, name))
    kinds = (inspect.isclass, inspect.isfunction, inspect.ismodule)
    if thing is Any or not any(kind(thing) for kind in kinds):
        home = importlib.import_module(homes_of(namespace).get(name, "dory_onnx.marks"))
        if not (comment := _comment(home, name)):
            raise ValueError(f"{home.__name__}.{name} has no docstring and no comment with #:")
        return _entry(name, comment)
    if inspect.ismodule(thing):
        return _entry(name, inspect.getdoc(thing) or "") + _module(name, thing)
    called = "" if inspect.isclass(thing) else _folded(f"{name}{_signature(thing)}")
    text = _entry(name, inspect.getdoc(thing) or "", called)
    if inspect.isclass(thing):
        if made := _fields(thing):
            text += f"\n```python\n{_folded(made)}\n```\n"
        if issubclass(thing, Enum):
            text += "".join(
                f"\n- `{name}.{key}`: {_comment(thing, key)}\n" for key in thing.__members__
            )
        text += "".join(_member(name, member, found) for member, found in _members(thing))
    return text


def _comment(module: Any, name: str) -> str:
    """Return the comment of ``#:`` lines above a constant of a module or class, or nothing."""
    lines = rf"((?:^ *#: .*\n)+) *{name}\b.* ="
    found = re.search(lines, inspect.getsource(module), re.MULTILINE)
    return re.sub(" *#: ", "", found[1]).strip() if found else ""


def _module(name: str, module: Any) -> str:
    """Return what a module offers: its types, its constants, its functions.

    A class has the members that none of its bases in the module has.
    """
    found = {key: getattr(module, key) for key in _names(module)}
    homes = homes_of(module)
    classes = {key: value for key, value in found.items() if inspect.isclass(value)}
    functions = {key: value for key, value in found.items() if inspect.isfunction(value)}
    others = {
        key: _comment(importlib.import_module(homes.get(key, module.__name__)), key)
        for key in found
        if key not in classes | functions
    }
    plain = ", ".join(f"`{name}.{key}`" for key, comment in others.items() if not comment)
    text = f"\nTypes and values: {plain}.\n" if plain else ""
    text += "".join(f"\n- `{name}.{key}`: {said}\n" for key, said in others.items() if said)
    for key, value in classes.items():
        text += _member(name, key, value)
        bases = [base for base in value.__mro__[1:] if base in classes.values()]
        said = {member for base in bases for member in dir(base)}
        own = (member for member in _members(value) if member[0] not in said)
        text += "".join(_member(f"{name}.{key}", *member) for member in own)
    return text + "".join(_member(name, key, value) for key, value in functions.items())


def _names(module: Any) -> list[str]:
    """Return the names that a module lists, else those that it defines."""
    listed = getattr(module, "__all__", None) or sorted(homes_of(module))
    own = (key for key, value in vars(module).items() if _is_own(module, value))
    return list(listed or own)


def _is_own(module: Any, value: Any) -> bool:
    own = getattr(value, "__module__", "") == module.__name__
    return own and (inspect.isclass(value) or inspect.isfunction(value))


def _entry(heading: str, docstring: str, called: str = "") -> str:
    text, example = _parts(docstring)
    text = f"```python\n{called}\n```\n\n{text}" if called else text
    shown = f"\n```pycon\n{example}\n```\n" if example else ""
    return f"\n### `{heading}`\n\n{_listed(text)}\n{shown}"


def _listed(text: str) -> str:
    """Return a docstring with its sections (Args, Attributes, Raises, ...) as Markdown lists."""
    return _SECTION.sub(_section, text)


def _section(found: re.Match[str]) -> str:
    title, entries = found[1], textwrap.dedent(found[2])
    return f"{title}:\n\n{_ENTRY.sub(_bullet, entries)}"


def _bullet(found: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    text = " ".join(line.strip() for line in found[2].split("\n"))
    return textwrap.fill(f"- {names}: {text}".rstrip(": "), 100, subsequent_indent="  ")


def _members(thing: type) -> list[tuple[str, Any]]:
    """Return the public methods and properties of a class, its own and inherited from ours."""
    found: dict[str, Any] = {}
    for base in reversed(thing.__mro__):
        if base.__module__.startswith("dory_"):
            found |= {k: v for k, v in vars(base).items() if not k.startswith("_")}
    kept = (property, classmethod, staticmethod, type(_members))
    return [(k, v) for k, v in found.items() if isinstance(v, kept)]


def _member(owner: str, name: str, found: Any) -> str:
    if inspect.isclass(found):
        made = _fields(found)
        heading, docstring = made or name, inspect.getdoc(found) or ""
    elif isinstance(found, property):
        heading, docstring = name, inspect.getdoc(found.fget) or ""
    else:
        function = getattr(found, "__func__", found)
        heading, docstring = f"{name}{_signature(function)}", inspect.getdoc(function) or ""
    lines = _listed(docstring).split("\n")
    text = "\n".join([lines[0], *(f"  {line}".rstrip() for line in lines[1:])])
    return f"\n- `{owner}.{heading}`: {text}\n"


def _signature(function: Any) -> str:
    """Return the parameters and the result, without ``self``."""
    signature = inspect.signature(function)
    parts, star = [], False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        if name not in ("self", "cls"):
            parts.append(_parameter(parameter))
    result = signature.return_annotation
    returns = "" if result is signature.empty else f" -> {_annotation(result)}"
    return f"({', '.join(parts)}){returns}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    default = parameter.default.name if isinstance(parameter.default, Enum) else parameter.default
    return f"{text} = {_default(default)}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "None")


def _folded(made: str) -> str:
    """Return how something is called, a line for each argument where it is longer than a line."""
    if len(made) <= 100:
        return made
    name, _, rest = made.partition("(")
    rest, _, result = rest.rpartition(")")
    depth, lines, start = 0, [], 0
    for position, letter in enumerate(rest):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            lines.append(rest[start:position])
            start = position + 2
    lines.append(rest[start:])
    return f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + f"){result}"


def _default(value: Any) -> str:
    """Return a default value; a record that is all defaults as its name."""
    if type(value).__module__.startswith("dory_"):
        return f"{type(value).__name__}()" if value == _made(type(value)) else repr(value)
    if isinstance(value, frozenset) and value:
        return f"frozenset({{{', '.join(map(repr, sorted(value)))}}})"
    return "..." if repr(value) == "<factory>" else repr(value)


def _made(kind: type) -> Any:
    try:
        return kind()
    except TypeError:
        return None


def _fields(kind: type) -> str:
    """Return how a record is made: its fields, types and defaults; nothing for other classes."""
    if not hasattr(kind, "__dataclass_fields__") or not inspect.signature(kind).parameters:
        return ""
    return kind.__name__ + _signature(kind).removesuffix(" -> None")


def texts() -> dict[Path, str]:
    """Return what each file should hold."""
    manual = DOCS / "plugins.md"
    before, _, rest = manual.read_text(encoding="utf-8").partition(_HOOKS_BEGIN)
    after = rest.partition(_HOOKS_END)[2]
    onnx = {DOCS / "onnx.md": onnx_text()} if importlib.util.find_spec("dory_onnx") else {}
    return onnx | {
        **{DOCS / f"{n.__name__.split('.')[1]}.md": names_text(n) for n in SECTIONS},
        manual: f"{before}{_HOOKS_BEGIN}\n{hooks_text()}\n{_HOOKS_END}{after}",
    }


if __name__ == "__main__":
    from generated import written  # of this folder, which is on no path where a test imports this

    sys.exit(written(texts(), sys.argv[1:]))
