"""Every hook is documented, and the examples in their docstrings run."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest

from dory_core.plugins import hookspecs
from dory_core.plugins.hooks import specifications
from dory_core.plugins.manager import Plugins
from dory_core.plugins.registry import Registry

HOOKS = list(specifications())
DOCS = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"


@pytest.mark.parametrize("hook", HOOKS)
def test_example_of_hook_runs(hook: str) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    [test] = finder.find(getattr(hookspecs, hook), hook, module=hookspecs)
    assert test.examples, f"{hook} has no example"
    result = doctest.DocTestRunner().run(test)
    assert result.failed == 0


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_is_typed(hook: str) -> None:
    signature = inspect.signature(getattr(hookspecs, hook))
    assert signature.return_annotation is not signature.empty
    assert all(p.annotation is not p.empty for p in signature.parameters.values())


def section(hook: str) -> str:
    """Return the section of the manual about a hook."""
    text = DOCS.read_text(encoding="utf-8")
    heading = f"### `{hook}({', '.join(specifications()[hook])})`"
    assert heading in text, f"docs/plugins.md has no section {heading}"
    return text.split(heading)[1].split("\n### ")[0]


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_has_a_section_in_the_manual_with_the_tested_example(hook: str) -> None:
    docstring = inspect.getdoc(getattr(hookspecs, hook))
    assert docstring is not None
    example = docstring[docstring.index(">>>") :].strip()
    assert f"```pycon\n{example}\n```" in section(hook)


def test_manual_has_no_section_for_a_hook_that_is_gone() -> None:
    sections = re.findall(r"^#+ `(dory_\w+)\(", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == HOOKS


def test_first_result_wins_where_the_design_says_so() -> None:
    """Such a hook gives one record or None; others give lists, which are joined."""
    first = {
        hook
        for hook in HOOKS
        if inspect.signature(getattr(hookspecs, hook)).return_annotation.endswith(" | None")
    }
    assert first == {"dory_memory_hierarchy", "dory_dma_hal"}


def test_plugins_object_calls_every_hook() -> None:
    source = inspect.getsource(Plugins) + inspect.getsource(Registry)
    used = {*re.findall(r'\.(dory_\w+)\b|"(dory_\w+)"', source)}
    assert {name for names in used for name in names if name} == {*HOOKS}
