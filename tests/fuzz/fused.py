"""Networks whose layers form fused chains: tall images in less L2 than layer by layer takes.

Half of them take the least L2 (objective ``ram``), half some bytes between that and layer by layer;
some take their input or hand out their output by rows.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dory_core.driver.compiler import CompileResult
from dory_core.errors import NotSupported, UsageError
from tests.fuzz import networks
from tests.fuzz.cases import Case, Verdict
from tests.fuzz.networks import Drawn, compiled_for, inferred, nemo, quantlab, way

_TARGETS = (*networks.TARGETS, "cortex_m55")
_STEPS = (2, 3, 4, 5, 6, 8)
_L1 = (3000, 6000, 12000, 40000, 131072)
_MOST_L2 = 400_000
#: Shares of the L2 that a plan layer by layer takes; 0 for the objective ``ram``.
_SHARES = (0.0, 0.0, 0.0, 0.9, 0.7, 0.5)
_ROWS = ({}, {}, {"input_rows": "on"}, {"output_rows": "on"})
#: Operators of images that keep their rows apart.
_QDQ = ("conv", "conv", "add", "mul", "max_pool", "average_pool", "relu", "concat", "pad", "resize")


def _tall(draw: random.Random) -> tuple[int, ...]:
    return draw.choice([1, 3, 4, 8]), draw.randint(12, 48), draw.randint(3, 24)


def _nemo(draw: random.Random, folder: Path, steps: int) -> Drawn:
    return nemo(draw, folder, steps, _tall)


def _quantlab(draw: random.Random, folder: Path, steps: int) -> Drawn:
    return quantlab(draw, folder, steps, _tall)


def _qdq(draw: random.Random, folder: Path, steps: int) -> Drawn:
    import numpy as np
    from dory_qdq.testing import Builder
    from dory_qdq.testing.networks import OPERATORS

    seed = draw.randrange(1 << 30)
    builder = Builder(np.random.default_rng(seed), signed=draw.random() < 0.4)
    last = builder.input((1, *_tall(draw)))
    for _ in range(steps):
        last = OPERATORS[draw.choice(_QDQ)](builder, last)
    return inferred(builder.model([(last.stored, last.shape)]), seed, folder)


FORMATS: networks.Formats = MappingProxyType(
    {"tall-nemo": _nemo, "tall-quantlab": _quantlab, "tall-qdq": _qdq}
)


def drawn(case: Case, folder: Path) -> Drawn:
    """Return the network of a case, of ``size`` layers where that is not 0."""
    return networks.drawn(case, folder, FORMATS, _STEPS)


def _compiled(
    network: Drawn, draw: random.Random, folder: Path
) -> tuple[CompileResult, dict[str, Any]]:
    """Compile with less L2 than layer by layer, or the least."""
    chosen = way(draw, _TARGETS)
    share, l1 = draw.choice(_SHARES), draw.choice(_L1)
    plain = {**chosen, "settings": {**chosen["settings"], "moves": "-fused-chains"}}
    large = [(l1, _MOST_L2), (1 << 16, _MOST_L2)]
    result, _ = compiled_for(network, plain, large, folder)
    most = next(level.used for level in result.plan.levels if level.name == "L2")
    chosen["settings"] = {**chosen["settings"], **draw.choice(_ROWS)}
    if share == 0.0:
        chosen["objective"] = "ram"
    least = most if share == 0.0 else int(most * share)
    sizes = [(plain["budgets"][1], int(least * factor)) for factor in (1, 1.2, 1.6, 2.4)]
    try:
        return compiled_for(network, chosen, sizes, folder)
    except (NotSupported, UsageError):
        if not chosen["settings"].keys() & {"input_rows", "output_rows"}:
            raise
    chosen["settings"] = plain["settings"] | {"moves": ""}
    return compiled_for(network, chosen, sizes, folder)


def check_fused(case: Case, folder: Path) -> Verdict:
    """Draw, compile and run a network in fused chains: exact, or refused with a reason."""
    return networks.check(case, folder, drawn(case, folder), _compiled)
