"""``dory new frontend``: what it writes reads ONNX with this package, as it is."""

from __future__ import annotations

from pathlib import Path

from tests.cli.new_plugins import install_new, run_tests_of


def test_tests_of_a_new_frontend_pass(tmp_path: Path) -> None:
    outcome = run_tests_of("acme", install_new("frontend", "acme", tmp_path), "test")
    assert outcome.status == 0, outcome.stdout
    assert " passed" in outcome.stdout
