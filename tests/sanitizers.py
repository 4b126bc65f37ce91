"""Skipping tests whose sanitizer this machine's compiler lacks."""

from __future__ import annotations

import pytest

from dory_core.errors import ToolMissing
from dory_core.simulate.compiler import find_compiler, probe_sanitizer


def require_sanitizer(name: str) -> None:
    """Skip the test, with the reason, unless the compiler's sanitizer works."""
    try:
        probe_sanitizer(find_compiler(), name)
    except ToolMissing as missing:
        pytest.skip(f"sanitizer missing: {missing.message}")
