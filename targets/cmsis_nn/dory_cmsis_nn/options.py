"""The option ``kernels`` of targets that can take CMSIS-NN, read and checked in one place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.api import UsageError

if TYPE_CHECKING:
    from dory_core.api import TargetContext

#: ``kernels=cmsis-nn=PATH``; without a path CMSIS_NN_PATH says it.
CMSIS_NN = "cmsis-nn"


def kernels_of(ctx: TargetContext) -> str:
    """Return the kernels that were asked for: ``builtin``, ``portable`` or ``cmsis-nn``."""
    return str(ctx.options.get("kernels", "builtin")).partition("=")[0]


def cmsis_nn_path(ctx: TargetContext) -> Path | None:
    """Return where CMSIS-NN was said to lie: ``kernels=cmsis-nn=PATH``, else CMSIS_NN_PATH."""
    named = str(ctx.options.get("kernels", "")).partition("=")[2]
    text = named or os.environ.get("CMSIS_NN_PATH", "")
    return Path(text).expanduser() if text else None


def check_kernels(ctx: TargetContext, known: Sequence[str]) -> None:
    """Raise UsageError unless the kernels are CMSIS-NN's or one of those of the target."""
    kernels = str(ctx.options.get("kernels", "builtin"))
    name, equals, path = kernels.partition("=")
    hint = f"known: {', '.join(known)}, {CMSIS_NN}=PATH"
    if name == CMSIS_NN:
        if equals and not path:
            raise UsageError(f"--kernels {kernels}: the path of CMSIS-NN is missing", hint)
        return
    if kernels not in known:
        raise UsageError(f"the target has no kernels {kernels!r}", hint)
