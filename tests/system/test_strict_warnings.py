"""Applications of our targets have nothing to say to a compiler that is asked for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.testing.apps import build_app
from tests.codegen.test_strict_warnings import check, every_kind


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("target", "settings"),
    [
        ("gap8", {}),
        ("gap8", {"kernels": "portable"}),
        ("stm32h7", {}),
        ("stm32h7", {"memory": "dcache"}),
        ("cortex_m55", {}),
    ],
    ids=lambda value: "_".join(value.values()) or "default" if isinstance(value, dict) else value,
)
def test_an_application_is_clean_under_strict_warnings(
    target: str, settings: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip(f"dory_{target}", reason=f"the plugin {target} is not installed")
    app = tmp_path / "app"
    build_app(every_kind().graph(), target, app, settings=settings)
    check(app)
