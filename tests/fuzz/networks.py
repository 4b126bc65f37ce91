"""Random networks of every format as files, with what an interpreter without our code computes.

The interpreters are onnx's evaluator in float64 for the formats of ONNX with integers in floats,
TensorFlow Lite Micro, and onnxruntime.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, CompileResult, compile_network
from dory_core.errors import DoesNotFit, DoryError, UsageError, VerificationFailed
from dory_core.importing import FrontendOptions
from tests.fuzz.cases import Case, Verdict, plugins, refusal
from tests.fuzz.quick import quick_runs

TARGETS = ("gap8", "stm32h7", "diana")
L1 = (3000, 4096, 6000, 8192, 11111, 16384, 30000, 65536, 131072, 262144)
L2 = (6000, 12000, 24000, 50000, 100000, 200000, 400000)
MOST_STEPS = 12
#: Layers of a network, at most: mostly few, since small ones find as much in less time.
_STEPS = (1, 2, 2, 3, 3, 4, 5, 6, 7, MOST_STEPS)
_PARTS = ("stm32h743", "stm32h743", "stm32h723", "stm32h7a3", "stm32f746", "stm32f767")
#: Options of targets: half of the networks have them as they are.
SETTINGS: Mapping[str, Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "gap8": {"cores": "12345678", "board": ("gvsoc", "gapuino", "gapuino-l2")},
        "stm32h7": {
            "part": _PARTS,
            "dma": ("auto", "auto", "memcpy"),
            "memory": ("auto", "dtcm", "dcache", "uncached"),
        },
        "diana": {"l1_kib": ("256", "128"), "engines": ("digital,analog,host", "host")},
        "cortex_m55": {"kernels": ("builtin", "builtin", "portable"), "dma": ("core", "dma")},
    }
)
_TRIES = 3  # with more memory each
_LEVELS = ("-O0",) * 15 + ("-O2",)  # the first one costs the least


@dataclass(frozen=True, slots=True)
class Drawn:
    """A network file. goldens: layers by the interpreter. signed: values of its input."""

    path: Path
    frontend: str
    goldens: tuple[Path, ...] = ()
    signed: bool = False


# -- formats of integers in float ONNX ---------------------------------------------------------


def grow(builder: Any, draw: random.Random, steps: int, features: frozenset[str]) -> None:
    """Append random layers. features: what a dialect has beyond Conv, MaxPool, Add and Gemm."""
    for _ in range(steps):
        channels, *size = builder.shape
        kind = draw.choice(["conv", "conv", "depthwise", "residual", "maxpool", "avgpool"])
        kernel = tuple(draw.randint(1, min(5, 2 * extent)) for extent in size)
        pads = tuple(k // 2 for k in kernel) * 2
        if any(s + 2 * (k // 2) < k for s, k in zip(size, kernel, strict=True)):
            kind = "residual"
        options: dict[str, Any] = {"stride": draw.choice([1, 1, 2]), "pads": pads}
        if "bits" in features:
            bits = draw.choice([2, 4, 8, 8])
            options |= {"weight_bits": bits, "hi": draw.choice([3, 15, 255, 255])}
        if "signed" in features:
            options |= {"signed": draw.random() < 0.4}
        if kind == "conv":
            builder.conv(draw.choice([1, 3, 8, 16, 21, 32]), kernel, **options)
        elif kind == "depthwise":
            builder.conv(channels, kernel, groups=channels, **options)
        elif kind == "residual":
            branch = builder.value
            builder.conv(channels, 1).add(branch)
        elif kind == "maxpool" and min(size) > 1:
            builder.maxpool(2)
        elif kind == "avgpool" and "mean" in features and min(size) > 1:
            builder.avgpool(2)
    if draw.random() < 0.6 or not builder.layer_values:
        builder.linear(draw.randint(1, 20))


def image(draw: random.Random) -> tuple[int, ...]:
    if draw.random() < 0.2:
        return draw.choice([1, 4, 9]), draw.randint(3, 60)
    return draw.choice([1, 3, 4, 8, 17]), draw.randint(1, 20), draw.randint(1, 20)


def bounds(draw: random.Random) -> dict[str, int]:
    return {"input_lo": -128, "input_hi": 127} if draw.random() < 0.3 else {}


Shape = Callable[[random.Random], tuple[int, ...]]
Grow = Callable[[Any, random.Random, int, frozenset[str]], None]


def nemo(
    draw: random.Random, folder: Path, steps: int, shape: Shape = image, append: Grow = grow
) -> Drawn:
    """Write a network of NEMO. shape: draws its input, (C, W) or (C, H, W). append: its layers."""
    from dory_nemo.testing import NemoBuilder
    from dory_onnx.testing import write_golden

    signed = bounds(draw)
    builder = NemoBuilder(shape(draw), seed=draw.randrange(1 << 30), **signed)
    append(builder, draw, steps, frozenset({"mean"}))
    goldens = tuple(write_golden(builder, folder / f"golden_{n}.npz", n) for n in range(2))
    return Drawn(builder.save(folder / "net.onnx"), "nemo", goldens, bool(signed))


def quantlab(
    draw: random.Random, folder: Path, steps: int, shape: Shape = image, append: Grow = grow
) -> Drawn:
    """Write a network of QuantLab. shape, append: as of :func:`nemo`."""
    from dory_onnx.testing import evaluate
    from dory_quantlab.testing import QuantlabBuilder

    from frontends.quantlab.tests.standard_onnx import standard

    signed, rounding = bounds(draw), draw.random() < 0.5
    source, seed, state = shape(draw), draw.randrange(1 << 30), draw.getstate()
    builders = []
    for nodes in (rounding, False):  # the evaluator rounds every Div down: it takes the second one
        draw.setstate(state)
        builder = QuantlabBuilder(source, seed=seed, rounding_nodes=nodes, **signed)
        append(builder, draw, steps, frozenset({"bits"} if rounding else {"bits", "mean"}))
        builders.append(builder)
    builder, judged = builders
    model = judged.model()
    residuals = sum(any(a.name == "in1_rq" for a in node.attribute) for node in model.graph.node)
    plain = standard(model, [(False, False, False)] * residuals)
    goldens = _goldens(judged, folder, lambda image: evaluate(plain, image, judged.layer_values))
    return Drawn(builder.save(folder / "net.onnx"), "quantlab", goldens, bool(signed))


def _deeploy(draw: random.Random, folder: Path, steps: int) -> Drawn:
    from dory_deeploy.dialect import parse
    from dory_deeploy.testing import DeeployBuilder, values_of

    signed = bounds(draw)
    domain, old = draw.choice(["", "PACTOps"]), draw.random() < 0.5
    builder = DeeployBuilder(
        image(draw), seed=draw.randrange(1 << 30), domain=domain, old=old, **signed
    )
    grow(builder, draw, steps, frozenset({"signed"}))
    path = builder.save(folder / "net.onnx")
    # Steps of an operand join the layer before it: the import says where its layers end.
    graph = parse(path, FrontendOptions(8, bool(signed)))
    names = [layer.op.tensor for layer in graph.layers]
    goldens = _goldens(builder, folder, lambda image: values_of(builder, image, names))
    return Drawn(path, "deeploy", goldens, bool(signed))


def _goldens(
    builder: Any, folder: Path, values: Callable[[Any], Mapping[str, Any]]
) -> tuple[Path, ...]:
    """Write what an evaluator says of every layer for two inputs."""
    paths = []
    for number in range(2):
        lo, hi = builder.bounds[builder.input]
        shape = builder.shapes[builder.input]
        image = np.random.default_rng(number).integers(lo, hi, shape, endpoint=True)
        layers = [image, *map(np.asarray, values(image).values())]
        flat = [np.moveaxis(one, 0, -1).reshape(-1) for one in layers]
        names = ["input", *(f"layer_{n:02d}" for n in range(len(layers) - 1))]
        paths.append(folder / f"golden_{number}.npz")
        np.savez(paths[-1], **dict(zip(names, flat, strict=True)))
    return tuple(paths)


# -- formats of quantised files ----------------------------------------------------------------


def _tflite(
    draw: random.Random, folder: Path, steps: int, type: str = "INT8", packed: bool = False
) -> Drawn:
    from dory_tflite.golden import golden_arrays, random_inputs
    from dory_tflite.reader import model_of
    from dory_tflite.testing import random_network

    path, golden = folder / "net.tflite", folder / "golden.npz"
    data = random_network(
        draw.randrange(1 << 30), operations=max(steps, 1), type=type, packed=packed, more=True
    )
    path.write_bytes(data)
    model, numbers = model_of(data, path), np.random.default_rng(1)
    given = [random_inputs(model, numbers) for _ in range(2)]
    np.savez(golden, **golden_arrays(data, model, given))
    return Drawn(path, "tflite", (golden,))


def _qdq(draw: random.Random, folder: Path, steps: int) -> Drawn:
    from dory_qdq.testing import random_network

    return inferred(random_network(seed := draw.randrange(1 << 30), max(steps, 1)), seed, folder)


def _mixed(draw: random.Random, folder: Path, steps: int) -> Drawn:
    from dory_qdq.testing import mixed_network

    return inferred(mixed_network(seed := draw.randrange(1 << 30), max(steps, 1)), seed, folder)


def _qoperator(draw: random.Random, folder: Path, steps: int) -> Drawn:
    from dory_qdq.testing import as_qoperator, random_network

    data = random_network(seed := draw.randrange(1 << 30), max(steps, 1))
    return inferred(as_qoperator(data, draw.choice([0, 0, 77, 128])), seed, folder)


def inferred(data: bytes, seed: int, folder: Path) -> Drawn:
    """Write a file of quantised ONNX, and what onnxruntime computes."""
    from dory_qdq.testing import infer, write_golden

    path = folder / "net.onnx"
    path.write_bytes(data)
    golden = infer(data, folder, seed, inferences=2).golden
    return Drawn(path, "qdq", (write_golden(golden, folder / "golden.npz"),))


Formats = Mapping[str, Callable[[random.Random, Path, int], Drawn]]
FORMATS: Formats = MappingProxyType(
    {
        "nemo": nemo,
        "quantlab": quantlab,
        "deeploy": _deeploy,
        "tflite": _tflite,
        "tflite-16": partial(_tflite, type="INT16"),
        "tflite-4": partial(_tflite, packed=True),
        "qdq": _qdq,
        "qdq-mixed": _mixed,
        "qoperator": _qoperator,
    }
)


def drawn(
    case: Case, folder: Path, formats: Formats = FORMATS, sizes: Sequence[int] = _STEPS
) -> Drawn:
    """Return the network of a case, of ``size`` layers where that is not 0.

    Args:
        case: The case.
        folder: Where its files go.
        formats: What draws the network, by subject.
        sizes: Numbers of layers that are drawn.
    """
    draw = case.draw
    steps = draw.choice(sizes)
    return formats[case.subject](draw, folder, min(case.size, steps) if case.size else steps)


Compile = Callable[[Drawn, random.Random, Path], tuple[CompileResult, dict[str, Any]]]


def compiled(
    network: Drawn, draw: random.Random, folder: Path
) -> tuple[CompileResult, dict[str, Any]]:
    """Compile for a random target, objective and memory, with more memory where that is too little.

    Returns also what was chosen. Raises DoryError.
    """
    chosen = way(draw, TARGETS)
    first, second = draw.randrange(len(L1)), draw.randrange(len(L2))
    sizes = [
        (L1[min(first + 3 * extra, len(L1) - 1)], L2[min(second + 3 * extra, len(L2) - 1)])
        for extra in range(_TRIES)
    ]
    return compiled_for(network, chosen, sizes, folder)


def way(draw: random.Random, targets: Sequence[str]) -> dict[str, Any]:
    """Return a target, an objective and options, which half of the networks have as they are."""
    chosen: dict[str, Any] = {"target": draw.choice(targets)}
    chosen["objective"] = draw.choice(["heuristic", "latency"])
    settings = {
        "keep_constant_channels": draw.choice(["yes", "no"]),
        "storage": draw.choice(["fast", "packed"]),
    }
    settings |= {name: draw.choice(some) for name, some in SETTINGS[chosen["target"]].items()}
    chosen["settings"] = settings if draw.random() < 0.5 else {}
    return chosen


def compiled_for(
    network: Drawn, chosen: dict[str, Any], sizes: Sequence[tuple[int, int]], folder: Path
) -> tuple[CompileResult, dict[str, Any]]:
    """Compile a way with the first budgets of L1 and L2 that suffice. Raises DoryError."""
    for budgets in sizes:
        chosen["budgets"] = dict(enumerate(budgets, start=1))
        options = CompileOptions(
            network.path,
            frontend=network.frontend,
            output=folder / "app",
            golden=network.goldens,
            input_signed=network.signed,
            **chosen,
        )
        try:
            return compile_network(options, plugins()), chosen
        except (DoesNotFit, UsageError):  # budgets beyond the chip are refused by name
            if budgets == sizes[-1]:
                raise
    raise AssertionError("the last attempt returns or raises")


def check_network(case: Case, folder: Path) -> Verdict:
    """Draw, compile and run a network: exact, or refused with a reason."""
    return check(case, folder, drawn(case, folder), compiled)


def check(case: Case, folder: Path, network: Drawn, compile_: Compile) -> Verdict:
    """Compile and run a network: exact, or refused with a reason. compile_: as :func:`compiled`."""
    draw = random.Random(f"way of {case}" if not case.size else f"way of {_whole(case)}")
    sanitize = draw.choice([None] * 31 + ["address,undefined"])
    mode = draw.choice([None, None, "early", "late", "random"]) if sanitize is None else "early"
    try:
        result, chosen = compile_(network, draw, folder)
    except VerificationFailed as error:
        return Verdict(case, "wrong", f"import: {error.message}", bad=True)
    except DoryError as error:
        return refusal(case, error)
    level = draw.choice(_LEVELS)
    way = f"{chosen} dma {mode} sanitize {sanitize} {level}"
    try:
        with quick_runs(level=level):
            done = run_application(
                folder / "app", plugins=plugins(), dma=mode, sanitize=sanitize, runner="host"
            )
    except VerificationFailed as error:
        return Verdict(case, "wrong", f"{way}: {error.message}", bad=True)
    except DoryError as error:
        return refusal(case, error)
    wrong = done.first_difference
    if wrong is not None:
        text = f"{way}: {wrong[0].input}: layer {wrong[1].index} {wrong[1].name}: {wrong[1].first}"
        return Verdict(case, "wrong", text, bad=True)
    fused = sum(step.chain > 1 for step in result.plan.steps)
    return Verdict(case, "exact", f"{len(result.plan.steps)} layers, {fused} fused; {way}")


def _whole(case: Case) -> Case:
    return Case(case.kind, case.subject, case.seed)
