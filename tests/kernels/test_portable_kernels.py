from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dory_core.expr import Expr, Var, evaluate
from dory_core.ir import Array, AvgPool, Conv, Linear, MaxPool, Window, requant
from dory_core.ir.geometry import extent, make_tile
from dory_core.ir.packing import unpack_rows
from dory_core.ir.reference import run_layer
from dory_core.kernels import portable_kernels
from dory_core.testing.kernels import SANITIZE
from dory_core.testing.random_layers import OTHER_KINDS, LayerSpace, RandomLayers
from dory_core.testing.sanitizers import require_sanitizer, run_sanitized
from tests.kernels.portable_harness import (
    check_layer,
    compile_layers,
    expected_bytes,
    kernel_of,
    random_operands,
    tile_calls,
)
from tests.kernels.portable_layers import TYPES, WEIGHTS, Sampler, all_layers, limits

LAYERS = all_layers()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return compile_layers(LAYERS, tmp_path_factory.mktemp("portable"))


def full_tile(layer):
    full = extent(layer)
    return full.c_out, full.h, full.w, full.c_in


def layers_of(kind):
    return [n for n, layer in enumerate(LAYERS) if isinstance(layer.op, kind)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("seeds", [range(2), range(2, 4)])
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_random_tiles_of_every_kind_and_type_are_exact(compiled, cores, seeds):
    for number in range(len(LAYERS)):
        for seed in seeds:
            check_layer(compiled, number, seed, cores)


def test_the_sample_covers_the_layer_space():
    kinds = {(type(x.op).__name__, x.inputs[0].bits, x.inputs[0].signed) for x in LAYERS}
    assert len(kinds) == 5 * len(TYPES)
    outputs = {(x.output.bits, x.output.signed) for x in LAYERS}
    assert outputs == set(TYPES)
    assert {len(x.op.requants) for x in LAYERS} == {0, 1, 2}
    convs = [x.op for x in LAYERS if isinstance(x.op, Conv)]
    assert any(c.is_depthwise for c in convs)
    assert any(c.groups > 1 and not c.is_depthwise for c in convs)
    assert any(c.window.dilations != (1, 1) and c.window.kernel != (1, 1) for c in convs)
    assert any(len(set(c.window.pads)) > 2 for c in convs)
    assert any(c.bias is not None and int(c.weights.values.max()) > 127 for c in convs)
    assert any(c.window.pad_value and any(c.window.pads) for c in convs)
    assert {len(s.add_negative or ()) > 1 for x in LAYERS for s in x.op.steps} == {False, True}
    pools = [x.op for x in LAYERS if isinstance(x.op, AvgPool)]
    assert {(p.counts_padding, p.origin) for p in pools} > {(False, 0), (False, 1), (True, 0)}
    gapped = [
        x.inputs[0]
        for x in LAYERS
        if isinstance(x.op, Linear) and x.inputs[0].height > 1 and x.inputs[0].bits < 8
    ]
    assert any(x.channels * x.bits % 8 for x in gapped)


@pytest.mark.parametrize("kind", [Conv, Linear])
def test_partial_sums_over_single_input_channels_are_exact(compiled, kind):
    for number in layers_of(kind):
        layer = LAYERS[number]
        kernel = kernel_of(layer)
        if not kernel.traits(layer).accumulates:
            continue
        c_out, h, w, c_in = full_tile(layer)
        smallest = next(
            n
            for n in range(1, c_in + 1)
            if all(c.condition for c in kernel.constraints(layer, make_tile(layer, c_out, h, w, n)))
        )
        operands = random_operands(layer, np.random.default_rng(number))
        golden = run_layer(layer, operands)
        for box, calls in tile_calls(layer, operands, (c_out, h, w, smallest)):
            for args, buffers in calls[:-1]:
                compiled.run(number, args, buffers, range(2), 2)
                assert (buffers["y"] == 0xA5).all()  # only the last tile writes the output
            compiled.run(number, *calls[-1], range(2), 2)
            y = calls[-1][1]["y"]
            np.testing.assert_array_equal(y, expected_bytes(layer, golden, box))


def test_each_byte_of_the_output_is_written_by_exactly_one_core(compiled):
    cores = 5
    for number, layer in enumerate(LAYERS):
        operands = random_operands(layer, np.random.default_rng(number))
        ((_, calls),) = tile_calls(layer, operands, full_tile(layer))
        ((args, buffers),) = calls
        writers = np.zeros(buffers["y"].size, int)
        for core in range(cores):
            written = np.zeros(buffers["y"].size, bool)
            for pattern in (0x00, 0xFF):
                buffers["y"][:] = pattern
                compiled.run(number, args, buffers, range(core, core + 1), cores)
                written |= buffers["y"] != pattern
            writers += written
        assert (writers == 1).all(), str(layer)


def _pointwise(requants, x_range, y, weights=1):
    """A 1x1 convolution with one channel over a row of values."""
    base = next(x for x in LAYERS if isinstance(x.op, Conv))
    lo, hi = x_range
    kind = replace(
        base.op,
        weights=type(base.op.weights)(np.full((1, 1, 1, 1), weights)),
        weight_bits=8,
        bias=None,
        groups=1,
        window=Window(kernel=(1, 1)),
        requants=requants,
    )
    bits, signed = y
    x = replace(base.inputs[0], channels=1, height=1, width=256, lo=lo, hi=hi, bits=32, signed=True)
    output = replace(base.output, channels=1, height=1, width=256, bits=bits, signed=signed)
    return replace(base, op=kind, inputs=(x,), output=output)


@pytest.mark.parametrize(
    "steps",
    [
        (requant(2**61 + 1, -(2**62), 2**40),),
        (requant(-(2**31) - 1, 3, 2**31 - 1),),
        (requant(1, 0, 3), requant(7, -1, 2)),
        (requant(1, -1, 2**62),),
        (requant(5, 2, 255, -(2**80), 2**80),),
        (requant(1, 0, 1, -5, -3),),
        # The product leaves 64 bits, the sum does not.
        (requant(2**61 + 1, -(2**63), 2, -(2**20), 2**20),),
    ],
)
def test_requantisation_is_exact_to_the_limits_of_64_bits(tmp_path, steps):
    large = max(abs(m) for s in steps for m in s.mul) >= 2**60
    layer = _pointwise(steps, (0, 4) if large else (-(2**31), 2**31 - 1), (32, True))
    built = compile_layers([layer], tmp_path)
    rng = np.random.default_rng(0)
    x = rng.integers(layer.inputs[0].lo, layer.inputs[0].hi, (1, 1, 256), endpoint=True)
    x[0, 0, :2] = (layer.inputs[0].lo, layer.inputs[0].hi)
    ((_, (call,)),) = tile_calls(layer, (x,), full_tile(layer))
    built.run(0, *call, range(1), 1)
    expected = []
    for value in x.reshape(-1).tolist():
        for step in steps:  # Python integers, no overflow
            value = step.scalar(value, 0)
        expected.append(value)
    wrapped = np.array(expected, dtype=object) % 2**32
    np.testing.assert_array_equal(call[1]["y"].view("<u4"), wrapped.astype(np.uint32))


@pytest.mark.sanitizer
def test_product_beyond_64_bits_is_no_undefined_behaviour(tmp_path, capfd):
    require_sanitizer("undefined")
    layer = _pointwise((requant(2**61 + 1, -(2**63), 2, 0, 99),), (4, 4), (32, True))
    built = compile_layers([layer], tmp_path, "-fsanitize=undefined")
    check_layer(built, 0, seed=0, cores=1)
    assert "runtime error" not in capfd.readouterr().err


def test_maximum_ignores_padding_of_negative_values(tmp_path):
    draw = Sampler(np.random.default_rng(3))
    layer = draw.pool(MaxPool, (8, True))
    window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    x = replace(layer.inputs[0], channels=2, height=4, width=4, lo=-128, hi=-1)
    y = replace(layer.output, channels=2, height=4, width=4, bits=8, signed=True)
    kind = replace(layer.op, window=window, requants=())
    layer = replace(layer, op=kind, inputs=(x,), output=y)
    built = compile_layers([layer], tmp_path)
    check_layer(built, 0, seed=1, cores=2)
    values = np.full((2, 4, 4), -7)
    ((_, (call,)),) = tile_calls(layer, (values,), full_tile(layer))
    built.run(0, *call, range(2), 2)
    assert (call[1]["y"].view(np.int8) == -7).all()


def test_every_layer_has_exactly_one_kernel_and_a_reason_from_the_others():
    for layer in LAYERS:
        reasons = [k.accepts(layer) for k in portable_kernels()]
        assert reasons.count(None) == 1
        texts = [r.reason for r in reasons if r is not None]
        assert all(f"not {layer.op.kind}" in text for text in texts)


def test_what_does_not_fit_the_c_code_is_rejected():
    layer = _pointwise((requant(2**64 + 1, 0, 2),), (0, 1), (32, True))
    kernel = next(k for k in portable_kernels() if k.name == "dory_portable_conv")
    assert "beyond 64 bits" in kernel.accepts(layer).reason
    layer = _pointwise((), (0, 1), (32, True), weights=300)
    assert kernel.accepts(layer).reason == "weights in [300, 300] do not fit 8 bits"
    wider = replace(layer, op=replace(layer.op, weight_bits=16))
    assert kernel.accepts(wider) is None
    narrow = replace(layer, op=replace(layer.op, weights=Array([[[[9]]]]), weight_bits=2))
    assert kernel.accepts(narrow).reason == "weights in [9, 9] do not fit 2 bits"
    one_bit = replace(layer, output=replace(layer.output, bits=1))
    assert "1 bits in storage" in kernel.accepts(one_bit).reason


@pytest.mark.parametrize("weight_type", WEIGHTS)
@pytest.mark.parametrize("kind", ["conv", "linear"])
def test_rows_of_weights_are_packed_behind_tables_and_bias(kind, weight_type):
    draw = Sampler(np.random.default_rng(11))
    layer = getattr(draw, kind)((8, False), weight_type)
    steps = (requant([3] * layer.output.channels, 1, 2, 0, 255),)
    weights = layer.op.weights.values.copy()
    weights.flat[0] = limits(*weight_type)[1]
    layer = replace(layer, op=replace(layer.op, requants=steps, weights=Array(weights)))
    full, (bits, signed) = extent(layer), weight_type
    block = kernel_of(layer).weight_block(layer, (0, full.c_out), (0, full.c_in))
    rows = weights if kind == "linear" else weights.transpose(0, 2, 3, 1)
    length = -(-rows.shape[-1] * bits // 8)  # of a row, which starts on a byte
    start = block.parts["weights"]
    stored = np.frombuffer(block.data, np.uint8)[start : start + rows[..., 0].size * length]
    stored = stored.reshape(*rows.shape[:-1], length)
    np.testing.assert_array_equal(unpack_rows(stored, rows.shape[-1], bits, signed), rows)
    assert block.parts["mul"] == 0
    assert np.frombuffer(block.data, "<i8", 2).tolist() == [3, 1]
    assert len(block.data) % 8 == 0


def test_sizes_and_cycles_read_alike_as_numbers_and_expressions():
    for layer in LAYERS:
        kernel, (c_out, h, w, c_in) = kernel_of(layer), full_tile(layer)
        c_in = c_in if kernel.accepts(layer) is None and kernel.traits(layer).accumulates else None
        names = {"c_out": c_out, "h": h, "w": w} | ({} if c_in is None else {"c_in": c_in})
        variables = {n: Var(n, 1, size) for n, size in names.items() if size > 1}
        mixed = {n: variables.get(n, size) for n, size in names.items()}
        symbolic, plain = make_tile(layer, **mixed), make_tile(layer, **names)
        for method in (kernel.weight_bytes, kernel.cycles):
            number = method(layer, plain)
            text = method(layer, symbolic)
            assert isinstance(number, int)
            assert evaluate(text, names) == number
        for symbol, value in zip(
            kernel.constraints(layer, symbolic), kernel.constraints(layer, plain), strict=True
        ):
            assert isinstance(symbol.condition, (Expr, int))
            assert evaluate(symbol.condition, names) == value.condition == 1


def test_estimate_falls_with_the_number_of_cores():
    layer = next(x for x in LAYERS if isinstance(x.op, AvgPool) and x.output.elements > 64)
    tile = make_tile(layer, *full_tile(layer))
    one, eight = (
        next(k for k in portable_kernels(n) if k.accepts(layer) is None).cycles(layer, tile)
        for n in (1, 8)
    )
    assert one / 8 < eight < one / 6


def test_every_kernel_ships_its_sources():
    draw = RandomLayers(LayerSpace(), seed=1)
    layers = [*LAYERS, *(draw.layer(kind) for kind in OTHER_KINDS)]
    for kernel in portable_kernels():
        layer = next(x for x in layers if kernel.accepts(x) is None)
        paths = [f.path for f in kernel.sources(layer)]
        assert f"kernels/{kernel.symbol(layer)}.c" in paths
        assert all(f"kernels/{header}" in paths for header in kernel.headers(layer))
        assert kernel.symbol(layer) == kernel.call(layer).function


@pytest.mark.sanitizer
def test_sanitizers_find_nothing(tmp_path):
    program = ["-m", "tests.kernels.portable_harness", str(tmp_path), "5", "3"]
    printed = run_sanitized([*program, *SANITIZE], Path(__file__).parents[2])
    assert "layers are exact" in printed
