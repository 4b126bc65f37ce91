"""The plugin module of the toy frontend: the plain reading of integer ONNX."""

from __future__ import annotations

from pathlib import Path

from dory_core.api import Frontend, FrontendOptions, Graph, hookimpl

NAME = "plain"


def _read(path: Path, options: FrontendOptions) -> Graph:
    from dory_core.api import Dialect, import_onnx

    return import_onnx(path, options, Dialect())


@hookimpl
def dory_frontends() -> list[Frontend]:
    return [Frontend(NAME, "integer ONNX, read as it stands", _read)]
