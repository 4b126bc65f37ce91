"""Inputs that a user gives: files of all kinds, checked against the shape, told in one line."""

from __future__ import annotations

import builtins
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dory_core.errors import ToolMissing, UsageError
from dory_core.golden.inputs import read_inputs
from dory_core.ir import Add, Graph, Tensor, Window
from dory_core.ir.ranges import infer_types
from dory_core.testing.graphs import I8, U8, GraphBuilder

C, H, W = 3, 5, 4
VALUES = np.random.default_rng(0).integers(0, 256, (C, H, W))
HWC = VALUES.transpose(1, 2, 0)


def one_input(values: tuple[int, int] = U8, shape: tuple[int, int, int] = (C, H, W)) -> Graph:
    builder = GraphBuilder(shape, values)
    builder.conv(4, Window(kernel=(1, 1)))
    return builder.graph()


def two_inputs() -> Graph:
    tensors = tuple(Tensor(name, 2, 3, 3, 0, 255, 8, False) for name in ("left", "right"))
    op = Add(index=0, name="sum", inputs=("left", "right"), output="y")
    return infer_types("pair", tensors, (op,), ("y",))


def written(folder: Path, array: npt.NDArray[np.generic]) -> Path:
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


@pytest.mark.parametrize(
    ("array", "layout", "words"),
    [
        (HWC, "", "5 x 4 x 3 int64 as H x W x C"),
        (HWC[None].astype(np.uint8), "", "1 x 5 x 4 x 3 uint8 as H x W x C"),
        (HWC.reshape(-1), "", "60 int64 as H x W x C"),
        (HWC.astype(np.float32), "hwc", "5 x 4 x 3 float32 as H x W x C"),
        (VALUES, "chw", "3 x 5 x 4 int64 as C x H x W, rearranged to H x W x C"),
        (VALUES[None], "chw", "1 x 3 x 5 x 4 int64 as C x H x W, rearranged to H x W x C"),
        (VALUES.reshape(-1), "chw", "60 int64 as C x H x W, rearranged to H x W x C"),
    ],
)
def test_array(tmp_path: Path, array: npt.NDArray[np.generic], layout: str, words: str) -> None:
    path = written(tmp_path, array)
    [found] = read_inputs(path, one_input(), layout)
    assert np.array_equal(found.values["input"], VALUES)
    assert found.done == f"{path}: {words}"


@pytest.mark.parametrize(
    ("shape", "layout", "reason", "way_out"),
    [
        ((3, 5, 4), "", "3 x 5 x 4, which is C x H x W; the network takes 5 x 4 x 3", "layout chw"),
        ((1, 3, 5, 4), "hwc", "which is C x H x W", "--input-layout chw"),
        ((5, 4, 3), "chw", "which is H x W x C", "--input-layout hwc"),
        ((4, 5, 3), "", "shape 4 x 5 x 3; the network takes 5 x 4 x 3 (H x W x C)", "flat"),
        ((4, 3, 5), "chw", "shape 4 x 3 x 5", "flat"),
        ((2, 5, 4), "", "holds 40 values, tensor 'input' of the network has 60", "N x H x W x C"),
    ],
)
def test_shape_that_does_not_fit(
    tmp_path: Path, shape: tuple[int, ...], layout: str, reason: str, way_out: str
) -> None:
    path = written(tmp_path, np.zeros(shape, np.uint8))
    with pytest.raises(UsageError) as refused:
        read_inputs(path, one_input(), layout)
    assert reason in refused.value.message and way_out in refused.value.hint


def test_several_inputs_come_by_name(tmp_path: Path) -> None:
    left, right = np.arange(18).reshape(3, 3, 2), np.arange(18)[::-1]
    path = tmp_path / "two.npz"
    np.savez(path, right=right, in0__left=left)
    [found] = read_inputs(path, two_inputs())
    assert np.array_equal(found.values["left"], left.transpose(2, 0, 1))
    assert np.array_equal(found.values["right"].transpose(1, 2, 0).reshape(-1), right)
    assert "'in0__left' 3 x 3 x 2 int64 as H x W x C; 'right' 18 int64" in found.done
    np.savez(path, left=left, wrong=right)
    with pytest.raises(UsageError, match="no array 'right', it holds left, wrong"):
        read_inputs(path, two_inputs())
    with pytest.raises(UsageError, match="has 2 inputs: left, right"):
        read_inputs(written(tmp_path, left), two_inputs())


@pytest.mark.parametrize("key", ["input", "anything"])
def test_archive_with_one_array_serves_one_input(tmp_path: Path, key: str) -> None:
    np.savez(tmp_path / "one.npz", **{key: HWC})
    [found] = read_inputs(tmp_path / "one.npz", one_input())
    assert np.array_equal(found.values["input"], VALUES)


def test_bytes_are_those_that_the_application_takes(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    data = np.arange(36, dtype=np.uint8)
    path.write_bytes(data.tobytes())
    [found] = read_inputs(path, two_inputs())
    assert np.array_equal(found.values["right"].transpose(1, 2, 0).reshape(-1), data[18:])
    part = "18 bytes as u8, H x W x C"
    assert found.done == f"{path}: {part}; {part}"
    path.write_bytes(data[1:].tobytes())
    with pytest.raises(UsageError, match="35 bytes, the inputs of the network have 36"):
        read_inputs(path, two_inputs())


def test_bytes_have_one_layout(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(36))
    with pytest.raises(UsageError, match=r"--input-layout chw is not for bytes") as caught:
        read_inputs(path, two_inputs(), "chw")
    assert "C x H x W" in caught.value.hint
    [found] = read_inputs(path, two_inputs(), "hwc")
    assert found.done.endswith("18 bytes as u8, H x W x C")


def picture(folder: Path, name: str, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    image = pytest.importorskip("PIL.Image", reason="the extra images is not installed")
    pixels = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    image.fromarray(pixels).save(folder / name)
    return pixels


@pytest.mark.parametrize(("values", "taken"), [(U8, 0), (I8, 128)])
def test_picture_of_the_right_size(tmp_path: Path, values: tuple[int, int], taken: int) -> None:
    pixels = picture(tmp_path, "x.png", (W, H)).astype(np.int64)
    [found] = read_inputs(tmp_path / "x.png", one_input(values))
    assert np.array_equal(found.values["input"].transpose(1, 2, 0), pixels - taken)
    assert found.done.endswith("RGB, 128 taken from each value" if taken else "of 4 x 5, RGB")


def test_picture_is_resized_and_made_grey(tmp_path: Path) -> None:
    picture(tmp_path, "x.JPG", (40, 50))
    [found] = read_inputs(tmp_path / "x.JPG", one_input(shape=(1, H, W)))
    assert found.values["input"].shape == (1, H, W)
    assert "picture of 40 x 50, resized to 4 x 5, grey made of RGB" in found.done


def test_picture_for_a_tensor_that_is_none(tmp_path: Path) -> None:
    picture(tmp_path, "x.png", (W, H))
    for graph in (one_input(shape=(2, H, W)), one_input((0, 127))):
        with pytest.raises(UsageError, match="1, 3 or 4 channels of 0"):
            read_inputs(tmp_path / "x.png", graph)
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    with pytest.raises(UsageError, match="not a readable picture"):
        read_inputs(tmp_path / "bad.png", one_input())


def test_picture_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path, "x.png", (W, H))
    imported = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith("PIL"):
            raise ImportError("No module named 'PIL'")
        return imported(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ToolMissing) as refused:
        read_inputs(tmp_path / "x.png", one_input())
    assert "dory-core[images]" in refused.value.hint
