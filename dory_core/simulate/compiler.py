"""Finding a host C compiler, and testing that its sanitizers work."""

from __future__ import annotations

import errno
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dory_core.errors import ToolMissing, UsageError

# The wheel's compiler is a clang that by default uses all features of this machine's processor. The
# baseline of the architecture makes objects the same on all machines, and avoids a fault of clang
# 22: its vectoriser of straight-line code miscompiled a convolution of 4-bit weights for AVX-512.
ZIGLANG = (sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline")

_PROBE_TIMEOUT_S = 120
_DISK_FULL = os.strerror(errno.ENOSPC)
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})

_PROBES = {
    "address": """\
#include <stdlib.h>
int main(int argc, char **argv) {
  volatile char *p = malloc(8);
  (void)argv;
  p[7 + argc] = 1;
  return 0;
}
""",
    "undefined": """\
#include <limits.h>
int main(int argc, char **argv) {
  volatile int x = INT_MAX;
  (void)argv;
  x = x + argc;
  return 0;
}
""",
    "thread": """\
#include <pthread.h>
static int shared;
static void *work(void *arg) {
  for (int i = 0; i < 1000; ++i) ++shared;
  return arg;
}
int main(void) {
  pthread_t a, b;
  pthread_create(&a, NULL, work, NULL);
  pthread_create(&b, NULL, work, NULL);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  return 0;
}
""",
}
SANITIZERS = tuple(_PROBES)

_MARKS = {
    "address": "AddressSanitizer",
    "undefined": "runtime error",
    "thread": "ThreadSanitizer: data race",
}

# Message of a sanitizer that cannot allocate its shadow memory.
_NO_SHADOW = (
    "ReserveShadowMemoryRange failed",
    "Shadow memory range interleaves",
    "unexpected memory mapping",
    "Sanitizer failed to allocate",
    "Sanitizer: failed to ",
    "Sanitizer: CHECK failed: sanitizer_allocator",
)


def lacks_shadow(report: str) -> bool:
    """Return True when a program ended because its sanitizer had no memory for itself."""
    return any(mark in report for mark in _NO_SHADOW)


def no_shadow() -> ToolMissing:
    """Return the error of a sanitizer without memory for itself."""
    return ToolMissing(
        "the sanitizer cannot reserve the memory that it needs for itself",
        "raise the limit of address space (ulimit -v unlimited), or run without --sanitize",
    )


@dataclass(frozen=True, slots=True)
class Compiler:
    """A host C compiler.

    Attributes:
        command: Command of the compiler, for example ("gcc",).
        version: Version text of the compiler, for cache keys.
    """

    command: tuple[str, ...]
    version: str

    @property
    def name(self) -> str:
        """The command as in a shell."""
        return shlex.join(self.command)

    @property
    def is_zig(self) -> bool:
        """Whether it is the compiler of Zig, which names targets in its own way."""
        return any("zig" in Path(word).name for word in self.command)

    def accepts(self, flag: str) -> bool:
        """Return True when the compiler knows a flag."""
        return _accepts(self.command, flag)

    @staticmethod
    def identify(*command: str) -> Compiler | None:
        """Return the compiler of a command that runs, otherwise None."""
        return _identify(command)

    @staticmethod
    def named(variable: str, what: str) -> Compiler | None:
        """Return the compiler that an environment variable names, None when it names none.

        Args:
            variable: Name of the environment variable.
            what: What the variable should name, for the hint.

        Raises:
            ToolMissing: When the compiler cannot be run.
        """
        chosen = os.environ.get(variable, "").strip()
        if not chosen:
            return None
        compiler = _identify(tuple(shlex.split(chosen)))
        if compiler is None:
            raise ToolMissing(
                f"the C compiler {chosen!r} named by the environment variable {variable} cannot "
                "be run",
                f"unset {variable} or let it name {what}",
            )
        return compiler


@cache
def _identify(command: tuple[str, ...]) -> Compiler | None:
    result = _run(*command, "--version")
    return Compiler(command, result.stdout.strip()) if result and not result.returncode else None


@cache
def _accepts(command: tuple[str, ...], flag: str) -> bool:
    result = _run(*command, "-Werror", flag, "-E", "-x", "c", os.devnull)
    return result is not None and not result.returncode


def _run(*command: str) -> subprocess.CompletedProcess[str] | None:
    """Return the result of a command, None when it cannot be run or does not end.

    Raises OSError when this process cannot open more files or start more processes.
    """
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        if error.errno in _EXHAUSTED:  # not an error of the compiler
            raise
        return None
    except subprocess.TimeoutExpired:
        return None


def check_space(what: str, output: str) -> None:
    """Raise UsageError when a compiler said that the disk is full. what: what it did."""
    if _DISK_FULL in output:
        raise UsageError(
            f"{what} fails: {_DISK_FULL}",
            "free some space, or let TMPDIR and DORY_CACHE name other directories",
        )


def find_compiler() -> Compiler:
    """Return $CC, cc, gcc or clang, else the compiler of the ``ziglang`` wheel.

    Raises ToolMissing when there is none, or when $CC is set and cannot be run.
    """
    chosen = Compiler.named("CC", "a working compiler")
    if chosen is not None:
        return chosen
    for name in ("cc", "gcc", "clang"):
        compiler = Compiler.identify(name)
        if compiler is not None:
            return compiler
    if importlib.util.find_spec("ziglang") is not None:
        compiler = Compiler.identify(*ZIGLANG)
        if compiler is not None:
            return compiler
    raise ToolMissing(
        "no C compiler found (tried $CC, cc, gcc, clang and the ziglang wheel)",
        "install a compiler, for example with `pip install ziglang`",
    )


def other_compilers() -> tuple[Compiler, ...]:
    """Return gcc, clang and the ``ziglang`` wheel as far as installed, without the default."""
    commands: list[tuple[str, ...]] = [("gcc",), ("clang",)]
    if importlib.util.find_spec("ziglang") is not None:
        commands.append(ZIGLANG)
    known, found = {_release(find_compiler())}, []
    for command in commands:
        compiler = Compiler.identify(*command)
        if compiler is not None and _release(compiler) not in known:
            known.add(_release(compiler))
            found.append(compiler)
    return tuple(found)


def _release(compiler: Compiler) -> str:
    """Return the version without the name by which the compiler was called."""
    return compiler.version.partition(" ")[2]


def sanitizer_names(sanitize: str) -> tuple[str, ...]:
    """Split "address,undefined" into sorted names.

    Raises UsageError for an unknown name or for thread together with address.
    """
    names = tuple(sorted({name.strip() for name in sanitize.split(",")}))
    for name in names:
        if name not in _PROBES:
            raise UsageError(f"unknown sanitizer {name!r}", f"known are {', '.join(SANITIZERS)}")
    if "thread" in names and "address" in names:
        raise UsageError(
            "the thread and address sanitizers exclude each other", "run once with each of them"
        )
    return names


@cache
def _works(compiler: Compiler, name: str) -> bool:
    """Return True when the sanitizer links and finds the fault of its probe.

    Raises ToolMissing when it has no memory for itself.
    """
    with tempfile.TemporaryDirectory(prefix="dory-probe-") as folder:
        source = Path(folder, "probe.c")
        source.write_text(_PROBES[name])
        program = Path(folder, "probe")
        flags = ("-std=c99", "-g", f"-fsanitize={name}")
        compiled = _run(*compiler.command, *flags, str(source), "-o", str(program), "-lpthread")
        if compiled is not None and compiled.returncode:
            check_space(f"compiling the probe of the {name} sanitizer", compiled.stderr)
        ran = _run(str(program)) if compiled and not compiled.returncode else None
        if ran is not None and lacks_shadow(ran.stderr):
            raise no_shadow()
        return ran is not None and _MARKS[name] in ran.stderr


def probe_sanitizer(compiler: Compiler, sanitize: str) -> None:
    """Check that each sanitizer detects a fault.

    Some compilers accept the flag without an effect.

    Args:
        compiler: The compiler.
        sanitize: Sanitizers, for example "address,undefined".

    Raises:
        ToolMissing: For a sanitizer that does not work.
        UsageError: For an unknown name.
    """
    for name in sanitizer_names(sanitize):
        if not _works(compiler, name):
            raise ToolMissing(
                f"the {name} sanitizer of {compiler.name} does not find the fault of its probe",
                "use a gcc or clang that has its sanitizer runtime (CC=gcc), or run without "
                "--sanitize: guard pages and poison work with every compiler",
            )
