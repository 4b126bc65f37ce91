"""Passes that change values: goldens confirm the network before them, differences are noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from dory_core.api import hookimpl
from dory_core.driver.application import run_application
from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions, compile_network, with_vectors
from dory_core.driver.pipeline import passes_of
from dory_core.errors import VerificationFailed
from dory_core.golden.approximation import measure
from dory_core.golden.layers import compare, read_golden
from dory_core.hardware.target import TargetContext
from dory_core.ir import Graph, Window, reference, requant
from dory_core.ir.ranges import infer_types
from dory_core.passes import Pass, run_passes
from dory_core.passes.pools import join_pools
from dory_core.plugins.frontend import Frontend
from dory_core.plugins.manager import Plugins
from dory_core.testing.graphs import GraphBuilder
from tests.passes.test_pools import Joint
from tests.toy.chip import ToyChip


def network() -> Graph:
    builder = GraphBuilder((6, 1, 1), values=(0, 100), name="steps")
    builder.linear(4, output=(0, 100))
    builder.linear(3, output=(0, 255))
    return builder.graph()


def one_more(graph: Graph) -> Graph:
    """Add 1 to all outputs of the first layer, within its clip."""
    first = graph.ops[0]
    step = replace(first.requants[0], hi=None, lo=None)
    changed = replace(first, requants=(step, requant(1, 1, 1, 0, 100)))
    inputs = tuple(graph.tensors[name] for name in graph.inputs)
    return infer_types(graph.name, inputs, (changed, *graph.ops[1:]), graph.outputs)


@dataclass(frozen=True)
class Approximating(ToyChip):
    """The toy chip with passes, and a frontend that knows one network."""

    passes: tuple[Pass, ...] = ()

    @hookimpl
    def dory_frontends(self) -> list[Frontend]:
        return [Frontend("steps", "one network", lambda path, options: network())]

    @hookimpl
    def dory_passes(self, ctx: TargetContext) -> list[Pass]:
        return list(self.passes)


def plugins(run: Callable[[Graph], Graph], exact: bool) -> Plugins:
    return Approximating(passes=(Pass("more", "adds one", run, exact),)).plugins()


def options(
    tmp_path: Path, output: Path | None = None, golden: Graph | None = None
) -> CompileOptions:
    file = tmp_path / "net.onnx"
    file.write_bytes(b"")
    goldens: tuple[Path, ...] = ()
    if golden is not None:
        values = reference.run(golden, reference.random_inputs(golden, 7))
        flat = {n: v.transpose(1, 2, 0).reshape(-1) for n, v in values.items()}
        np.savez(tmp_path / "golden.npz", **flat)
        goldens = (tmp_path / "golden.npz",)
    return CompileOptions(file, "toy", "steps", output, golden=goldens)


def test_differences_are_counted_over_all_vectors() -> None:
    exact = network()
    fitted = one_more(exact)
    vectors = [reference.run(exact, reference.random_inputs(exact, seed)) for seed in (0, 1)]
    noted, own = measure(exact, fitted, vectors)
    apart = [np.abs(a["layer_00"] - b["layer_00"]) for a, b in zip(vectors, own, strict=True)]
    count = sum(int((a != 0).sum()) for a in apart)
    assert 0 < count <= 8 and max(int(a.max()) for a in apart) == 1
    assert noted.notes[0] == (
        f"Linear 'Gemm_0' is approximated: {count} of 8 values differ on the test vectors, by 1 at "
        f"most and {count / 8:.3g} on average"
    )
    assert noted.notes[1].startswith("network output layer_01: ")
    assert len(noted.notes) == 2, "the second layer was not changed"


def test_notes_reach_the_plan_and_the_application_computes_what_was_approximated(
    tmp_path: Path,
) -> None:
    known = plugins(one_more, exact=False)
    result = compile_network(options(tmp_path, tmp_path / "app"), known)
    assert any("'Gemm_0' is approximated" in note for note in result.plan.notes)
    assert result.golden_exact is None
    done = run_application(tmp_path / "app", plugins=known)
    assert done.exact


def test_goldens_confirm_the_network_before_it_is_approximated(tmp_path: Path) -> None:
    result = compile_network(options(tmp_path, golden=network()), plugins(one_more, exact=False))
    assert result.golden_exact is True
    assert any("is approximated" in note for note in result.plan.notes)


def test_check_says_what_is_approximated(tmp_path: Path) -> None:
    report = check_network(options(tmp_path), plugins(one_more, exact=False))
    assert any("is approximated" in note for note in report.notes)


def test_a_pass_that_claims_to_be_exact_is_held_to_it(tmp_path: Path) -> None:
    with pytest.raises(VerificationFailed, match="Gemm_0"):
        compile_network(options(tmp_path, golden=network()), plugins(one_more, exact=True))


@pytest.mark.parametrize("wrong", [False, True])
def test_goldens_confirm_layers_that_are_computed_inside_of_others(
    tmp_path: Path, wrong: bool
) -> None:
    """The golden has a convolution that its pool computes; one value of it may be wrong."""
    builder = GraphBuilder((1, 12, 14), name="pooled")
    builder.conv(4, Window(kernel=(5, 5)))
    builder.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    imported = builder.graph()
    asked = options(tmp_path, golden=imported)
    if wrong:
        arrays = dict(np.load(asked.golden[0]))
        arrays["layer_00"][7] ^= 1
        np.savez(asked.golden[0], **arrays)
    join = Pass("join", "joins", lambda graph: join_pools(graph, lambda _: (Joint(),)), joins=True)
    setup = asked.setup(Approximating(passes=(join,)).plugins())
    graph = run_passes(passes_of(setup), imported)
    assert [op.index for op in graph.ops] == [1]
    if wrong:
        with pytest.raises(VerificationFailed, match="layer 0 'Conv_0' differs in 1 values"):
            with_vectors(imported, graph, asked, setup)
        return
    found, [vector], report = with_vectors(imported, graph, asked, setup)
    assert found is graph and report is not None
    assert [layer.index for layer in report.layers] == [0, 1]
    again = compare(graph, read_golden(asked.golden[0]), reference.run(graph, vector))
    assert [(layer.index, layer.exact) for layer in again] == [(1, True)]


def test_nothing_is_noted_without_such_a_pass(tmp_path: Path) -> None:
    result = compile_network(options(tmp_path), plugins(lambda graph: graph, exact=True))
    assert result.plan.notes == ()
