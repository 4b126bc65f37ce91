"""Files that are no .tflite files, or damaged: one line, exit status 3, no traceback."""

from dataclasses import replace
from pathlib import Path

import pytest
from dory_tflite.importer import import_model, parse
from dory_tflite.model import FileTensor
from dory_tflite.reader import model_of, read_model
from dory_tflite.testing import random_network

from dory_core.api import NotSupported, UsageError
from dory_core.importing import FrontendOptions
from dory_core.tools import load_plugins


def test_missing_file_and_directory_are_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_model(tmp_path / "none.tflite")
    with pytest.raises(UsageError, match="is a directory"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"", b"hello, this is no network\n", b"\x00" * 100, b"\x1c\0\0\0TFL2" + b"\0" * 40],
    ids=["empty", "text", "zeros", "older"],
)
def test_file_without_the_identifier(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(data)
    with pytest.raises(NotSupported, match=r"net\.tflite: is no \.tflite file") as caught:
        parse(path, FrontendOptions())
    assert caught.value.exit_code == 3
    with pytest.raises(NotSupported, match="no frontend recognises"):
        load_plugins().frontend_for(path)


@pytest.mark.parametrize("data", [b"\x1c\0\0\0TFL3", b"\xff\xff\xff\x7fTFL3" + b"\x07" * 90])
def test_identifier_with_nothing_behind_it(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="damaged") as caught:
        model_of(data, tmp_path / "net.tflite")
    assert "\n" not in caught.value.message
    (tmp_path / "net.tflite").write_bytes(data)
    assert load_plugins().frontend_for(tmp_path / "net.tflite").name == "tflite"


def test_names_of_tensors_stay_in_one_line() -> None:
    name = FileTensor(3, "a\nb\x1b" + "c" * 300, (1,), "INT8", None).label
    assert name.startswith("tensor 3 'a<U+000A>b<U+001B>ccc") and len(name) < 250


@pytest.mark.parametrize("operation", ["CONV_2D", "FULLY_CONNECTED", "ADD", "SOFTMAX"])
def test_activations_of_32_bits_are_refused_with_the_way_out(operation: str) -> None:
    model = model_of(random_network(3, only=operation), Path("net.tflite"))
    (subgraph,) = model.subgraphs
    tensors = tuple(
        tensor if tensor.data is not None else replace(tensor, type="INT32")
        for tensor in subgraph.tensors
    )
    with pytest.raises(NotSupported, match="INT32") as caught:
        import_model(replace(model, subgraphs=(replace(subgraph, tensors=tensors),)))
    assert "full integer quantisation" in caught.value.hint
