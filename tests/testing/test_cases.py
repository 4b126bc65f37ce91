"""The cases of the conformance matrix show what they are for."""

from __future__ import annotations

import numpy as np
import pytest

from dory_core import ir
from dory_core.ir import Op
from dory_core.ir.reference import random_inputs, run
from dory_core.testing.cases import Case, layer_cases, network_cases

CASES = (*layer_cases(), *network_cases())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_spread_over_their_range(case: Case) -> None:
    """A constant or saturated output would hide what a kernel does wrong."""
    graph = case.build()
    values = run(graph, random_inputs(graph, 0))
    for layer in graph.ops:
        made, tensor = values[layer.output], graph.tensors[layer.output]
        assert len(np.unique(made)) >= min(5, made.size)
        at_an_end = np.count_nonzero((made == tensor.lo) | (made == tensor.hi)) / made.size
        assert at_an_end < 0.5, f"{layer.name}: {at_an_end:.0%} of the outputs are clipped"
        if case.tags & {"signed"} and tensor.lo < 0:
            assert made.min() < 0 < made.max()


def test_names_are_unique_and_networks_are_the_same_every_time() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert [case.build() for case in CASES] == [case.build() for case in CASES]


def kinds() -> set[str]:
    """Return the names of all kinds of layers: public operators that no other one refines."""
    public = [kind for kind in vars(ir).values() if isinstance(kind, type) and issubclass(kind, Op)]
    return {kind.__name__ for kind in public if not kind.__subclasses__()}


def test_every_layer_kind_and_precision_occurs() -> None:
    layers = [layer for case in CASES for layer in case.build().layers]
    joined = {"PooledConv"}  # the pass ``pools`` makes it of two layers of the case ``pooled``
    assert {t.op.kind for t in layers} == kinds() - joined
    types = {t.type_name for layer in layers for t in (*layer.inputs, layer.output)}
    assert types >= {"u8", "i8", "u16", "i32"}
