"""Layouts as data: where elements lie, what padding holds, and which of them serves another."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dory_core.ir import Tensor
from dory_core.ir.layout import HWC, Layout
from dory_core.kernels.convert import conversion_files
from dory_core.simulate.compiler import find_compiler
from dory_core.simulate.runtime import runtime_files
from tests.toy.array import BLOCKS, PADDED, PLANES, VECTOR

LAYOUTS = (HWC, PLANES, BLOCKS, PADDED, VECTOR)
SHAPES = ((1, 1, 1), (3, 5, 7), (16, 2, 16), (17, 3, 33), (20, 1, 5))


def tensor(shape: tuple[int, int, int], bits: int = 8, signed: bool = True) -> Tensor:
    lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return Tensor("x", *shape, lo, hi, bits, signed)


def values(x: Tensor) -> np.ndarray:
    return np.random.default_rng(x.elements).integers(x.lo, x.hi + 1, x.shape)


def naive(layout: Layout, x: Tensor, c: int, h: int, w: int) -> int:
    """The byte of an element, step by step as the definition says it."""
    channels = -(-x.channels // layout.channel_multiple) * layout.channel_multiple
    columns = -(-x.width // layout.width_multiple) * layout.width_multiple
    block = layout.channel_block or channels
    at = 0
    at += c // block * (x.height * columns * block)
    at += h * columns * block
    at += w * block
    at += c % block
    group, inside = divmod(at, layout.reversed_bytes)
    return group * layout.reversed_bytes + layout.reversed_bytes - 1 - inside


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_lies_where_the_definition_says(
    layout: Layout, shape: tuple[int, int, int]
) -> None:
    x = tensor(shape)
    offsets = layout.offsets(x)
    assert offsets.shape == shape
    for c, h, w in product(*(range(n) for n in shape)):
        assert offsets[c, h, w] == naive(layout, x, c, h, w)
    assert len(np.unique(offsets)) == x.elements
    assert offsets.max() < layout.size_bytes(x)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_packing_and_unpacking_are_inverse_and_padding_is_zero(
    layout: Layout, shape: tuple[int, int, int]
) -> None:
    x = tensor(shape)
    wanted = values(x)
    data = layout.pack(wanted, x)
    assert len(data) == layout.size_bytes(x)
    assert (layout.unpack(data, x) == wanted).all()
    rest = np.delete(np.frombuffer(data, np.uint8), layout.offsets(x).ravel())
    assert len(rest) == layout.padding_bytes(x)
    assert not rest.any()


def test_only_hwc_takes_other_bits_than_eight() -> None:
    narrow = tensor((5, 2, 3), bits=4)
    assert HWC.unpack(HWC.pack(values(narrow), narrow), narrow).shape == (5, 2, 3)
    assert HWC.size_bytes(narrow) == narrow.size_bytes == 18
    with pytest.raises(ValueError, match="takes elements of 8 bits, x has 16"):
        PLANES.pack(values(tensor((1, 1, 1), bits=16)), tensor((1, 1, 1), bits=16))
    with pytest.raises(ValueError, match="takes 768 bytes in layout planes, not 3"):
        PLANES.unpack(b"abc", tensor((3, 3, 3)))


def test_dirty_padding_serves_only_who_does_not_read_it() -> None:
    clean, dirty = PLANES, replace(PLANES, clean=False)
    assert clean.serves(dirty)
    assert clean.serves(replace(clean, name="another name"))
    assert not dirty.serves(clean)
    assert dirty.serves(dirty)
    assert dirty.serves(clean, tensor((16, 3, 32)))  # it has no padding
    assert not dirty.serves(clean, tensor((16, 3, 31)))
    assert not PLANES.serves(BLOCKS)
    assert not HWC.serves(PADDED)


def test_layouts_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="no multiple of its blocks"):
        Layout("odd", channel_block=8, channel_multiple=12)
    with pytest.raises(ValueError, match="rows end inside a group"):
        Layout("odd", channel_block=1, reversed_bytes=4)
    with pytest.raises(ValueError, match="no power of two"):
        Layout("odd", width_multiple=3, reversed_bytes=3)
    with pytest.raises(ValueError, match="sizes are positive"):
        Layout("odd", width_multiple=0)


def test_a_layout_survives_json() -> None:
    for layout in (*LAYOUTS, replace(PLANES, clean=False)):
        assert Layout.from_json(layout.to_json()) == layout


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """dory_convert_layout for two cores, one after the other."""
    folder = tmp_path_factory.mktemp("convert")
    for path, content in runtime_files():
        if path.startswith("hal/include/"):
            (folder / Path(path).name).write_bytes(content)
    for file in conversion_files():
        (folder / Path(file.path).name).write_text(str(file.content))
    (folder / "dory_hal_impl.h").write_text(
        "#include <stdint.h>\n"
        "extern uint32_t this_core;\n"
        "static inline uint32_t dory_core_id(void) { return this_core; }\n"
        "static inline uint32_t dory_core_count(void) { return 2; }\n"
    )
    (folder / "core.c").write_text('#include "dory_hal.h"\nuint32_t this_core;\n')
    program = folder / "convert.so"
    command = [*find_compiler().command, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command += ["-shared", "-fPIC", f"-I{folder}", "core.c", "dory_layout.c", "-o", str(program)]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(program))


class _Layout(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in ("channel_block", "channel_multiple", "width_multiple", "reversed_bytes")
    )

    @classmethod
    def of(cls, layout: Layout) -> _Layout:
        return cls(*(getattr(layout, name) for name, _ in cls._fields_))


@pytest.mark.parametrize(("source", "target"), list(product(LAYOUTS, repeat=2)), ids=str)
def test_the_c_function_converts_every_layout_to_every_other(
    library: ctypes.CDLL, source: Layout, target: Layout
) -> None:
    for shape in SHAPES:
        x = tensor(shape)
        data = bytearray(source.pack(values(x), x))
        junk = np.frombuffer(data, np.uint8)
        padding = np.setdiff1d(np.arange(len(data)), source.offsets(x))
        junk[padding] = 0xEE  # nothing of it arrives
        size = target.size_bytes(x)
        made = (ctypes.c_uint8 * (size + 8))(*([0xA5] * (size + 8)))
        layouts = (_Layout.of(target), _Layout.of(source))
        assert library.dory_layout_bytes(ctypes.byref(layouts[0]), *shape) == size
        for core in range(2):
            ctypes.c_uint32.in_dll(library, "this_core").value = core
            library.dory_convert_layout(
                made,
                ctypes.byref(layouts[0]),
                (ctypes.c_uint8 * len(data))(*data),
                ctypes.byref(layouts[1]),
                *shape,
            )
        assert bytes(made)[:size] == target.pack(values(x), x)
        assert bytes(made)[size:] == b"\xa5" * 8
