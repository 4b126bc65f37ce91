"""New plugins: a complete small package that works, to start from."""

from __future__ import annotations

import keyword
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dory_core import __version__
from dory_core.errors import UsageError
from dory_core.hardware.target import OutputFile

TEMPLATES = Path(__file__).parent / "templates"
_SUFFIX = ".mako"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a new plugin, derived from ``name``."""

    name: str

    @property
    def distribution(self) -> str:
        """Name of the Python distribution and of the folder."""
        return f"dory-{self.name}"

    @property
    def package(self) -> str:
        """Name of the Python package."""
        return f"dory_{self.name.replace('-', '_')}"

    @property
    def title(self) -> str:
        """Prefix of class names: ``MyChip`` for ``my-chip``."""
        return "".join(word.capitalize() for word in self.name.split("-"))

    @staticmethod
    def requirement(distribution: str) -> str:
        """Return the requirement on a distribution of this repository, for the plugin."""
        major, minor = __version__.split(".")[:2]
        return f"{distribution}>={major}.{minor},<{major}.{int(minor) + 1}"


def names(text: str) -> Names:
    """Return the names of a plugin.

    Raises UsageError for an invalid name, or when its distribution is installed, which pip would
    replace.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", text) or keyword.iskeyword(text):
        raise UsageError(
            f"{text!r} cannot be the name of a plugin",
            "use lower-case letters, digits and single hyphens, starting with a letter: my-chip",
        )
    plugin = Names(text)
    with suppress(PackageNotFoundError):
        installed = version(plugin.distribution)
        raise UsageError(
            f"{plugin.distribution} {installed} is installed, a new one would replace it",
            "choose another NAME",
        )
    return plugin


def plugin_files(kind: str, plugin: Names) -> tuple[OutputFile, ...]:
    """Return the files of a new plugin of a kind, ``target`` or ``frontend``."""
    from mako.template import Template

    folder = TEMPLATES / kind
    files = []
    for source in sorted(folder.rglob(f"*{_SUFFIX}")):
        path = source.relative_to(folder).as_posix().removesuffix(_SUFFIX)
        template: Any = Template(
            filename=str(source), strict_undefined=True, input_encoding="utf-8"
        )
        text = str(template.render(n=plugin))
        files.append(OutputFile(path.replace("PACKAGE", plugin.package), text))
    return tuple(files)


def write_plugin(kind: str, plugin: Names, directory: Path) -> None:
    """Write all files of a new plugin, or none.

    Args:
        kind: ``target`` or ``frontend``.
        plugin: Names of the plugin.
        directory: The folder to write.

    Raises:
        UsageError: When the directory exists and is not empty, or cannot be written.
    """
    hint = "choose another -o DIR"
    target = directory.resolve()
    temporary: Path | None = None
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{directory} exists; nothing was changed", hint)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".dory-new-", dir=target.parent))
        root = temporary / "plugin"
        for file in plugin_files(kind, plugin):
            path = root / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(file.content), encoding="utf-8")
        if target.exists():
            target.rmdir()
        root.rename(target)
    except OSError as error:
        raise UsageError(f"cannot write {directory}: {error.strerror or error}", hint) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
