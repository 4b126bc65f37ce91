"""Damaged files: refused by name, without a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from dory_deeploy.dialect import parse
from dory_deeploy.testing import DeeployBuilder

from dory_core.api import NotSupported
from dory_core.importing import FrontendOptions


def network() -> DeeployBuilder:
    builder = DeeployBuilder((3, 8, 8)).conv(4, 3, pads=1)
    branch = builder.value
    return builder.conv(4, 1, signed=True).add(branch).maxpool(2).linear(3)


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_bytes_changed_removed_added_and_cut(count: int, tmp_path: Path) -> None:
    path = network().save(tmp_path / "net.onnx")
    whole, draw, refused = path.read_bytes(), random.Random(11), 0
    for _ in range(count):
        content = bytearray(whole)
        for _ in range(draw.choice([1, 2, 5])):
            at, kind = draw.randrange(len(content)), draw.randrange(4)
            if kind == 0:
                del content[at : at + draw.randrange(1, 9)]
            elif kind == 1:
                content[at:at] = draw.randbytes(draw.randrange(1, 5))
            else:
                content[at] = draw.randrange(256)
            content = content or bytearray(1)
        path.write_bytes(content)
        try:
            parse(path, FrontendOptions())
        except NotSupported as error:
            assert error.hint
            refused += 1
    assert refused > count / 2
