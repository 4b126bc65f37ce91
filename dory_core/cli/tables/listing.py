"""The text forms of ``dory targets``, ``dory frontends`` and ``dory plugins``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from dory_core.cli.tables.plan import new_table
from dory_core.cli.tables.units import bytes_text
from dory_core.quoting import visible

if TYPE_CHECKING:
    from dory_core.plugins.discovery import PluginState
    from dory_core.simulate.cache import CacheUse

_TAKEN = "what it must be like"
_NOTHING = "none: each one comes with a Python package of its own; see also `dory plugins`"


def print_frontends(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Print one line per frontend."""
    if not rows:
        out.print(Text(_NOTHING))
        return
    table = new_table("frontend", "reads", "from", wrap="reads")
    for row in rows:
        table.add_row(Text(row["name"]), Text(row["summary"]), Text(_origin(row)))
    out.print(table)


def print_operators(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Print one line per operator of a frontend."""
    if not rows:
        out.print(Text("no frontend that is installed lists its operators"))
        return
    table = new_table("frontend", "operator", "becomes", _TAKEN, wrap=_TAKEN)
    for row in rows:
        taken = "; ".join(row["constraints"])
        cells = (row["frontend"], row["operator"], row["becomes"], taken)
        table.add_row(*map(Text, cells))
    out.print(table)


def print_targets(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Print each target with its memories, operating points and options."""
    if not rows:
        out.print(Text(_NOTHING))
    for row in rows:
        out.print(Text(f"{row['name']}: {row['summary']} [{_origin(row)}]"), style="bold")
        if row["problem"]:
            out.print(Text(f"  cannot be used: {visible(row['problem'])}"), style="red")
        for level in row["levels"]:
            memories = ", ".join(level["memories"])
            usable, size = bytes_text(level["usable_bytes"]), bytes_text(level["size_bytes"])
            out.print(Text(f"  {level['name']}  {memories}: {usable} of {size} for the network"))
        for point in row["operating_points"]:
            clock = f"{point['core_hz'] / 1e6:g} MHz"
            only = f" with {point['only'][0]}={'|'.join(point['only'][1])}" if point["only"] else ""
            out.print(Text(f"  operating point {point['name']}{only}: {clock} ({point['source']})"))
        if row["options"]:
            table = new_table("  --set", "default", "meaning", wrap="meaning")
            for option in row["options"]:
                choices = f" ({', '.join(option['choices'])})" if option["choices"] else ""
                table.add_row(
                    Text(f"  {option['name']}={option['type']}"),
                    Text(_value(option["default"])),
                    Text(option["help"] + choices),
                )
            out.print(table)


def print_plugins(states: Iterable[PluginState], out: Console) -> None:
    """Print each plugin with its state and reason."""
    states = tuple(states)
    if not states:
        out.print(Text("no plugin is installed (or DORY_PLUGINS is empty)"))
        return
    table = new_table("plugin", "distribution", "state", "hooks or reason", wrap="hooks or reason")
    for state in states:
        hooks = ", ".join(name.removeprefix("dory_") for name in state.hooks)
        table.add_row(
            Text(state.entry),
            Text(f"{state.dist} {state.version}".strip() or "-"),
            Text(state.state, style="" if state.state == "loaded" else "yellow"),
            Text("; ".join(part for part in (state.reason, hooks) if part)),
        )
    out.print(table)


def _origin(row: Mapping[str, Any]) -> str:
    return f"{row['dist']} {row['version']}".strip() or "built in"


def _value(value: int | str | bool) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def print_cache(directory: str, uses: Sequence[CacheUse], limit: int, out: Console) -> None:
    """Print the use of each folder of the cache.

    Args:
        directory: Directory of the cache.
        uses: Files and bytes of each folder.
        limit: Limit of the objects in bytes.
        out: The console.
    """
    table = new_table("folder", "files", "size", right=("files", "size"))
    for use in uses:
        table.add_row(use.folder, str(use.files), bytes_text(use.bytes))
    total = bytes_text(sum(use.bytes for use in uses))
    table.add_row("total", str(sum(use.files for use in uses)), total, style="bold")
    out.print(Text(f"cache: {directory}"))
    out.print(table)
    out.print(Text(f"objects unused for longest go when they take more than {bytes_text(limit)}"))
