"""Damaged files: bytes, offsets, sizes, enumerations. Each one is read, or refused in one line."""

import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import lstm_network, random_network

from dory_core.api import DoryError

PATH = Path("net.tflite")
MOST_SECONDS = 20
MOST_BYTES = 1 << 30
_WORDS = (0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x10000, 0xFFFFFFF0)


def mutations(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Yield damaged copies: wrong bytes, wrong words, parts that are missing or stand twice."""
    random = np.random.default_rng(seed)
    for number in range(count):
        copy = bytearray(data)
        for _ in range(1 + number % 3):
            at = 8 + int(random.integers(0, len(copy) - 12))
            kind = int(random.integers(0, 6))
            if kind == 0:
                copy[at] = int(random.integers(0, 256))
            elif kind == 1:
                copy[at] ^= 1 << int(random.integers(0, 8))
            elif kind == 2:
                word = int(random.choice(_WORDS))
                at -= at % 4
                copy[at : at + 4] = word.to_bytes(4, "little")
            elif kind == 3:
                other = 8 + int(random.integers(0, len(copy) - 12))
                copy[at - at % 4 : at - at % 4 + 4] = copy[
                    other - other % 4 : other - other % 4 + 4
                ]
            elif kind == 4:
                at -= at % 4
                word = int.from_bytes(copy[at : at + 4], "little")
                word = (word + int(random.integers(-8, 9))) % 2**32
                copy[at : at + 4] = word.to_bytes(4, "little")
            elif len(copy) > 64 and number % 5 == 0:
                del copy[at:]
                copy += bytes(12)
        yield bytes(copy)


def read(data: bytes) -> str:
    """Return what became of a file: ``read``, or ``refused``."""
    try:
        import_model(model_of(data, PATH))
    except DoryError as error:
        assert error.exit_code in (2, 3)
        assert error.message and "\n" not in error.message
        return "refused"
    return "read"


def check(files: Iterable[bytes], each: int) -> None:
    outcomes = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed, data in enumerate(files):
        assert read(data) == "read"
        for damaged in mutations(data, seed, each):
            start = time.process_time()
            outcomes.append(read(damaged))
            assert time.process_time() - start < MOST_SECONDS
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < MOST_BYTES
    assert {"read", "refused"} == set(outcomes)


def test_some_damaged_files() -> None:
    check((random_network(seed, operations=5) for seed in range(4)), each=50)


@pytest.mark.slow
def test_many_damaged_files() -> None:
    check((random_network(seed, operations=5) for seed in range(20)), each=100)


def test_damaged_files_with_state() -> None:
    check([lstm_network(layers=2)], each=100)


@pytest.mark.slow
def test_many_damaged_files_with_state() -> None:
    check((lstm_network(seed=seed) for seed in range(20)), each=100)
