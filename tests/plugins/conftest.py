"""A site folder with one good target and one good frontend, next to what is really installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.distributions import GOOD_FRONTEND, GOOD_TARGET, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Good plugins ``goodchip`` and ``gooddialect``; tests add broken ones."""
    folder = tmp_path / "site"
    folder.mkdir()
    site = Site(folder)
    site.install("good-target", "goodchip", GOOD_TARGET.format(name="goodchip"))
    site.install("good-frontend", "gooddialect", GOOD_FRONTEND.format(name="gooddialect"))
    return site
