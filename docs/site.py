"""Build the pages of docs/ as a site, without a warning.

    python docs/site.py [DIRECTORY]    by default build/site

It needs mkdocs-material: the extra ``docs`` of dory-core.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Pages from elsewhere, and what they are called on the site.
_OTHERS = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "frontends/onnx/README.md": "frontend_onnx.md",
}
#: Made of the notebook, which is run for it.
_NOTEBOOK = "notebook.md"
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


def staged(folder: Path) -> None:
    """Write the pages to a folder, with links that hold there."""
    pages = {f"docs/{path.name}": path.name for path in (ROOT / "docs").glob("*.md")} | _OTHERS
    pages["docs/notebook.ipynb"] = _NOTEBOOK
    for source, name in pages.items():
        if name == _NOTEBOOK:
            text = _notebook(folder)
        else:
            text = (ROOT / source).read_text(encoding="utf-8")
        page = ROOT / source

        def link(match: re.Match[str], page: Path = page) -> str:
            words, to, anchor = match.groups()
            target = (page.parent / to).resolve() if to else page
            path = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
            if path in pages:
                return f"[{words}]({pages[path]}{anchor or ''})"
            if path.startswith("docs/") and target.suffix == ".svg":
                return f"[{words}]({target.name})"
            return words  # of the repository, not of the site

        text = _LINK.sub(link, text)
        (folder / name).write_text(text, encoding="utf-8")
    for picture in (ROOT / "docs").glob("*.svg"):
        shutil.copy(picture, folder / picture.name)


def _notebook(folder: Path) -> str:
    """Return the page of the notebook; its pictures are written to the folder."""
    import notebook

    with notebook.beside_the_example():
        return notebook.page(notebook.run({}), folder)


def main(arguments: list[str]) -> int:
    """Build the site."""
    if any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    site = Path(arguments[0] if arguments else ROOT / "build" / "site").resolve()
    folder = site.parent / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    staged(folder)
    settings = site.parent / "mkdocs.yml"
    text = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    settings.write_text(f"docs_dir: {folder}\nsite_dir: {site}\n{text}", encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(settings)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
