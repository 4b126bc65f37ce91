"""Damaged files of every format: imported, or refused with a reason; never a traceback."""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx

from dory_core.driver.compiler import CompileOptions
from dory_core.driver.pipeline import IMPORTED, run
from dory_core.errors import DoryError
from tests.fuzz.cases import Case, Verdict, plugins, refusal
from tests.fuzz.networks import Drawn, drawn

_FILES = 40  # whole files of each format that are damaged
_SPECIAL = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f")

Edit = Callable[[bytearray], None]


@lru_cache(maxsize=128)
def _whole(subject: str, seed: int) -> tuple[bytes, Drawn]:
    """Return a whole file and how it is read."""
    with tempfile.TemporaryDirectory(prefix="dory-fuzz-") as name:
        network = drawn(Case("damage", subject, seed, 4), Path(name))
        return network.path.read_bytes(), network


def _edit(draw: random.Random) -> Edit:
    """Return one random damage."""
    where, kind = draw.random(), draw.choice([0, 0, 0, 1, 1, 4, 4, 2, 3, 5, 6])
    length = draw.choice([1, 1, 2, 4, 16, 300])
    bit, content, there = draw.randrange(8), draw.randbytes(length), draw.random()
    special = draw.choice(_SPECIAL)

    def edit(data: bytearray) -> None:
        at = int(where * len(data))
        if kind == 0:
            data[at] ^= 1 << bit
        elif kind == 1:
            data[at : at + len(content)] = content
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = content
        elif kind == 4:
            data[at : at + len(special)] = special
        elif kind == 5:
            start = int(there * len(data))
            data[at:at] = data[start : start + length]
        else:
            del data[max(at, 1) :]

    return edit


def structural(draw: random.Random, model: onnx.ModelProto) -> None:
    """Change one thing of an ONNX file that stays readable."""
    graph = model.graph
    if not graph.node:
        return
    node = draw.choice(graph.node)
    names = [name for other in graph.node for name in (*other.input, *other.output)]
    constant = draw.choice(graph.initializer) if graph.initializer else None
    number = draw.choice([-1, 0, 1, 2, 3, 7, 255, 1 << 15, 1 << 31, 1 << 40, -(1 << 62)])
    kind = draw.randrange(13)
    if kind == 0 and node.input:
        node.input[draw.randrange(len(node.input))] = draw.choice([*names, "", "nothing"])
    elif kind == 1 and node.output:
        node.output[0] = draw.choice([*names, "", "other"])
    elif kind == 2 and constant is not None and constant.dims:
        constant.dims[draw.randrange(len(constant.dims))] = number
    elif kind == 3 and constant is not None:
        constant.data_type = draw.randrange(0, 24)
    elif kind == 4 and node.attribute:
        _other_value(draw.choice(node.attribute), number, draw)
    elif kind == 5:
        node.op_type = draw.choice([other.op_type for other in graph.node])
    elif kind == 6:
        del node.input[-1:]
    elif kind == 7 and node.attribute:
        node.attribute.remove(draw.choice(node.attribute))
    elif kind == 8:
        graph.node.remove(node)
    elif kind == 9:
        graph.node.insert(draw.randrange(len(graph.node) + 1), node)
    elif kind == 10:
        dims = draw.choice([*graph.input, *graph.output]).type.tensor_type.shape.dim
        if dims:
            draw.choice(dims).dim_value = number
    elif kind == 11 and node.output:
        _multiply(graph, node, draw)
    elif constant is not None and constant.raw_data:
        special = draw.choice([np.nan, np.inf, 1e30, 0.5, -1.0, 0.0])
        constant.raw_data = np.float32(special).tobytes() + constant.raw_data[4:]


def _multiply(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    """Put multiplications, or divisions, by a number behind a node: many of a large one."""
    number, op = draw.choice([1 << 20, 1 << 52, 1 << 52]), draw.choice(["Mul", "Mul", "Div"])
    graph.initializer.append(onnx.numpy_helper.from_array(np.float32(number), "large"))
    start, value = list(graph.node).index(node) + 1, node.output[0]
    readers = [(one, n) for one in graph.node for n, name in enumerate(one.input) if name == value]
    count = draw.choice([1, 40, 300])
    for n in range(count):
        made = onnx.helper.make_node(op, [value, "large"], [f"large_{start}_{n}"])
        graph.node.insert(start + n, made)
        value = made.output[0]
    for reader, n in readers:
        reader.input[n] = value


def _other_value(attribute: onnx.AttributeProto, number: int, draw: random.Random) -> None:
    if attribute.ints:
        attribute.ints[draw.randrange(len(attribute.ints))] = number
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = draw.choice([float("nan"), float("inf"), 0.0, -1.0, 0.5])
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = number
    else:
        attribute.type = draw.randrange(1, 12)


def damaged(case: Case) -> tuple[bytes, Drawn]:
    """Return the damaged file of a case. size: how many of its damages are made, 0 for all."""
    whole, network = _whole(case.subject, case.seed % _FILES)
    draw = case.draw
    if network.path.suffix == ".onnx" and draw.random() < 0.5:
        model = onnx.load_from_string(whole)
        for _ in range(min(draw.choice([1, 1, 2, 4]), case.size or 4)):
            structural(draw, model)
        return bytes(model.SerializeToString()), network
    edits = [_edit(draw) for _ in range(draw.choice([1, 1, 2, 3, 8]))]
    data = bytearray(whole)
    for edit in edits[: case.size or None]:
        if data:
            edit(data)
    return bytes(data), network


def check_damage(case: Case, folder: Path) -> Verdict:
    """Import a damaged file."""
    data, network = damaged(case)
    path = folder / network.path.name
    path.write_bytes(data)
    options = CompileOptions(path, "gap8", network.frontend, None, input_signed=network.signed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            run(options.source, options.setup(plugins()), until=IMPORTED)
    except RuntimeWarning as warning:
        return Verdict(case, "warns", f"numpy says: {warning}", bad=True)
    except DoryError as error:
        verdict = refusal(case, error)
        if not error.message or "\n" in error.message.strip():
            return Verdict(case, "unclear", f"message {error.message!r}", bad=True)
        return verdict
    if [entry.name for entry in folder.iterdir()] != [path.name]:
        return Verdict(case, "wrote", "files were written beside the network", bad=True)
    return Verdict(case, "read", "the damage changes nothing that is needed, or values alone")
