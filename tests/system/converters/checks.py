"""From the file of a converter to an application that is exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dory_core.tools as dory
from dory_core.errors import DoryError
from dory_core.plugins.frontend import GoldenRequest
from dory_core.plugins.manager import load_plugins


def check_exact(path: Path, target: str, folder: Path, no_reference: bool = False) -> None:
    """Compile, build and run a network, and compare with the reference of its format.

    Args:
        path: The network.
        target: Name of the target.
        folder: A folder for files.
        no_reference: True where the reference does not run the network: then the application is
            compared with the network as it is read.
    """
    app = folder / "app"
    golden = () if no_reference else (folder / "golden.npz",)
    make_golden = load_plugins().frontend_for(path).golden
    assert make_golden is not None
    if no_reference:
        with pytest.raises(DoryError, match="TensorFlow Lite Micro"):
            make_golden(path, GoldenRequest((), 1, 0))
    else:
        np.savez(golden[0], **make_golden(path, GoldenRequest((), 1, 0)))
    dory.compile(path, target, output=app, golden=golden, not_deployable_ok=True)
    assert dory.run(app, runner="host", dma=None).exact
