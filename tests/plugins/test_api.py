"""``dory_core.api``, ``.importing`` and ``.tools`` are all that plugins import."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dory_core import api, importing, testing, tools

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(
    path.parent
    for folder in ("targets", "frontends", "tools")
    for path in ROOT.glob(f"{folder}/*/dory_*/__init__.py")
)
TEMPLATES = ROOT / "dory_core" / "cli" / "scaffold" / "templates"
NAMESPACES = (api, importing, tools)
#: No plugins: what frontends of ONNX share, and targets that take CMSIS-NN.
LIBRARIES = ("dory_onnx", "dory_cmsis_nn")
#: What plugins import, and what their tests import beside it.
PUBLIC = ("dory_core.api", "dory_core.importing", "dory_core.tools")
ALLOWED = (*PUBLIC, "dory_core.testing")


def homes_of(module: ModuleType) -> dict[str, str]:
    """Return the names that a module re-exports, with their modules (docs/reference.py)."""
    return _reference().homes_of(module)


@cache
def _reference() -> Any:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def groups() -> dict[str, ModuleType]:
    """Return the names of the namespaces that are modules with names of their own."""
    found = {name: getattr(space, name) for space in NAMESPACES for name in homes_of(space)}
    return {name: value for name, value in found.items() if inspect.ismodule(value)}


def names_of(module: ModuleType) -> list[str]:
    """Return the public names of a group: those that it lists, else the types it defines."""
    listed = getattr(module, "__all__", None) or homes_of(module)
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    return sorted(listed or (name for name in own if not name.startswith("_")))


def names_used_of_groups(source: str) -> Iterator[str]:
    """Yield ``group.name`` for every name of a group that a Python source uses."""
    tree = ast.parse(source)
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom))
    imported = {
        alias.asname or alias.name: alias.name
        for node in imports
        if node.module in PUBLIC
        for alias in node.names
        if alias.name in GROUPS
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


@pytest.mark.parametrize("space", NAMESPACES)
def test_the_list_of_names_is_pinned(space: ModuleType) -> None:
    """A name that goes breaks plugins: raise API_VERSION; one that comes needs a reason."""
    assert sorted(homes_of(space)) == sorted(NAMES[space.__name__].split())
    assert {*homes_of(space)} >= space.PROVISIONAL


def test_a_name_stands_in_one_namespace() -> None:
    names = [name for space in NAMESPACES for name in homes_of(space)]
    assert len({*names}) == len(names)


def test_names_of_groups_are_pinned() -> None:
    assert {name: names_of(module) for name, module in groups().items()} == {
        name: sorted(names.split()) for name, names in GROUPS.items()
    }


@pytest.mark.parametrize("space", NAMESPACES)
def test_names_are_there_and_documented(space: ModuleType) -> None:
    """Constants have a comment, which docs/reference.py looks for."""
    for name in homes_of(space):
        thing = inspect.unwrap(getattr(space, name))
        assert thing is not None, name
        if any(kind(thing) for kind in (inspect.isclass, inspect.isfunction, inspect.ismodule)):
            text = inspect.getdoc(thing) or ""
            assert text and not text.startswith(f"{name}("), f"{name} has no docstring"


@pytest.mark.parametrize("name, space", [("Frontend", importing), ("cli", tools)])
def test_a_name_of_an_earlier_version_still_works(name: str, space: ModuleType) -> None:
    with pytest.warns(DeprecationWarning, match=f"api.{name} is {space.__name__}.{name} now"):
        assert getattr(api, name) is getattr(space, name)


def test_reference_is_written_from_the_docstrings() -> None:
    """Pages of names, and hooks in docs/plugins.md: `python docs/reference.py` writes them."""
    command = [sys.executable, str(ROOT / "docs" / "reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_names_of_the_kit_are_written_from_the_docstrings() -> None:
    command = [sys.executable, str(ROOT / "docs" / "testing.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Plam'"):
        _ = api.Plam


def test_names_of_the_test_kit_are_there() -> None:
    for name in testing.HOMES:
        assert getattr(testing, name) is not None, name


def test_there_are_plugins_to_look_at() -> None:
    assert len(PACKAGES) >= 1


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_plugin_imports_the_public_names_alone(package: Path) -> None:
    found = {}
    for path in sorted(package.rglob("*.py")):
        # A plugin's ``testing`` builds networks for tests, its own and others'.
        names = path.relative_to(package).with_suffix("").parts
        allowed = ALLOWED if "testing" in names else PUBLIC
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
    """Plugins depend on the core alone, and on the libraries that some of them share."""
    assert requirements_of(package) <= {"dory_core", *LIBRARIES}
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
            allowed = ALLOWED if file.path.startswith("tests/") else PUBLIC
            others = [m for m in imports_of_core(str(file.content)) if not is_allowed(m, allowed)]
            if others:
                found[file.path] = others
    assert found == {}


NAMES = {
    "dory_core.api": """
        Application ApplicationLayer Argument CodeSizes Constraint CopyShape DmaHal
        DoesNotFit DoryError Feature FunctionCall Graph InstructionCache Items Kernel Layer
        Layout Level Link Local Memory MemoryHierarchy NotSupported Number Operand
        OperatingPoint Option OutputFile Pass Place Rejection Requant Struct Symbol Target
        TargetContext Tensor Term Tile ToolMissing Traits UsageError VerificationFailed
        WeightBlock caches ceil_div geometry hookimpl maximum
        minimum named ops portable_kernels reject_maximum reject_type reject_weights
        requantisation simulate size
    """,
    "dory_core.importing": """
        Array Frontend FrontendOptions GoldenRequest ReadOperator State desktop load_arrays
        ranges rearrange requant
    """,
    "dory_core.tools": """
        ApplicationRun CheckedNetwork CompiledNetwork EvaluatedNetwork LeastRam Picture check cli
        compile evaluate least_ram load_plugins quoting read_plan run
    """,
}

# The names of the groups: what is behind ``ranges`` in ``from dory_core.importing import ranges``.
GROUPS = {
    "caches": """
        Access Cache MemoryAccesses window_access
    """,
    "cli": """
        BUDGET_NAMES CompileOptions Debug Frontend InputBits InputSigned Json L1 L2 L3 Network
        Objective Plan Quiet Verbose byte_size bytes_text check_outside compile_options console
        conversions_text count_text cycles_text data_frame engines_text existing_file frontend_name
        given_budgets html_page list_of_targets network_name new_table option_texts plan_only
        print_json print_plan progress_bar read_timeline settings share_text shown_progress
        size_in_bytes target_settings tile_text write_file
    """,
    "desktop": """
        Desktop DesktopRun run_layer
    """,
    "geometry": """
        Extent extent make_tile tensor_bytes
    """,
    "ops": """
        Accumulator Add ArgMax AvgPool Bare Concat Conv ConvTranspose InstanceNorm Interval KINDS
        L2Norm LSTM_STEPS LayerNorm Linear Loads LogSoftmax Lstm Lut MatMul MaxPool Maximum Minimum
        Mul Norm NormForm Offsets Op Operator Pad Pairwise Piecewise PooledConv Quotient RandomParts
        RealMean Reshape Resize Sample Selection Shares Slice Softmax Steps Transpose Triple
        Weighted WideSoftmax Window as_text
        number word
    """,
    "quoting": """
        LONGEST c_comment c_string html lines makefile markdown markdown_code number path script
        shell shortened visible visible_document
    """,
    "ranges": """
        FileForm LayerRanges append_layer infer_layer infer_types shared_outputs storage_for
        value_range
    """,
    "rearrange": """
        MOST_BLOCKS blocks_of rearranged
    """,
    "requantisation": """
        HighProduct Narrow PairLine SignedStaircase Staircase Stairs byte_table cached_per_layer
        exact_addend_interval float_requant high_product integer_form mean_requant narrow narrow_32
        narrow_clamped narrow_for_channels narrow_limbs narrow_product pair_line_of reach
        search_steps signed_staircase staircase steps_of_sums widest
    """,
    "simulate": """
        Compiler LayerOutput LayerResult Recipe RunRequest RunResult Runner VECTORS_OPTION
        build_program cache_dir cached_file find_compiler image_vectors run_process
    """,
}
