"""Properties of a target except its memories: operating points, options, hook context, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from dory_core.errors import PluginError, require
from dory_core.hardware.memories import MemoryHierarchy


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Clock and energy of one operating point.

    Attributes:
        name: Name of the operating point.
        core_hz: Clock of the cores that compute.
        io_hz: Clock that moves data from the outermost level.
        energy_j_per_cycle: Average energy of a cycle of the cores, 0 when it is not known.
        source: Publication or data sheet of the numbers.
        only: An option of the target and the values with which the point exists, None for a point
            that always exists.
        cores: Number of cores that worked when the energy was measured; fewer cores take a
            proportional share. 0 when the number makes no difference.
        engines: Engines whose cycles the energy covers, empty for all.
    """

    name: str
    core_hz: float
    io_hz: float
    energy_j_per_cycle: float
    source: str
    only: tuple[str, tuple[str, ...]] | None = None
    cores: int = 0
    engines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        clocks = self.core_hz > 0 and self.io_hz > 0
        require(clocks, f"operating point {self.name}: a clock does not run")

    def exists(self, options: Mapping[str, Any]) -> bool:
        """Return True when the point exists with these options."""
        return self.only is None or str(options.get(self.only[0])) in self.only[1]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a target, given as ``--set name=value``.

    Attributes:
        name: The key of ``--set``.
        type: Type of the value, ``int``, ``str`` or ``bool`` (on/off, true/false, 1/0).
        default: Value without ``--set``.
        help: One line for the user.
        choices: Allowed values, empty for any.
        clock: ``core`` or ``io`` for an option that sets that clock of the operating point, in MHz;
            0 keeps the clock of the point.
    """

    name: str
    type: type
    default: int | str | bool
    help: str
    choices: tuple[str, ...] = ()
    clock: str = ""

    def __post_init__(self) -> None:
        what = f"option {self.name}"
        require(self.type in (int, str, bool), f"{what}: type is int, str or bool")
        require(
            type(self.default) is self.type,
            f"{what}: the default {self.default!r} is no {self.type.__name__}",
        )
        require(
            not self.choices or str(self.default) in self.choices,
            f"{what}: the default {self.default} is none of {', '.join(self.choices)}",
        )
        require(self.clock in ("", "core", "io"), f"{what}: clock is core or io")


@dataclass(frozen=True, slots=True)
class Target:
    """A chip family that dory can generate applications for.

    Attributes:
        name: The name that ``--target`` takes.
        summary: One line for ``dory targets``.
        options: The options that ``--set`` takes.
        operating_points: Operating points of the chip. The first point that exists with the other
            options is the default.
    """

    name: str
    summary: str
    options: tuple[Option, ...] = ()
    operating_points: tuple[OperatingPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetContext:
    """The target as hooks receive it.

    Attributes:
        name: Name of the target.
        options: Every option of the target with its value.
        hierarchy: The memories; None only in the hook that describes them.
        operating_point: The chosen operating point, None when the target declares none.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    hierarchy: MemoryHierarchy | None = None
    operating_point: OperatingPoint | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    @property
    def memory(self) -> MemoryHierarchy:
        """The hierarchy; raises ValueError in the hook ``dory_memory_hierarchy``."""
        if self.hierarchy is None:
            raise ValueError("dory_memory_hierarchy is called before there is a hierarchy")
        return self.hierarchy

    def with_hierarchy(self, hierarchy: MemoryHierarchy) -> TargetContext:
        """Return the complete context."""
        return replace(self, options=dict(self.options), hierarchy=hierarchy)


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of an application.

    Attributes:
        path: Relative to the directory of the application.
        content: Text, or bytes.

    Raises:
        PluginError: For a path that leaves the directory or is not written in its plain form.
    """

    path: str
    content: str | bytes

    def __post_init__(self) -> None:
        plain = self.path.isprintable() and not self.path.startswith("-") and "\\" not in self.path
        parts = PurePosixPath(self.path).parts
        inside = parts and parts[0] != "/" and ".." not in parts
        if not (plain and inside and str(PurePosixPath(self.path)) == self.path):
            raise PluginError(
                f"an application has no place for a file called {self.path!r}",
                "a plugin names files by plain paths relative to the application, such as src/a.c",
            )
        if not isinstance(self.content, (str, bytes)):
            raise PluginError(
                f"the content of file {self.path!r} is {type(self.content).__name__}",
                "a plugin gives text or bytes",
            )

    @classmethod
    def from_package(cls, source: Path, path: str) -> OutputFile:
        """Read a file that a plugin ships as package data."""
        return cls(path, source.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class DmaHal:
    """The DMA HAL of a chip.

    Attributes:
        files: C sources and headers that implement the HAL of ``dory_hal.h`` on the chip.
        any_core: True when each core may issue its own transfers, False when only core 0 may.
        tickets: Most open tickets of transfers between L2 and L1, over all cores; 0 for any number.
            The host simulation checks it.
    """

    files: tuple[OutputFile, ...] = ()
    any_core: bool = False
    tickets: int = 0
