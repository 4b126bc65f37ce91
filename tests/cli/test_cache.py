"""``dory cache`` shows and empties what dory keeps."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command_line import dory


def test_the_cache_has_a_size_and_is_cleaned(tmp_path: Path) -> None:
    objects = tmp_path / "objects"
    objects.mkdir()
    (objects / "a.o").write_bytes(bytes(3000))
    (tmp_path / "mine.txt").write_text("x")
    extra = {"DORY_CACHE": str(tmp_path)}
    shown = dory("cache", **extra)
    assert shown.status == 0
    assert f"cache: {tmp_path}" in shown.stdout and "2.93 kB" in shown.stdout
    document = dory("cache", "clean", "--json", **extra).json
    assert {folder["bytes"] for folder in document["folders"]} == {0}
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
