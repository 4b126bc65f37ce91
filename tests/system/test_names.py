"""Names of networks, layers and tensors reach every text of an application as plain text."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.driver.application import run_application
from dory_core.ir import Graph, Window
from dory_core.plugins.manager import load_plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.evil_names import EVIL_NAMES

FORMS = ("gap8", "stm32h7", "stm32h7 library", "cortex_m55", "diana", "diana library")
_COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.S)
_TEXTS = frozenset({".c", ".h", ".S", ".mk", ".md", ".html", ".json", ".txt", ".ld", ""})


def evil_graph(name: str) -> Graph:
    """Return a network whose layers and tensors have all the names; name: its own."""
    builder = GraphBuilder((8, 6, 6), name=name)
    for _ in EVIL_NAMES:
        builder.conv(8, Window(kernel=(1, 1)))
    graph = replace(builder.graph(), notes=EVIL_NAMES)
    new = {op.output: evil for op, evil in zip(graph.ops, EVIL_NAMES, strict=True)}
    tensors = {
        new.get(key, key): replace(t, name=new.get(key, key)) for key, t in graph.tensors.items()
    }
    ops = tuple(
        replace(
            op,
            name=evil,
            tensor=evil,
            inputs=tuple(new.get(key, key) for key in op.inputs),
            output=new[op.output],
        )
        for op, evil in zip(graph.ops, EVIL_NAMES, strict=True)
    )
    outputs = tuple(new[key] for key in graph.outputs)
    return replace(graph, ops=ops, tensors=tensors, outputs=outputs)


def assert_visible(application: Path) -> None:
    """Assert that no text has a character without a shape, line ends and tabs apart."""
    for file in sorted(application.rglob("*")):
        if file.is_file() and file.suffix in _TEXTS:
            text = file.read_bytes().decode("utf-8")
            for line in text.split("\n"):
                assert line.replace("\t", "").isprintable(), f"{file}: {line[:200]!r}"
            if file.suffix in {".c", ".h"}:
                assert "hacked" not in _COMMENT_OR_STRING.sub("", text), file


@pytest.mark.sample(4)
@pytest.mark.parametrize("form", FORMS)
def test_every_name_is_exact_and_does_nothing(form: str, tmp_path: Path) -> None:
    target, _, option = form.partition(" ")
    pytest.importorskip(f"dory_{target}", reason=f"the plugin {target} is not installed")
    app = tmp_path / "app"
    settings = {"form": option} if option else {}
    build_app(evil_graph(EVIL_NAMES[0]), target, app, settings=settings)
    assert_visible(app)
    assert run_application(app, plugins=load_plugins(), runner="host").exact
    for file in ("Makefile", "README.md"):
        assert "\n$(shell" not in (app / file).read_text()
    if shutil.which("make") is not None:
        subprocess.run(["make", "-n"], cwd=app, check=True, capture_output=True)
    assert not list(tmp_path.rglob("hacked"))
