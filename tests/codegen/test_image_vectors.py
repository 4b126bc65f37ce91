"""Test vectors inside an image: what header and assembly hold, compiled and read back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dory_core.codegen.application_record import application_record
from dory_core.codegen.image_vectors import image_vectors
from dory_core.ir import Window
from dory_core.simulate.compiler import find_compiler
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, ToyChip

READER = """\
#include <stdio.h>
#include "dory_vectors.h"
int main(void) {
  for (uint32_t run = 0; run < 2; ++run) {
    const uint8_t *const in = dory_vector_input(run), *const out = dory_vector_output(run);
    const uint8_t *const first = dory_vector_layer(run, 0);
    printf("%u %d %d %d\\n", (unsigned)dory_vector_count(), in ? in[0] : -1, out ? out[0] : -1,
           first ? first[0] : -1);
  }
  return dory_vector_layer(0, 99) != NULL;
}
"""


@pytest.mark.parametrize("which", ["none", "io", "all"])
def test_image_holds_the_vectors_that_were_asked_for(which: str, tmp_path: Path) -> None:
    builder = GraphBuilder((3, 5, 7), name="vectors")
    builder.conv(4, Window(kernel=(3, 3)))
    builder.linear(6, output=(0, 255))
    directory = tmp_path / "app"
    plan = build_app(builder.graph(), NAME, directory, plugins=ToyChip().plugins(), seeds=(0, 1))
    for file in image_vectors(application_record(plan), which, "board"):
        path = directory / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(file.content))
    (directory / "board/main.c").write_text(READER)
    command = [*find_compiler().command, "-std=c99", "-Wall", "-Wextra", "-Werror", "-Iboard"]
    sources = ["board/main.c", "board/dory_vectors.S"]
    subprocess.run([*command, *sources, "-o", "reader"], cwd=directory, check=True)
    lines = subprocess.run(
        [str(directory / "reader")], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    data = {
        name: (directory / f"vectors/{name}.bin").read_bytes()
        for name in ("input", "output", "layer_00")
    }
    for run, line in enumerate(lines):
        count, *firsts = (int(word) for word in line.split())
        wanted = [content[run * len(content) // 2] for content in data.values()]
        assert count == (0 if which == "none" else 2)
        if which == "none":
            assert firsts == [-1, -1, -1]
        else:
            assert firsts == [*wanted[:2], wanted[2] if which == "all" else -1]
