"""Attribution of an unexpected exception: to the plugin whose code raised it, else to dory."""

from __future__ import annotations

import os
import traceback

from dory_core.plugins.discovery import PluginState, installed


def plugin_at_fault(error: BaseException) -> tuple[PluginState, str] | None:
    """Return the plugin whose code raised an exception, and the position; None for the core.

    The innermost frame that belongs to a plugin decides; numpy or the core may have been called.
    """
    packages = {_package(one.module): one.state for one in installed()}
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        state = packages.get(module.partition(".")[0])
        if state is not None:
            file = os.path.join(*module.split(".")[:-1], os.path.basename(frame.f_code.co_filename))
            found = state, f"{file}, line {line}, in {frame.f_code.co_name}()"
    return found


def _package(value: str) -> str:
    return value.partition(":")[0].strip().partition(".")[0]
