"""Building an application directory, for the host or a chip, with cached objects."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dory_core.errors import DoryError, UsageError
from dory_core.simulate.cache import CLEAN, ObjectCache, cache_dir, file_digest, synchronise
from dory_core.simulate.compiler import (
    Compiler,
    check_space,
    find_compiler,
    probe_sanitizer,
    sanitizer_names,
)
from dory_core.simulate.process import run_process

#: Sources with marks for the simulation, each in the place of the one in src/ that it includes.
MARKS_FOLDER = "hal/host/marks"
SOURCE_FOLDERS = ("src", "weights", "kernels", "kernels/external", "hal/host", MARKS_FOLDER)
INCLUDE_FOLDERS = (
    *("inc", "src", "hal/include", "hal/host", "kernels"),
    *("kernels/external", "kernels/external/host"),
)
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
#: Flags for sources of other projects, which are compiled unchanged; ``host`` replaces their SDK.
EXTERNAL_FOLDER = "kernels/external/"
EXTERNAL_FLAGS = ("-std=gnu99", "-w", "-fwrapv", "-fno-strict-aliasing", "-flax-vector-conversions")
#: Level of code: most programs run for less time than -O2 would take longer to compile them.
LEVEL = "-O1"
#: Level of sanitized code: at -O1 gcc takes ten times as long for it.
SANITIZED = ("-Og", "-g1")
#: Flags for ThreadSanitizer, which sees calls but not the copies that gcc makes in their place.
SEEN_COPIES = ("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset")

#: Variables that nothing sets hold nonsense, so that a kernel that reads a member of its arguments
#: which the call does not set is found.
UNSET = "-ftrivial-auto-var-init=pattern"

_INCLUDE = re.compile(rb'^[ \t]*(?:#[ \t]*include|\.incbin)[ \t]*"([^"\n]+)"', re.MULTILINE)
_SHOWN_LINES = 20


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a program is built from an application.

    Attributes:
        variant: Folder of the program below ``build/``.
        program: File name of the program.
        folders: Folders of sources.
        includes: Folders of headers.
        flags: Flags of compiler and linker.
        link_flags: Flags of the linker after the objects.
        link_inputs: Files that the program depends on in addition to its objects.
    """

    variant: str
    program: str
    folders: tuple[str, ...]
    includes: tuple[str, ...]
    flags: tuple[str, ...]
    link_flags: tuple[str, ...] = ()
    link_inputs: tuple[str, ...] = ()

    @property
    def all_flags(self) -> tuple[str, ...]:
        """The flags, with ``-I`` for the folders of headers."""
        return (*self.flags, *(f"-I{folder}" for folder in self.includes))


def _host_recipe(sanitizers: tuple[str, ...], compiler: Compiler) -> Recipe:
    flags: tuple[str, ...] = (LEVEL, *FLAGS)
    if sanitizers:
        flags = (
            *SANITIZED,
            *FLAGS,
            f"-fsanitize={','.join(sanitizers)}",
            "-fno-sanitize-recover=all",
            "-fno-omit-frame-pointer",
            *(SEEN_COPIES if "thread" in sanitizers else ()),
        )
    if compiler.accepts(UNSET):
        flags += (UNSET,)
    variant = "-".join(("host", *sanitizers))
    return Recipe(variant, "app", SOURCE_FOLDERS, INCLUDE_FOLDERS, flags, ("-lpthread",))


class _Headers:
    """The headers of one application, read once."""

    def __init__(self, app_dir: Path, folders: Sequence[str]) -> None:
        self._app_dir = app_dir
        self._folders = (*folders, "")  # assembly names included data from the application's folder
        self._content: dict[str, bytes | None] = {}

    def _read(self, path: str) -> bytes | None:
        if path not in self._content:
            file = self._app_dir / path
            self._content[path] = file.read_bytes() if file.is_file() else None
        return self._content[path]

    def reachable(self, source: str, text: bytes) -> list[tuple[str, bytes]]:
        """Return (path, content) of every header of the application that ``source`` can include.

        Conditions are ignored, so the set may be too large but never too small.
        """
        found: dict[str, bytes] = {}
        pending = [(source, text)]
        while pending:
            includer, content = pending.pop()
            own = os.path.dirname(includer)
            for match in _INCLUDE.finditer(content):
                name = match.group(1).decode("utf-8", "replace")
                for folder in (own, *self._folders):
                    path = os.path.normpath(os.path.join(folder, name))
                    header = self._read(path)
                    if header is not None:
                        if path not in found:
                            found[path] = header
                            pending.append((path, header))
                        break
        return sorted(found.items())


def _key(parts: list[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _call(command: list[str], cwd: Path, what: str, also: str = "") -> None:
    """Run a compiler or linker; ``also`` names another possible cause of a failure.

    Raises UsageError, DoryError.
    """
    result = run_process(command, cwd, None, what, {**os.environ, "LC_ALL": "C"})
    if result.returncode != 0:
        lines = (result.stderr or result.stdout).strip().splitlines()[:_SHOWN_LINES]
        check_space(what, "\n".join(lines))
        raise DoryError(
            "\n".join([f"{what} fails", *lines]),
            f"generated C compiles without warnings: unless files were edited by hand{also}, this "
            f"is a bug in dory or in the plugin that supplied the file{_kernels_in(cwd, lines)}",
        )


def _kernels_in(app_dir: Path, lines: Sequence[str]) -> str:
    """Return the kernels that messages of a compiler or linker name, empty when there are none."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        layers = json.loads((app_dir / "plan.json").read_text(encoding="utf-8"))["layers"]
        text = "\n".join(lines)
        names = dict.fromkeys(str(layer["kernel"]) for layer in layers)
        named = [name for name in names if name and name in text]
        if named:
            return f" (here: kernel {', '.join(named)})"
    return ""


def build(app_dir: Path, sanitize: str | None = None, compiler: Compiler | None = None) -> Path:
    """Compile the application in ``app_dir`` for the host and return the program's path.

    The program lies in ``app_dir/build/<variant>/app``, or in the cache when the application is not
    writable. Applications share objects through the cache.

    Args:
        app_dir: Directory of the application.
        sanitize: Sanitizers such as "address,undefined" or "thread", None for none.
        compiler: The compiler; None for :func:`find_compiler`.

    Raises:
        UsageError: When the directory is not an application.
        ToolMissing: When the compiler or a sanitizer is missing.
        DoryError: A bug: the C code does not compile.
    """
    compiler = compiler or find_compiler()
    sanitizers = () if sanitize is None else sanitizer_names(sanitize)
    if sanitizers:
        probe_sanitizer(compiler, ",".join(sanitizers))
    return build_program(app_dir, _host_recipe(sanitizers, compiler), compiler)


def build_program(app_dir: Path, recipe: Recipe, compiler: Compiler) -> Path:
    """Build the program of ``recipe`` and return its path; see :func:`build`.

    Sources are the ``.c`` and ``.S`` files of its folders.

    Args:
        app_dir: Directory of the application.
        recipe: Folders and flags of the program.
        compiler: The compiler.

    Raises:
        UsageError: When the directory is not an application.
        DoryError: A bug: the code does not compile or link.
    """
    app_dir = Path(app_dir)
    sources = sorted(
        path.relative_to(app_dir).as_posix()
        for folder in recipe.folders
        for suffix in ("c", "S")
        for path in (app_dir / folder).glob(f"*.{suffix}")
    )
    if not any(source.startswith("src/") for source in sources):
        raise UsageError(
            f"{app_dir} is no application: it has no src/*.c", "give the directory dory wrote"
        )
    replaced = {f"src/{Path(s).name}" for s in sources if s.startswith(f"{MARKS_FOLDER}/")}
    sources = [source for source in sources if source not in replaced]
    flags = recipe.all_flags
    identity = [compiler.name.encode(), compiler.version.encode(), "\0".join(flags).encode()]
    objects = ObjectCache(cache_dir() / "objects")
    headers = _Headers(app_dir, recipe.includes)

    keys: dict[str, str] = {}
    for source in sources:
        text = (app_dir / source).read_bytes()
        parts = [*identity, source.encode(), text]
        for path, content in headers.reachable(source, text):
            parts += [path.encode(), content]
        keys[source] = _key(parts)

    def compile_one(source: str) -> None:
        scratch = objects.scratch()
        try:
            external = EXTERNAL_FLAGS if source.startswith(EXTERNAL_FOLDER) else ()
            command = [*compiler.command, *flags, *external, "-c", source, "-o", str(scratch)]
            _call(command, app_dir, f"compiling {source} with {compiler.name}")
            objects.store(keys[source], scratch)
        finally:
            scratch.unlink(missing_ok=True)

    missing = [source for source in sources if not objects.has(keys[source])]
    # The largest file first, because it takes longest.
    missing.sort(key=lambda source: -(app_dir / source).stat().st_size)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(compile_one, missing))

    program = _link(app_dir, compiler, recipe, [keys[s] for s in sources], objects)
    if missing:
        objects.prune()
    return program


def _is_current(program: Path, key: str) -> bool:
    """True when ``program`` was linked from the objects that ``key`` stands for, and is whole."""
    try:
        stamp = _stamp(program).read_text(encoding="ascii", errors="replace")
        return stamp == _stamp_text(program, key)
    except OSError:
        return False


def _stamp(program: Path) -> Path:
    return program.with_name(f"{program.name}.key")


def _stamp_text(program: Path, key: str) -> str:
    return f"{key} {file_digest(program)}\n"


def _writable(folder: Path) -> bool:
    """Make ``folder``; return False when it cannot be made or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _link(
    app_dir: Path,
    compiler: Compiler,
    recipe: Recipe,
    keys: Sequence[str],
    objects: ObjectCache,
) -> Path:
    """Link the objects unless the program is already linked from them; return its path."""
    folder = app_dir / "build" / recipe.variant
    parts = [key.encode() for key in (*keys, *recipe.link_flags)]
    key = _key([*parts, *((app_dir / name).read_bytes() for name in recipe.link_inputs)])
    if _is_current(folder / recipe.program, key):
        return (folder / recipe.program).resolve()
    if not _writable(folder):
        place = hashlib.sha256(os.fsencode(app_dir.resolve())).hexdigest()[:16]
        folder = cache_dir() / "programs" / place / recipe.variant
        folder.mkdir(parents=True, exist_ok=True)
        if _is_current(folder / recipe.program, key):
            return (folder / recipe.program).resolve()
    program = folder / recipe.program
    handle, name = tempfile.mkstemp(dir=folder, prefix=f"{program.stem}-", suffix=program.suffix)
    os.close(handle)
    try:
        inputs = [str(objects.path(key).resolve()) for key in keys]
        command = [*compiler.command, *recipe.all_flags, *inputs, "-o", os.path.abspath(name)]
        _call(
            [*command, *recipe.link_flags],
            app_dir,
            f"linking with {compiler.name}",
            also=f" or in the cache {objects.folder} (`{CLEAN}` empties it)",
        )
        synchronise(Path(name))
        _stamp(program).unlink(missing_ok=True)
        Path(name).replace(program)
        _stamp(program).write_text(_stamp_text(program, key), encoding="ascii")
    finally:
        Path(name).unlink(missing_ok=True)
    return program.resolve()
