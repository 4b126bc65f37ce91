"""What torch exports and `dory quantize` quantises is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="`make test-converters` installs what is missing")

from tests.system.converters.checks import check_exact
from tests.system.converters.conversion import write_qdq
from tests.system.converters.torch_networks import NETWORKS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
@pytest.mark.parametrize("name", NETWORKS)
def test_exported_network_is_exact(name: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    write_qdq(*NETWORKS[name](), path)
    check_exact(path, target, tmp_path)
