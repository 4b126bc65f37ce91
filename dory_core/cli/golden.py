"""``dory golden``: every tensor as the reference of a format computes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dory_core.cli.common import Debug, Json, Quiet, console, print_json, settings
from dory_core.cli.compile import Frontend, Network
from dory_core.errors import UsageError


def golden(
    network: Network,
    frontend: Frontend = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the golden is written.")
    ] = Path("golden.npz"),
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="An inference: .npy, or .npz with an array per network input by its name; may be"
            " repeated.",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Inferences on random inputs.")
    ] = 1,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the random inputs.")] = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compute every tensor with the reference of a format: a golden."""
    import io

    import numpy as np

    from dory_core.cli.files import existing_file, write_file
    from dory_core.plugins.frontend import GoldenRequest
    from dory_core.plugins.manager import load_plugins

    existing_file(network, "network")
    for path in inputs or ():
        existing_file(path, "input")
    plugins = load_plugins()
    found = plugins.frontend(frontend) if frontend else plugins.frontend_for(network)
    if found.golden is None:
        raise UsageError(
            f"the frontend '{found.name}' runs no reference",
            "export the golden with the tool that made the network",
        )
    request = GoldenRequest(tuple(inputs or ()), runs, seed)
    arrays = found.golden(network, request)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    write_file(output, file.getvalue())
    count = len(request.inputs) or runs
    if json:
        print_json({"golden": str(output), "runs": count, "tensors": len(arrays)})
    elif settings.verbosity >= 0:
        console().print(
            f"written: {output} ({len(arrays)} tensors of {count} inferences; use it with"
            " --golden)",
            markup=False,
        )
