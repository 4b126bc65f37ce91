"""``dory golden``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dory_core.api import UsageError, cli

if TYPE_CHECKING:
    import numpy.typing as npt

    from dory_tflite.model import Subgraph

Model = Annotated[Path, typer.Argument(metavar="NET.TFLITE", help="The network.")]


def golden(
    network: Model,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the golden is written.")
    ] = Path("golden.npz"),
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="An inference: .npy, or .npz with an array per network input, t0 or its name; may"
            " be repeated.",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Inferences on random inputs.")
    ] = 1,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the random inputs.")] = 0,
    json: cli.Json = False,
    debug: cli.Debug = False,
) -> None:
    """Run TensorFlow Lite Micro on a .tflite file and keep every tensor as a golden."""
    import io

    import numpy as np

    from dory_tflite.golden import golden_arrays, random_inputs
    from dory_tflite.reader import read_model

    cli.existing_file(network, "network")
    model = read_model(network)
    if inputs:
        given = [_inputs(model.subgraphs[0], path) for path in inputs]
    else:
        generator = np.random.default_rng(seed)
        given = [random_inputs(model, generator) for _ in range(runs)]
    arrays = golden_arrays(network.read_bytes(), model, given)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    cli.write_file(output, file.getvalue())
    if json:
        cli.print_json({"golden": str(output), "runs": len(given), "tensors": len(arrays)})
    elif cli.settings.verbosity >= 0:
        cli.console().print(
            f"written: {output} ({len(arrays)} tensors of {len(given)} inferences; use it with"
            " --golden)",
            markup=False,
        )


def _inputs(subgraph: Subgraph, path: Path) -> dict[int, npt.NDArray[Any]]:
    from dory_core.api import load_arrays
    from dory_tflite.model import ELEMENT_TYPES

    cli.existing_file(path, "input")
    arrays = load_arrays(path, "")
    found = {}
    for index in subgraph.inputs:
        tensor = subgraph.tensors[index]
        names = [f"in0__t{index}", f"t{index}", tensor.name]
        names += ["", "input"] if len(subgraph.inputs) == 1 else []
        array = next((arrays[name] for name in names if name in arrays), None)
        if array is None or array.size != tensor.elements:
            raise UsageError(
                f"{path}: no array 't{index}' of {tensor.elements} values for the network input"
                f" '{tensor.name}'"
            )
        found[index] = array.astype(ELEMENT_TYPES[tensor.type]).reshape(tensor.shape)
    return found
