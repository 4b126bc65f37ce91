"""``dory_core.api`` is all that plugins import."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dory_core import api, testing

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(
    path.parent
    for folder in ("targets", "frontends", "tools")
    for path in ROOT.glob(f"{folder}/*/dory_*/__init__.py")
)
TEMPLATES = ROOT / "dory_core" / "scaffold" / "templates"
ALLOWED = ("dory_core.api", "dory_core.testing")


def imports_of_core(source: str) -> Iterator[str]:
    """Yield every module of the core that a Python source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "dory_core":
                yield from (f"dory_core.{name.name}" for name in node.names)
            elif node.module.startswith("dory_core."):
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (n.name for n in node.names if n.name.split(".")[0] == "dory_core")


def packages_of_ours(source: str) -> set[str]:
    """Return the packages of dory, core and plugins, that a Python source imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            found.update(name.name.partition(".")[0] for name in node.names)
    return {name for name in found if name.startswith("dory_")}


def requirements_of(package: Path) -> set[str]:
    """Return the packages of dory that a distribution depends on."""
    project = tomllib.loads((package.parent / "pyproject.toml").read_text(encoding="utf-8"))
    names = (re.match(r"[\w-]+", text) for text in project["project"]["dependencies"])
    return {name[0].replace("-", "_") for name in names if name and name[0].startswith("dory-")}


def is_allowed(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def test_the_list_of_names_is_pinned() -> None:
    """A name that goes breaks plugins: raise API_VERSION; one that comes needs a reason."""
    assert sorted(api.HOMES) == sorted(NAMES.split())


@pytest.mark.parametrize("name", sorted(api.HOMES))
def test_name_is_there(name: str) -> None:
    assert getattr(api, name) is not None
    assert name in dir(api)


@pytest.mark.parametrize("name", sorted(api.HOMES))
def test_name_is_documented(name: str) -> None:
    """Constants have a comment, which docs/reference.py looks for."""
    thing = inspect.unwrap(getattr(api, name))
    if any(kind(thing) for kind in (inspect.isclass, inspect.isfunction, inspect.ismodule)):
        text = inspect.getdoc(thing) or ""
        assert text and not text.startswith(f"{name}("), "a dataclass without docstring"


def test_reference_is_written_from_the_docstrings() -> None:
    """docs/api.md and the hooks of docs/plugins.md: `python docs/reference.py` writes them."""
    command = [sys.executable, str(ROOT / "docs" / "reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Plam'"):
        _ = api.Plam


def test_the_namespace_loads_nothing_before_it_is_asked() -> None:
    loaded = "(m for m in sys.modules if m.startswith('dory_core'))"
    code = f"import sys, dory_core.api; print(*{loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == ["dory_core", "dory_core.api", "dory_core.lazy"]


@pytest.mark.parametrize("name", sorted(vars(testing)["_HOMES"]))
def test_name_of_the_test_kit_is_there(name: str) -> None:
    assert getattr(testing, name) is not None


def test_there_are_plugins_to_look_at() -> None:
    assert len(PACKAGES) >= 1


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_plugin_imports_the_public_names_alone(package: Path) -> None:
    found = {}
    for path in sorted(package.rglob("*.py")):
        # A plugin's ``testing`` builds networks for tests, its own and others'.
        names = path.relative_to(package).with_suffix("").parts
        allowed = ALLOWED if "testing" in names else ALLOWED[:1]
        others = [
            module
            for module in imports_of_core(path.read_text(encoding="utf-8"))
            if not is_allowed(module, allowed)
        ]
        if others:
            found[path.relative_to(package).as_posix()] = others
    assert found == {}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_plugin_imports_no_other_plugin(package: Path) -> None:
    """Plugins depend on the core alone, those that read ONNX on ``dory_onnx``, too."""
    assert requirements_of(package) <= {"dory_core", "dory_onnx"}
    for path in sorted(package.rglob("*.py")):
        imported = packages_of_ours(path.read_text(encoding="utf-8"))
        assert imported <= {package.name, *requirements_of(package)}, path


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_tests_of_a_plugin_import_what_a_vendor_can(package: Path) -> None:
    found = {}
    for path in sorted((package.parent / "tests").rglob("*.py")):
        modules = imports_of_core(path.read_text(encoding="utf-8"))
        others = [module for module in modules if not is_allowed(module, ALLOWED)]
        if others:
            found[path.name] = others
    assert found == {}


@pytest.mark.parametrize("kind", ["target", "frontend"])
def test_a_new_plugin_imports_the_public_names_alone(kind: str) -> None:
    from dory_core.scaffold import names, plugin_files

    found = {}
    for file in plugin_files(kind, names("my-chip")):
        if file.path.endswith(".py"):
            allowed = ALLOWED if file.path.startswith("tests/") else ALLOWED[:1]
            others = [m for m in imports_of_core(str(file.content)) if not is_allowed(m, allowed)]
            if others:
                found[file.path] = others
    assert found == {}


NAMES = """
Access Application ApplicationLayer ApplicationRun Array Cache CompiledNetwork Constraint
Desktop DesktopRun DmaHal DoesNotFit DoryError FLOAT32 Frontend FrontendOptions FunctionCall
Graph Kernel Layer LayerOutput LayerRanges LayerResult Layout Level Link MEAN_INSIDE Memory
MemoryAccesses MemoryHierarchy NotSupported Number OperatingPoint Option OutputFile PAD_VALUE
Pass Place Rejection Requant RunRequest RunResult Runner State StructValue TURN TWO_ADDENDS
Target TargetContext Tensor Term Tile ToolMissing Traits UsageError VECTORS_OPTION
VerificationFailed WeightBlock ceil_div check cli compile extent float_requant hookimpl
image_vectors infer_layer infer_types load_arrays load_plugins maximum mean_requant minimum ops
portable_kernels quoting read_plan reject_maximum reject_type requant requantisation run
run_layer simulate storage_for tensor_bytes value_range window_access
"""
