"""Test vectors inside a program for the chip: assembly that includes the files of ``vectors/``.

A target that has the option of ``dory_core.golden.vectors.VECTORS_OPTION`` adds these files to its
application. Nothing is converted to C: compiling takes no time, whatever the vectors' size.
"""

from __future__ import annotations

from dory_core.codegen.application import render
from dory_core.codegen.application_record import Application
from dory_core.hardware.target import OutputFile

HEADER = "dory_vectors.h"
SOURCE = "dory_vectors.S"


def image_vectors(application: Application, which: str, folder: str) -> tuple[OutputFile, ...]:
    """Return header and source of the vectors in the image, at paths below ``folder``.

    The header declares ``dory_vector_count()``, and ``dory_vector_input(run)``,
    ``dory_vector_output(run)`` and ``dory_vector_layer(run, layer)``, which return NULL for data
    that the image does not hold. For a network with state, ``dory_vector_begins(run)`` returns 1
    when the run starts from the initial state. The assembler has to run in the application's
    directory.

    Args:
        application: The application.
        which: ``none``, ``io`` or ``all``, as in the option.
        folder: Folder of the files in the application.
    """
    sizes = {
        "input": sum(place.tensor.size_bytes for place in application.inputs),
        "output": sum(place.tensor.size_bytes for place in application.outputs),
    }
    layers = {one.index: one.output.tensor.size_bytes for one in application.by_index}
    sizes |= {f"layer_{index:02d}": size for index, size in layers.items()}
    names = {"none": [], "io": ["input", "output"], "all": list(sizes)}[which]
    if names and application.has_state:
        names.append("resets")
    values = {
        "state": application.has_state,
        "names": names,
        "sizes": sizes,
        "layers": layers if which == "all" else (),
    }
    return (
        OutputFile(f"{folder}/{HEADER}", render("dory_vectors.h.mako", **values)),
        OutputFile(f"{folder}/{SOURCE}", render("dory_vectors.S.mako", **values)),
    )
