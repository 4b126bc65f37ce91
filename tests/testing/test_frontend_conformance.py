"""The kit for frontends passes a sound frontend, and finds faults of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dory_core.api import Graph, NotSupported, UsageError, hookimpl
from dory_core.importing import Frontend, FrontendOptions, ReadOperator
from dory_core.ir import ops, requant
from dory_core.ir.parse import parse_graph
from dory_core.ir.text import graph_text
from dory_core.testing import FrontendConformance, NetworkFile, Plugins
from dory_core.testing.graphs import GraphBuilder
from tests.toy import frontend as plain

WINDOW = ops.Window(kernel=(2, 2), strides=(2, 2))


def pooled() -> Graph:
    builder = GraphBuilder((3, 8, 8), seed=2, name="pooled")
    builder.layer(ops.MaxPool, builder.last, window=WINDOW)
    return builder.graph((builder.last,))


def content() -> bytes:
    return graph_text(pooled(), constants=True).encode()


def maxima(inputs: Mapping[str, Any]) -> dict[str, Any]:
    [image] = inputs.values()
    return {"layer_00": image.reshape(3, 4, 2, 4, 2).max(axis=(2, 4))}


def checked(path: Path, options: FrontendOptions) -> Graph:
    """Read like the toy frontend, which has no message for a file that is no file."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file", "give a file")
    try:
        [record] = plain.dory_frontends()
        return record.reader(path, options)
    except UnicodeDecodeError as error:
        raise NotSupported(f"{path}: no text ({error})") from error


SOUND = Frontend("toy", "a format of the tests", checked)
FILE = NetworkFile("pooled", "net.txt", content, maxima, ("MaxPool",))


class Kit(FrontendConformance):
    """The tests, to be called by hand."""

    __test__ = False
    frontend = "toy"
    networks = (FILE,)


class TestSound(FrontendConformance):
    """All tests of the kit on a sound frontend."""

    frontend = "toy"
    networks = (FILE,)

    @pytest.fixture
    def plugins(self) -> Plugins:
        class Plugin:
            @hookimpl
            def dory_frontends(self) -> list[Frontend]:
                return [SOUND]

        return Plugins.from_objects(toy=Plugin())


def reading(change: Callable[[Path, FrontendOptions], Graph]) -> Frontend:
    return replace(SOUND, reader=change)


def writes(path: Path, options: FrontendOptions) -> Graph:
    path.with_suffix(".cache").write_text("", encoding="utf-8")
    return checked(path, options)


def reads_anything(path: Path, options: FrontendOptions) -> Graph:
    return pooled()


def crashes(path: Path, options: FrontendOptions) -> Graph:
    return parse_graph(path.read_bytes().decode("latin-1"))


def adds_one(path: Path, options: FrontendOptions) -> Graph:
    text = graph_text(checked(path, options), constants=True)
    graph = parse_graph(text)
    [pool] = graph.ops
    step = requant(1, 1, 1, 0, 255)
    return replace(graph, ops=(replace(pool, requants=(step,)),))


def test_a_wrong_value_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="MaxPool"):
        Kit().test_a_network_equals_its_reference(FILE, reading(adds_one), tmp_path)


def test_a_reference_without_the_output_is_found(tmp_path: Path) -> None:
    silent = replace(FILE, reference=lambda inputs: {"another": np.zeros(1)})
    with pytest.raises(AssertionError, match="does not compute layer_00"):
        Kit().test_a_network_equals_its_reference(silent, SOUND, tmp_path)


def test_a_network_needs_a_reference_or_a_golden(tmp_path: Path) -> None:
    bare = replace(FILE, reference=None)
    with pytest.raises(AssertionError, match="neither a reference nor a golden"):
        Kit().test_a_network_equals_its_reference(bare, SOUND, tmp_path)


def test_a_frontend_that_writes_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Kit().test_a_file_is_only_read(FILE, reading(writes), Plugins.from_objects(), tmp_path)


def test_a_frontend_that_reads_anything_is_found(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        Kit().test_foreign_content_is_refused(b"", reading(reads_anything), tmp_path)
    with pytest.raises(AssertionError, match="as if nothing were wrong"):
        Kit().test_damaged_files_are_read_or_refused(FILE, 5, reading(reads_anything), tmp_path)


def test_another_exception_than_a_refusal_is_found(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line"):
        Kit().test_damaged_files_are_read_or_refused(FILE, 60, reading(crashes), tmp_path)


def test_an_operator_without_a_network_is_found() -> None:
    listed = [ReadOperator("MaxPool", "MaxPool"), ReadOperator("Swish", "Lut")]
    listing = replace(SOUND, operators=lambda: listed)
    with pytest.raises(AssertionError, match="no network has Swish"):
        Kit().test_every_operator_is_in_a_network(listing)

    class Elsewhere(Kit):
        elsewhere = frozenset({"Swish"})

    Elsewhere().test_every_operator_is_in_a_network(listing)
