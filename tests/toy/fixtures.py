"""Fixtures of tests of the whole pipeline: options, a network, an application."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import dory
from tests.toy.network import write_network


@pytest.fixture(scope="session")
def pipeline() -> tuple[str, ...]:
    """Options that choose the toy chip and the toy frontend."""
    return ("--target", "toy", "--frontend", "plain")


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A network and its golden."""
    return write_network(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="session")
def net(network: tuple[Path, Path]) -> Path:
    """The network."""
    return network[0]


@pytest.fixture(scope="session")
def golden(network: tuple[Path, Path]) -> Path:
    """Its golden."""
    return network[1]


@pytest.fixture(scope="session")
def application(
    pipeline: tuple[str, ...], net: Path, golden: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The network, compiled with its golden."""
    output = tmp_path_factory.mktemp("application") / "app"
    outcome = dory(*pipeline, net, "--golden", golden, "-o", output)
    assert outcome.status == 0, outcome.stderr
    return output
