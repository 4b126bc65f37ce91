"""The kit fails for kernels that no layer came to, and says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dory_core.hardware.target import OutputFile
from dory_core.ir import Layer, ops
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel, Rejection
from dory_core.testing import Capabilities, TargetConformance
from dory_core.testing.cases import Case
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, ToyChip

L1 = 16384
PORTABLE = portable_kernels(1)


class Kit(TargetConformance):
    """The matrix, to be called by hand."""

    __test__ = False
    capabilities = Capabilities(target=NAME, l1_budgets=(L1,))


def own(kind: type[ops.Op], judge: Callable[[Layer], Rejection | None], name: str) -> Kernel:
    """Return a kernel of a plugin: a portable one that takes fewer layers."""
    base = next(type(k) for k in PORTABLE if k.name == f"dory_portable_{kind.__name__.lower()}")

    class Own(base):  # type: ignore[misc, valid-type]
        __slots__ = ()

        def accepts(self, layer: Layer) -> Rejection | None:
            if not isinstance(layer.op, kind):
                return Rejection("it computes another kind", other_kind=True)
            return judge(layer) or base.accepts(self, layer)

        def symbol(self, layer: Layer) -> str:
            return base.name

    Own.name = name
    return Own(1)


def on_five_rows(layer: Layer) -> Rejection | None:
    """Take filters of 5 rows alone."""
    rows = layer.of(ops.Conv).window.kernel[0]
    return None if rows == 5 else Rejection(f"its filters have 5 rows, not {rows}")


def never(layer: Layer) -> Rejection | None:
    """Take no layer of the matrix."""
    channels = layer.inputs[0].channels
    return None if channels == 71 else Rejection(f"it takes 71 channels, not {channels}")


def failure(chip: ToyChip, folder: Path, kit: TargetConformance | None = None) -> str:
    """Return what the kit says of a chip."""
    with pytest.raises(AssertionError) as caught:
        (kit or Kit()).test_every_kernel_of_the_plugins_is_chosen(chip.plugins(), folder)
    return str(caught.value)


def test_kernels_that_layers_come_to_pass(tmp_path: Path) -> None:
    chip = ToyChip([own(ops.Conv, on_five_rows, "toy_five"), *PORTABLE])
    Kit().test_every_kernel_of_the_plugins_is_chosen(chip.plugins(), tmp_path)


@pytest.mark.slow
def test_a_kernel_that_takes_nothing_fails_with_the_reason_for_each_layer(tmp_path: Path) -> None:
    chip = ToyChip([own(ops.Conv, never, "toy_never"), *PORTABLE])
    message = failure(chip, tmp_path)
    assert f"1 of 1 kernels for {NAME} were never chosen" in message
    assert "toy_never:\n" in message
    assert "x it takes 71 channels, not 16 (conv_3x3, " in message  # numbers apart one reason
    assert message.count("it takes 71 channels") == 1
    assert "another kind" not in message and "dory_kernels: best first" in message


def test_a_kernel_behind_one_that_takes_all_names_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for matrix in ("network_cases", "precision_cases"):
        monkeypatch.setattr(f"dory_core.testing.conformance.{matrix}", lambda **_: ())
    chip = ToyChip([*PORTABLE, own(ops.Conv, on_five_rows, "toy_late")])
    message = failure(chip, tmp_path)
    assert "toy_late:\n" in message and "x dory_portable_conv goes before it (" in message


def test_layers_of_the_target_come_to_its_kernel(tmp_path: Path) -> None:
    def build() -> object:
        builder = GraphBuilder((71, 4, 4))
        builder.conv(8, ops.Window(kernel=(1, 1)))
        return builder.graph()

    class Peculiar(Kit):
        cases = (Case("seventy_one", frozenset(), build),)  # type: ignore[arg-type]

    chip = ToyChip([own(ops.Conv, never, "toy_never"), *PORTABLE])
    Peculiar().test_every_kernel_of_the_plugins_is_chosen(chip.plugins(), tmp_path)


def sixty_four(layer: Layer) -> Rejection | None:
    """Take layers that the kit draws, of which the matrix has none."""
    channels = (layer.inputs[0].channels, layer.output.channels)
    return None if channels == (64, 64) else Rejection("it takes 64 channels to 64")


def test_a_layer_that_is_drawn_for_a_kernel_runs(tmp_path: Path) -> None:
    kernel = own(ops.Conv, sixty_four, "toy_drawn")
    chip = ToyChip([kernel, *PORTABLE])
    Kit().test_every_kernel_of_the_plugins_is_chosen(chip.plugins(), tmp_path / "sound")
    assert (tmp_path / "sound" / "drawn_0" / "plan.json").exists()

    def sources(self: Kernel, layer: Layer) -> tuple[OutputFile, ...]:
        files = super(type(self), self).sources(layer)  # type: ignore[misc]
        wrong = (str(f.content).replace("value >> step->shift", "value >> 1") for f in files)
        return tuple(OutputFile(f.path, text) for f, text in zip(files, wrong, strict=True))

    type(kernel).sources = sources  # type: ignore[method-assign]
    assert "dma late: layer 0 conv" in failure(chip, tmp_path / "wrong")
