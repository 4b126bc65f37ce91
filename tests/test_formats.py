"""Which frontend a file is for: the one that recognises it, named where another one was chosen."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from dory_core.api import Graph, NotSupported, hookimpl
from dory_core.cli.tables.check import print_check
from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions
from dory_core.driver.pipeline import Source, parse
from dory_core.importing import Frontend, FrontendOptions
from dory_core.plugins.manager import Plugins
from dory_core.testing.graphs import GraphBuilder


def format_of(name: str, graph: Graph | None) -> Any:
    """A plugin whose frontend takes files of its own ending, and refuses without a graph."""

    def read(path: Path, options: FrontendOptions) -> Graph:
        if graph is None or path.suffix != f".{name}":
            raise NotSupported(f"{path.name}: no network of {name}", "export it again")
        return graph

    def recognises(path: Path) -> bool:
        return path.suffix == f".{name}"

    @hookimpl
    def dory_frontends() -> list[Frontend]:
        return [Frontend(name, f"files of {name}", read, recognises)]

    return SimpleNamespace(dory_frontends=dory_frontends)


def network() -> Graph:
    builder = GraphBuilder((4, 1, 1), name="net")
    builder.linear(2)
    return builder.graph()


@pytest.fixture
def plugins() -> Plugins:
    return Plugins.from_objects(one=format_of("one", network()), other=format_of("other", None))


def test_a_refusal_names_the_frontend_that_recognises_the_file(plugins: Plugins) -> None:
    with pytest.raises(NotSupported, match="no network of other") as caught:
        parse(Source(Path("net.one"), "other"), plugins)
    assert caught.value.hint == "it is a file for --frontend one, not for other"


def test_a_refusal_tells_what_the_frontend_that_recognises_the_file_has_against_it() -> None:
    both = Plugins.from_objects(one=format_of("one", None), other=format_of("other", None))
    with pytest.raises(NotSupported, match="no network of other") as caught:
        parse(Source(Path("net.one"), "other"), both)
    assert caught.value.hint == (
        "--frontend one recognises the file and refuses it: net.one: no network of one; "
        "export it again"
    )


def test_a_refusal_of_the_right_frontend_keeps_its_hint(plugins: Plugins) -> None:
    with pytest.raises(NotSupported) as caught:
        parse(Source(Path("net.other"), "other"), plugins)
    assert caught.value.hint == "export it again"
    with pytest.raises(NotSupported) as caught:
        parse(Source(Path("net.unknown"), "other"), plugins)
    assert caught.value.hint == "export it again"


def test_a_file_that_nobody_recognises_needs_a_name(plugins: Plugins) -> None:
    with pytest.raises(NotSupported, match="no frontend recognises this file"):
        plugins.frontend_for(Path("net.unknown"))


@pytest.mark.parametrize("name", ["one", "other"])
def test_check_says_which_format_it_is_and_who_reads_it(name: str, plugins: Plugins) -> None:
    path = Path(f"net.{name}")
    options = CompileOptions(path, "", plugins.frontend_for(path).name)
    document = check_network(options, plugins).to_json()
    assert document["supported"] is (name == "one")
    assert document["format"]["frontend"] == name
    assert document["format"]["summary"] == f"files of {name}"
    out = StringIO()
    print_check(document, Console(file=out, width=200))
    assert f"format: {name} (files of {name}), read by " in out.getvalue()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("kws/net.one", "kws"),
        ("kws/Model.one", "kws"),
        ("kws/ds_cnn.one", "ds_cnn"),
        ("/net.one", "net"),
    ],
)
def test_a_network_is_called_as_its_file_or_its_folder(path: str, name: str) -> None:
    read = replace(network(), name=Path(path).stem)
    assert Frontend("one", "", lambda path, options: read).parse(Path(path)).name == name
    own = Frontend("one", "", lambda path, options: replace(read, name="its own"))
    assert own.parse(Path(path)).name == "its own"
