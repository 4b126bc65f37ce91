"""``dory_core.api`` is all that plugins import."""

from __future__ import annotations

import ast
import importlib
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
TEMPLATES = ROOT / "dory_core" / "cli" / "scaffold" / "templates"
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


def is_group(name: str) -> bool:
    """Whether a name of the namespace is a module with names of its own."""
    return inspect.ismodule(getattr(api, name))


def names_of(group: str) -> list[str]:
    """Return the public names of a group: those that it lists, else the types it defines."""
    module = getattr(api, group)
    listed = getattr(module, "HOMES", None) or getattr(module, "__all__", None)
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    return sorted(listed or (name for name in own if not name.startswith("_")))


def names_used_of_groups(source: str) -> Iterator[str]:
    """Yield ``group.name`` for every name of a group that a Python source uses."""
    tree = ast.parse(source)
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom))
    imported = {
        alias.asname or alias.name: alias.name
        for node in imports
        if node.module == "dory_core.api"
        for alias in node.names
        if is_group(alias.name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in imported:
                yield f"{imported[name]}.{attribute}"


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


@pytest.mark.parametrize("module", ["api", "cli", "simulate"])
def test_stub_of_a_namespace_names_the_same_modules(module: str) -> None:
    found = importlib.import_module(f"dory_core.{module}")
    file = Path(str(found.__file__))
    stub = ast.parse(file.with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert {a.name: node.module for node in imports for a in node.names} == found.HOMES
    assert all(alias.asname == alias.name for node in imports for alias in node.names)


@pytest.mark.parametrize("group", sorted(name for name in api.HOMES if is_group(name)))
def test_names_of_a_group_are_pinned(group: str) -> None:
    assert group in GROUPS
    assert names_of(group) == sorted(GROUPS[group].split())


def test_every_name_is_there() -> None:
    missing = [name for name in api.HOMES if getattr(api, name, None) is None]
    assert not missing
    assert set(api.HOMES) <= set(dir(api))


def is_documented(name: str) -> bool:
    """Whether a name has a docstring of its own; a dataclass without one gets its signature."""
    thing = inspect.unwrap(getattr(api, name))
    if not any(kind(thing) for kind in (inspect.isclass, inspect.isfunction, inspect.ismodule)):
        return True
    text = inspect.getdoc(thing) or ""
    return bool(text) and not text.startswith(f"{name}(")


def test_every_name_is_documented() -> None:
    """Constants have a comment, which docs/reference.py looks for."""
    assert [name for name in api.HOMES if not is_documented(name)] == []


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


def test_every_name_of_the_test_kit_is_there() -> None:
    missing = [n for n in vars(testing)["_HOMES"] if getattr(testing, n, None) is None]
    assert not missing


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
def test_plugin_uses_the_pinned_names_of_groups_alone(package: Path) -> None:
    public = {f"{group}.{name}" for group, names in GROUPS.items() for name in names.split()}
    used = {
        name
        for path in package.parent.rglob("*.py")
        for name in names_used_of_groups(path.read_text(encoding="utf-8"))
    }
    assert used <= public


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
    from dory_core.cli.scaffold import names, plugin_files

    found = {}
    for file in plugin_files(kind, names("my-chip")):
        if file.path.endswith(".py"):
            allowed = ALLOWED if file.path.startswith("tests/") else ALLOWED[:1]
            others = [m for m in imports_of_core(str(file.content)) if not is_allowed(m, allowed)]
            if others:
                found[file.path] = others
    assert found == {}


NAMES = """
Application ApplicationLayer ApplicationRun Argument Array CheckedNetwork CodeSizes CompiledNetwork
Constraint DmaHal DoesNotFit
DoryError Feature Frontend FrontendOptions FunctionCall Graph Kernel Items Layer Layout Level Link
Local Memory MemoryHierarchy NotSupported Number Operand OperatingPoint Option OutputFile Pass Place
GoldenRequest ReadOperator Rejection Requant State Struct Symbol
Target TargetContext Tensor Term Tile
ToolMissing Traits UsageError VerificationFailed WeightBlock caches ceil_div check cli compile
desktop geometry hookimpl load_arrays load_plugins maximum minimum named
ops portable_kernels quoting
ranges read_plan reject_maximum reject_type requant requantisation run simulate size
"""

# The names of the groups: what is behind ``ranges`` in ``from dory_core.api import ranges``.
GROUPS = {
    "caches": """
        Access Cache MemoryAccesses window_access
    """,
    "cli": """
        BUDGET_NAMES CompileOptions Debug Frontend InputBits InputSigned Json L1 L2 L3 Network
        Objective Plan Quiet Verbose byte_size bytes_text compile_options console conversions_text
        count_text cycles_text engines_text existing_file frontend_name given_budgets
        list_of_targets network_name new_table plan_only print_json print_plan progress_bar
        read_timeline settings share_text target_settings tile_text write_file
    """,
    "desktop": """
        Desktop DesktopRun run_layer
    """,
    "geometry": """
        Extent extent make_tile tensor_bytes
    """,
    "ops": """
        Accumulator Add ArgMax AvgPool Bare Concat Conv ConvTranspose Interval KINDS LSTM_STEPS
        Linear LogSoftmax Lstm Lut MaxPool Maximum Minimum Mul Offsets Op Operator Pad Pairwise
        RandomParts RealMean Reshape Resize Sample Selection Slice Softmax Steps Transpose Triple
        Weighted Window as_text number word
    """,
    "quoting": """
        LONGEST c_comment c_string html lines makefile markdown markdown_code number path script
        shell shortened visible visible_document
    """,
    "ranges": """
        FileForm LayerRanges append_layer infer_layer infer_types shared_outputs storage_for
        value_range
    """,
    "requantisation": """
        Narrow PairLine SignedStaircase Staircase Stairs byte_table cached_per_layer
        exact_addend_interval float_requant integer_form mean_requant narrow narrow_32
        narrow_clamped narrow_limbs narrow_product pair_line_of reach search_steps
        signed_staircase staircase steps_of_sums widest
    """,
    "simulate": """
        Compiler LayerOutput LayerResult Recipe RunRequest RunResult Runner VECTORS_OPTION
        build_program cache_dir cached_file find_compiler image_vectors run_process
    """,
}
