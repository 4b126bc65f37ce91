"""Golden files that claim what they do not hold, and what they hold beside a golden."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from dory_core.errors import UsageError
from dory_core.golden.layers import read_golden, read_goldens
from dory_core.golden.tensors import tensor_goldens

HUGE = b"\x93NUMPY\x01\x00\x76\x00" + (
    b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
)


def golden(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **{"input": np.arange(4), "layer_00": np.arange(4), **arrays})
    return path


def test_an_array_that_claims_terabytes_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(HUGE + bytes(64))
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("input.npy", HUGE + bytes(64))
    for name in ("a.npy", "b.npz"):
        with pytest.raises(UsageError, match="claims 8000000000000 bytes of values and has 64"):
            read_goldens(tmp_path / name)


def test_other_members_of_an_archive_are_not_read(tmp_path: Path) -> None:
    path = golden(tmp_path / "golden.npz")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.npy", HUGE)
        archive.writestr("README.txt", "text")
    assert len(read_golden(path).layers) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"}", b" "), (b"'descr'", b"'descr("), (b"(4,)", b"(04)"), (b"'<i8'", b"'<i8\\")],
    ids=["no end", "a bracket", "an octal", "no quote"],
)
def test_a_damaged_head_of_an_array_is_damage(old: bytes, new: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(4))
    head, data = path.read_bytes()[:128], path.read_bytes()[128:]
    path.write_bytes(head.replace(old, new).ljust(128)[:128] + data)
    with pytest.raises(UsageError, match="not a readable array file, or damaged"):
        read_goldens(path)


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2, 3, 1 << 63], dtype=np.uint64),
        np.array([0, 0, 0, -(1 << 40)]),
        np.array([True, False, True, True]),
    ],
    ids=["uint64", "int64", "bool"],
)
def test_values_are_integers_of_32_bits(values: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="integer"):
        read_golden(golden(tmp_path / "golden.npz", layer_00=values))


def test_two_files_of_one_layer_are_named(tmp_path: Path) -> None:
    for name in ("input", "out_layer0", "out_layer1", "out_layer01"):
        (tmp_path / f"{name}.txt").write_text("1\n2\n")
    with pytest.raises(UsageError, match=r"'out_layer1.txt' and 'out_layer01.txt' are the same"):
        read_golden(tmp_path)


@pytest.mark.parametrize("stem", ["layer_{}", "in{}__image", "run{}__t5"])
def test_numbers_of_thousands_of_digits_are_no_layers(stem: str, tmp_path: Path) -> None:
    name = stem.format("9" * 5000)
    path = golden(tmp_path / "golden.npz", **{name: np.arange(4)})
    assert len(read_golden(path).layers) == 1
    assert tensor_goldens(path, {name: np.arange(4)}) == ()
