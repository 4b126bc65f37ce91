"""The conformance kit for frontends: networks against a reference, goldens, damaged files.

    class TestMyFormat(FrontendConformance):
        frontend = "myformat"
        networks = (NetworkFile("conv", "net.my", build, reference, operators=("Conv",)),)

The fixture ``plugins`` returns every installed plugin; override it to test another one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from dory_core.driver.compiler import make_vectors
from dory_core.errors import DoryError, NotSupported, ToolMissing, UsageError
from dory_core.ir import Graph
from dory_core.ir.parse import parse_graph
from dory_core.ir.reference import random_inputs, run
from dory_core.ir.text import graph_text
from dory_core.plugins.frontend import Frontend, FrontendOptions, GoldenRequest
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.damage import FOREIGN, damaged
from dory_core.testing.sanitizers import declared_mark

__all__ = ["FrontendConformance", "NetworkFile"]

_DAMAGED = (60, 1500)  # damaged files of each network: of every run, of long sweeps
_MOST_SECONDS = 20  # of the processor, to read a damaged file
_RUNS = 3  # inferences of a golden

Tensors = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class NetworkFile:
    """A file of a format, and what it means.

    Attributes:
        name: Of the network, for the names of tests.
        file: Name of the file.
        build: Function that returns the bytes of the file.
        reference: Function of the network inputs by name, shape (C, H, W), that returns what the
            layers compute: by their names in the file or in the Graph, with elements in the order
            (C, H, W). It is the plugin's own and does not use the frontend. None where the golden
            of the format is enough, as for networks with state.
        operators: Names of the operators in the file, as ``Frontend.operators`` lists them.
        options: What the file does not state.
    """

    name: str
    file: str
    build: Callable[[], bytes]
    reference: Callable[[Tensors], Tensors] | None = None
    operators: tuple[str, ...] = ()
    options: FrontendOptions = field(default_factory=FrontendOptions)

    def __str__(self) -> str:
        return self.name

    def write(self, folder: Path) -> Path:
        """Write the file into a folder and return its path."""
        path = folder / self.file
        path.write_bytes(self.build())
        return path


class FrontendConformance:
    """The tests of a frontend: subclass it and set ``frontend`` and ``networks``.

    Attributes:
        frontend: Name as in ``--frontend``.
        networks: Files of the format, together with every operator of it.
        elsewhere: Operators that are in none of them, because other tests compare them.
    """

    frontend: ClassVar[str]
    networks: ClassVar[tuple[NetworkFile, ...]]
    elsewhere: ClassVar[frozenset[str]] = frozenset()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Spread networks and contents over the tests."""
        if "network" in metafunc.fixturenames:
            metafunc.parametrize("network", self.networks, ids=str)
        if "foreign" in metafunc.fixturenames:
            metafunc.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
        if "count" in metafunc.fixturenames:
            few, many = _DAMAGED
            slow = declared_mark(metafunc.config, "slow")
            metafunc.parametrize("count", [few, pytest.param(many, marks=slow)])

    @pytest.fixture
    def plugins(self) -> Plugins:
        """Every installed plugin."""
        return load_plugins()

    @pytest.fixture
    def reader(self, plugins: Plugins) -> Frontend:
        """The frontend under test."""
        return plugins.frontend(self.frontend)

    # -- networks -----------------------------------------------------------------------------

    def test_every_operator_is_in_a_network(self, reader: Frontend) -> None:
        """What ``dory --list-operators`` shows is compared with the reference."""
        assert reader.summary and "\n" not in reader.summary
        listed = [one.name for one in reader.operators()] if reader.operators else []
        assert len({*listed}) == len(listed), "an operator is listed twice"
        known = {name for network in self.networks for name in network.operators}
        unknown = known.difference(listed) if listed else set()
        assert not unknown, f"no operators of the frontend: {', '.join(sorted(unknown))}"
        missing = {*listed} - known - self.elsewhere
        assert not missing, f"no network has {', '.join(sorted(missing))}"

    def test_a_file_is_only_read(
        self, network: NetworkFile, reader: Frontend, plugins: Plugins, tmp_path: Path
    ) -> None:
        """Reading twice gives equal Graphs, whose text gives them again, and changes no file."""
        path = network.write(tmp_path)
        content = path.read_bytes()
        if reader.recognises is not None:
            assert reader.recognises(path), f"{network}: the frontend does not recognise its file"
        first, second = (reader.parse(path, network.options) for _ in range(2))
        assert first == second
        assert parse_graph(graph_text(first, constants=True), plugins.operators()) == first
        assert path.read_bytes() == content
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]

    def test_a_network_equals_its_reference(
        self, network: NetworkFile, reader: Frontend, tmp_path: Path
    ) -> None:
        """Every element, for random inputs and for those of only least or greatest values."""
        if network.reference is None:
            assert reader.golden is not None, f"{network} has neither a reference nor a golden"
            return
        graph = reader.parse(network.write(tmp_path), network.options)
        for inputs in _inputs(graph):
            _compare(graph, run(graph, inputs), network.reference(inputs))

    def test_a_network_equals_the_golden_of_the_format(
        self, network: NetworkFile, reader: Frontend, tmp_path: Path
    ) -> None:
        """Every layer that ``dory golden`` has, over several inferences."""
        if reader.golden is None:
            pytest.skip("the format has no reference of its own")
        path = network.write(tmp_path)
        try:
            arrays = reader.golden(path, GoldenRequest(runs=_RUNS))
        except ToolMissing as missing:
            pytest.skip(missing.message)
        golden = tmp_path / "golden.npz"
        np.savez(golden, allow_pickle=False, **arrays)
        vectors, _ = make_vectors(reader.parse(path, network.options), [golden])
        assert len(vectors) == _RUNS

    # -- files that are no networks -----------------------------------------------------------

    def test_missing_files_and_folders_are_wrong_usage(
        self, reader: Frontend, tmp_path: Path
    ) -> None:
        """The message names the path."""
        (tmp_path / "folder").mkdir()
        for name in ("none", "folder"):
            with pytest.raises(UsageError) as caught:
                reader.parse(tmp_path / name)
            assert name in caught.value.message, caught.value.message

    def test_foreign_content_is_refused(
        self, foreign: bytes, reader: Frontend, tmp_path: Path
    ) -> None:
        """The message names the file."""
        self._refused(foreign, reader, tmp_path)

    def test_half_a_file_is_refused(
        self, network: NetworkFile, reader: Frontend, tmp_path: Path
    ) -> None:
        """The message names the file."""
        content = network.build()
        self._refused(content[: len(content) // 2], reader, tmp_path)

    def test_damaged_files_are_read_or_refused(
        self, network: NetworkFile, count: int, reader: Frontend, tmp_path: Path
    ) -> None:
        """A message of one line; no other exception, no warning, no file, no endless reading."""
        path, whole = tmp_path / network.file, network.build()
        refused = 0
        for seed in range(count):
            path.write_bytes(damaged(whole, seed))
            start = time.process_time()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)
                    reader.parse(path, network.options)
            except DoryError as error:
                refused += 1
                assert error.exit_code in (2, 3), f"damage {seed}: {error!r}"
                assert error.message and "\n" not in error.message, f"damage {seed}: {error!r}"
            assert time.process_time() - start < _MOST_SECONDS, f"damage {seed}"
        assert refused, f"{network}: {count} damaged files were read as if nothing were wrong"
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]

    def _refused(self, content: bytes, reader: Frontend, folder: Path) -> None:
        path = folder / self.networks[0].file
        path.write_bytes(content)
        with pytest.raises(NotSupported) as caught:
            reader.parse(path)
        assert path.name in caught.value.message, caught.value.message


def _inputs(graph: Graph) -> list[dict[str, npt.NDArray[np.int64]]]:
    """Return random inputs, and those of only the least and only the greatest values."""
    tensors = [graph.tensors[name] for name in graph.inputs]
    ends = ([t.lo for t in tensors], [t.hi for t in tensors])
    whole = [
        {t.name: np.full(t.shape, value, np.int64) for t, value in zip(tensors, end, strict=True)}
        for end in ends
    ]
    return [random_inputs(graph, 0), random_inputs(graph, 1), *whole]


def _compare(graph: Graph, got: Tensors, expected: Tensors) -> None:
    """Compare every layer that the reference has; each network output has to be among them."""
    found = set()
    for op in graph.ops:
        name = next((n for n in (op.tensor, op.output) if n and n in expected), None)
        if name is None:
            continue
        found.add(op.output)
        tensor, values = graph.tensors[op.output], np.asarray(expected[name])
        assert values.size == tensor.elements, f"'{name}' has {values.size} elements"
        np.testing.assert_array_equal(got[op.output], values.reshape(tensor.shape), op.label)
        low, high = values.min(), values.max()
        assert tensor.lo <= low <= high <= tensor.hi, f"{op.label} is not in its range"
    missing = [name for name in graph.outputs if name not in found and name not in graph.inputs]
    assert not missing, f"the reference does not compute {', '.join(missing)}"
