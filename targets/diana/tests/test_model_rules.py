"""Every rule of docs/contract.md, broken once: the model names call, field and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import diana_bytes as layout
import numpy as np
import pytest
from diana_machine import BrokenRule, Machine

L1 = 65536


@dataclass(frozen=True)
class Call:
    """A correct call: arguments by name, in order, and fields; W and BN are bytes in L2."""

    name: str
    arguments: dict[str, int]
    fields: dict[str, int]
    blocks: dict[str, np.ndarray] = field(default_factory=dict)
    x_bytes: int = 0

    def where(self, **changes: int) -> Call:
        """Return the call with some arguments or fields changed."""
        arguments = {n: changes.get(n, v) for n, v in self.arguments.items()}
        fields = self.fields | {n: v for n, v in changes.items() if n not in arguments}
        return replace(self, arguments=arguments, fields=fields)

    def on(self, machine: Machine) -> None:
        """Prepare memory, call and wait."""
        machine.put(0, np.ones(self.x_bytes, np.uint8))
        places = {name: machine.l2(data) for name, data in self.blocks.items()}
        arguments = {n: places.get(n, 0) + v for n, v in self.arguments.items()}
        machine.run(self.name, *arguments.values(), **self.fields)


def _ternary() -> np.ndarray:
    weights = np.zeros((8, 16, 3, 3), np.int64)
    weights[0, 0] = 1
    return layout.analog_weights(weights)


_BIAS = np.zeros(32, np.int64)
CONV = Call(
    "digital_conv_2d",
    {"l2_x": 0, "l1_x": 0, "l2_W": 0, "l1_W": 0, "l1_y": 4096},
    {
        "padding": 1 + (1 << 8) + (1 << 12),
        "c": 16,
        "k": 32,
        "cx": 32,
        "cy": 8,
        "fx": 3,
        "fy": 3,
        "ox": 32,
        "oy": 8,
        "activation_function": 0,
        "output_shift": 4,
        "dilation": 1,
        "stride": 0,
    },
    {"l2_W": layout.conv_weights(np.ones((32, 16, 3, 3), np.int64), _BIAS)},
    x_bytes=16 * 8 * 32,
)
DEPTHWISE = replace(
    CONV,
    name="digital_depthwise_conv_2d",
    fields=CONV.fields | {"k": 16},
    blocks={"l2_W": layout.depthwise_weights(np.ones((16, 1, 3, 3), np.int64), _BIAS[:16])},
)
LINEAR = Call(
    "digital_fully_connected",
    {"l2_x": 0, "l1_x": 0, "l2_W": 0, "l1_W": 0, "l1_y": 4096},
    {
        "padding": 0,
        "c": 64,
        "k": 16,
        "cx": 1,
        "cy": 1,
        "fx": 1,
        "fy": 1,
        "ox": 1,
        "oy": 1,
        "activation_function": 1,
        "output_shift": 0,
        "dilation": 1,
        "stride": 0,
    },
    {"l2_W": layout.linear_weights(np.ones((16, 64), np.int64), _BIAS[:16])},
    x_bytes=64,
)
SUM = Call(
    "element_wise_sum",
    {"l2_x": 0, "l1_x": 0, "l2_x2": 0, "l1_x2": 512, "l1_y": 4096},
    {
        "padding": 0,
        "c": 16,
        "k": 16,
        "cx": 16,
        "cy": 2,
        "fx": 1,
        "fy": 1,
        "ox": 16,
        "oy": 2,
        "activation_function": 0,
        "output_shift": 1,
        "dilation": 1,
        "stride": 0,
    },
    x_bytes=1024,
)
ANALOG = Call(
    "analog_conv_2d",
    {"l2_x": 0, "l1_x": 0, "l2_W": 0, "l2_BN": 0, "l1_W": 0, "l1_y": 8192},
    {
        "padding": 1 + (1 << 2) + (1 << 4) + (1 << 6),
        "c": 16,
        "k": 8,
        "cx": 8,
        "cy": 4,
        "fx": 3,
        "fy": 3,
        "ox": 4,
        "oy": 4,
        "ox_unroll": 2,
        "activation_function": 1,
        "output_shift": 3,
        "dilation": 1,
        "stride": 1,
    },
    {"l2_W": _ternary(), "l2_BN": layout.analog_requant(np.full(8, 5), np.full(8, -3))},
    x_bytes=4 * 8 * 64,
)
ANALOG_LINEAR = replace(
    ANALOG,
    name="analog_fully_connected",
    fields=ANALOG.fields
    | dict.fromkeys(("cx", "cy", "fx", "fy", "ox", "oy", "ox_unroll", "stride"), 1)
    | {"padding": 0},
    blocks={
        "l2_W": layout.analog_weights(np.ones((8, 16, 1, 1), np.int64)),
        "l2_BN": ANALOG.blocks["l2_BN"],
    },
)
CORRECT = (CONV, DEPTHWISE, LINEAR, SUM, ANALOG, ANALOG_LINEAR)

BROKEN: list[tuple[Call, dict[str, int], str]] = [
    *(
        case
        for call in CORRECT
        for case in (
            (call, {"output_shift": 32}, "output_shift = 32 is not in 0 .. 31"),
            (call, {"output_shift": -1}, "output_shift = -1 is not in 0 .. 31"),
            (call, {"activation_function": 2}, "activation_function = 2 is not in 0 .. 1"),
            (call, {"dilation": 2}, "dilation = 2 is not 1"),
            (call, {"c": 0}, "c = 0 is not in 1 .."),
            (call, {"c": 20}, "c = 20 is not a multiple of 16"),
            (call, {"l1_x": 8}, "l1_x = 8 is not a multiple of 16"),
            (call, {"l1_y": 8200}, "l1_y = 8200 is not a multiple of 16"),
            (call, {"l1_y": L1}, f"at l1_y = {L1} do not fit L1 of {L1} bytes"),
            (call, {"l1_y": 16 * 2**40}, "do not fit L1"),
            (call, {"l1_x": L1 - 32}, "do not fit L1 of 65536 bytes"),
            (call, {"l1_x": 32768}, "byte 32768 of L1 is read but was not written"),
            (call, {"l1_y": 0}, "overlaps the input"),
            (call, {"l2_x": 2}, "l2_x is not a multiple of 4"),
            (call, {"l2_x": 4096}, "4 bytes at l2_x do not lie in L2"),
        )
    ),
    *(
        case
        for call in (CONV, DEPTHWISE, LINEAR)
        for case in (
            (call, {"l2_W": 2}, "l2_W is not a multiple of 4"),
            (call, {"l2_W": 16}, "at l2_W do not lie in L2"),
            (call, {"l1_W": 8}, "l1_W = 8 is not a multiple of 16"),
            (call, {"l1_W": 65520}, "at l1_W = 65520 do not fit the weight memory of 65536 bytes"),
        )
    ),
    *(
        case
        for call in (CONV, DEPTHWISE)
        for case in (
            (call, {"cx": 20}, "cx = 20 is not a multiple of 16"),
            (call, {"ox": 30}, "ox = 30 is not a multiple of 16"),
            (call, {"cy": 0}, "cy = 0 is not in 1 .."),
            (call, {"oy": 0}, "oy = 0 is not in 1 .."),
            (call, {"oy": 2**30}, "oy = 1073741824 is not in 1 .. 65536"),
            (call, {"fx": 4}, "fx = 4 is not 1, 3, 5 or 7"),
            (call, {"fy": 9}, "fy = 9 is not 1, 3, 5 or 7"),
            (call, {"stride": 2}, "stride = 2 is not in 0 .. 1"),
            (call, {"padding": 1 << 4}, "padding = 0x10 has other bits"),
            (call, {"padding": 1 << 16}, "padding = 0x10000 has other bits"),
            (call, {"padding": 3}, "padding of 3 at the right of a filter of 3 taps"),
            (call, {"padding": 3 << 8}, "padding of 3 at the top of a filter of 3 taps"),
            (call, {"padding": 3 << 12}, "padding of 3 at the bottom of a filter of 3 taps"),
            (call, {"oy": 9}, "the last of 9 output rows needs 10 rows of the input, which has 8"),
            (call, {"padding": 1 | 1 << 8}, "output rows needs 9 rows of the input"),
        )
    ),
    (CONV, {"k": 24}, "k = 24 is not a multiple of 16"),
    (CONV, {"k": 64}, "at l2_W do not lie in L2"),
    (CONV, {"k": 480, "oy": 1}, "71040 bytes of weights at l1_W = 0 do not fit the weight memory"),
    (DEPTHWISE, {"k": 64}, "k = 64 is not 16: c and k of a depthwise layer are its channels"),
    (LINEAR, {"k": 32}, "k = 32 is not 16: a tile has 16 outputs"),
    (LINEAR, {"c": 4096}, "65600 bytes of weights at l1_W = 0 do not fit"),
    *((LINEAR, {n: 2}, f"{n} = 2 is not 1") for n in ("cx", "cy", "ox", "oy", "fx", "fy")),
    *((LINEAR, {n: 1}, f"{n} = 1 is not 0") for n in ("padding", "stride")),
    (SUM, {"k": 32}, "k = 32 is not 16"),
    (SUM, {"ox": 32}, "ox = 32 is not 16"),
    (SUM, {"oy": 1}, "oy = 1 is not 2"),
    (SUM, {"cx": 17}, "cx = 17 is not a multiple of 16"),
    (SUM, {"l1_x2": 24}, "l1_x2 = 24 is not a multiple of 16"),
    (SUM, {"l1_y": 512}, "overlaps the second input"),
    (SUM, {"l2_x2": 4096}, "at l2_x2 do not lie in L2"),
    *((SUM, {n: 2}, f"{n} = 2 is not") for n in ("fx", "fy", "padding", "stride")),
    (ANALOG, {"c": 1168}, "c = 1168 is not in 16 .. 1152"),
    (ANALOG, {"k": 513}, "k = 513 is not in 1 .. 512"),
    (ANALOG, {"k": 300}, "ox_unroll * k = 600 columns, the array has 512"),
    (ANALOG, {"c": 112}, "c * fy * (fx + ox_unroll - 1) = 1344 rows, the array has 1152"),
    (ANALOG, {"ox_unroll": 3}, "ox_unroll = 3 is not 1, 2 or 4"),
    (ANALOG, {"stride": 0}, "stride = 0 is not in 1 .. 2"),
    (ANALOG, {"stride": 3}, "stride = 3 is not in 1 .. 2"),
    (ANALOG, {"fx": 2}, "fx = 2 is not 1, 3, 5 or 7"),
    (ANALOG, {"padding": 256}, "padding = 0x100 has other bits"),
    *(
        (ANALOG, {"padding": 3 << at}, f"padding of 3 at the {name} of a filter of 3 taps")
        for name, at in (("bottom", 0), ("top", 2), ("right", 4), ("left", 6))
    ),
    (ANALOG, {"ox": 5}, "the last of 10 output columns needs 11 columns of the input"),
    (ANALOG, {"oy": 5}, "the last of 5 output rows needs 6 rows of the input"),
    (ANALOG, {"l1_W": 16}, "l1_W = 16 is not 0"),
    (ANALOG, {"l2_W": 4}, "at l2_W do not lie in L2"),
    (ANALOG, {"l2_BN": 4}, "64 bytes at l2_BN do not lie in L2"),
    (ANALOG, {"l2_BN": 2}, "l2_BN is not a multiple of 4"),
    *(
        (ANALOG_LINEAR, {n: 2}, f"{n} = 2 is not 1: there is one pixel")
        for n in ("cx", "cy", "ox", "oy", "fx", "fy", "ox_unroll", "stride")
    ),
    (ANALOG_LINEAR, {"padding": 1}, "padding = 1 is not 0"),
]


@pytest.mark.parametrize("call", CORRECT, ids=lambda call: call.name)
def test_calls_are_correct_before_a_rule_is_broken(call: Call) -> None:
    call.on(Machine(l1_bytes=L1))


@pytest.mark.parametrize(
    ("call", "changes", "words"), BROKEN, ids=[f"{c.name}-{d}" for c, d, _ in BROKEN]
)
def test_broken_rules_are_named(call: Call, changes: dict[str, int], words: str) -> None:
    with pytest.raises(BrokenRule) as broken:
        call.where(**changes).on(Machine(l1_bytes=L1))
    assert words in str(broken.value)
    assert str(broken.value).startswith(f"{call.name}: ") or "byte" in words


def test_channels_that_share_a_block_with_depthwise_weights_are_zero() -> None:
    data = DEPTHWISE.blocks["l2_W"].copy()
    data[(9 * 16 + 64) + (16 + 4 + 2 ^ 3)] = 7
    with pytest.raises(
        BrokenRule,
        match=r"block of channels 4 \.\. 7 has 7, not 0, at byte 21: companion 2 of channel 5",
    ):
        replace(DEPTHWISE, blocks={"l2_W": data}).on(Machine(l1_bytes=L1))


def test_accumulators_stay_within_int32() -> None:
    bias = _BIAS.copy()
    bias[3] = 2**31 - 10
    data = layout.conv_weights(np.ones((32, 16, 3, 3), np.int64), bias)
    with pytest.raises(BrokenRule, match=r"accumulator 64 \+ bias 2147483638 leaves int32"):
        replace(CONV, blocks={"l2_W": data}).on(Machine(l1_bytes=L1))


def test_analog_requantisation_stays_within_int32() -> None:
    bn = layout.analog_requant(np.full(8, 2**31 - 1), np.full(8, 1))
    blocks = ANALOG.blocks | {"l2_BN": bn}
    with pytest.raises(BrokenRule, match="of output channel 0 leaves int32"):
        replace(ANALOG, blocks=blocks).on(Machine(l1_bytes=L1, adc_scale=1))


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [(0, 0, "144 rows and 8 columns"), (287, 9, "image row 287, column 9 holds a weight")],
)
def test_analog_padding_holds_no_weights(row: int, column: int, words: str) -> None:
    data = ANALOG.blocks["l2_W"].copy()
    data[row * 32 + 3 - column // 8] |= 0x80 >> column % 8
    with pytest.raises(BrokenRule, match=words):
        replace(ANALOG, blocks=ANALOG.blocks | {"l2_W": data}).on(Machine(l1_bytes=L1))


def test_an_analog_weight_is_not_of_both_signs() -> None:
    data = ANALOG.blocks["l2_W"].copy()
    data[287 * 32 + 3] |= 0x40
    data[287 * 32 + 16 + 3] |= 0x40
    with pytest.raises(BrokenRule, match=r"image row 287, column 1 is both \+1 and -1"):
        replace(ANALOG, blocks=ANALOG.blocks | {"l2_W": data}).on(Machine(l1_bytes=L1))


@pytest.mark.parametrize(
    ("values", "words"),
    [((-1, 64), "inputs from -1 to 64 are neither"), ((-65, 0), "input -65 of channel 0")],
)
def test_analog_inputs_have_seven_bits_of_one_sign(values: tuple[int, int], words: str) -> None:
    call = replace(ANALOG, x_bytes=0)
    for channel, wrong in ((0, True), (1, False)):  # only channel 0 has weights
        machine = Machine(l1_bytes=L1)
        data = np.zeros((32, 64), np.int64)
        data[:2, channel] = values
        machine.put(0, data.astype(np.int8).view(np.uint8).reshape(-1))
        if wrong:
            with pytest.raises(BrokenRule, match=words):
                call.on(machine)
        else:
            call.on(machine)


# --- jobs ------------------------------------------------------------------------------------


def _started(machine: Machine, call: Call) -> None:
    machine.put(0, np.ones(call.x_bytes, np.uint8))
    places = {name: machine.l2(data) for name, data in call.blocks.items()}
    arguments = {n: places.get(n, 0) + v for n, v in call.arguments.items()}
    machine.start(call.name, *arguments.values(), **call.fields)


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_a_call_waits_for_the_job_before(late: bool) -> None:
    machine = Machine(l1_bytes=L1, late=late)
    _started(machine, CONV)
    machine.start("dory_cores_barrier_analog")  # the other array's
    with pytest.raises(
        BrokenRule, match="element_wise_sum: starts before the job of digital_conv_2d was waited"
    ):
        SUM.on(machine)


def test_outputs_are_there_after_the_barrier_and_not_before() -> None:
    machine = Machine(l1_bytes=L1, late=True)
    _started(machine, SUM)
    assert not machine.written[4096:4608].any()
    assert (machine.l1[4096:4608] != 1).any()
    machine.start("dory_cores_barrier_digital")
    assert machine.get(4096, 512).tolist() == [1] * 512


def test_inputs_that_change_before_the_barrier_are_seen() -> None:
    machine = Machine(l1_bytes=L1, late=True)
    _started(machine, SUM)
    machine.put(0, np.full(512, 5, np.uint8))
    machine.start("dory_cores_barrier_digital")
    assert machine.get(4096, 512).tolist() == [3] * 512


# --- DMA -------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["dig", "analog"])
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_copies_move_bytes_both_ways(side: str, late: bool) -> None:
    machine = Machine(l1_bytes=L1, late=late)
    data = np.arange(64, dtype=np.uint8)
    source, back = machine.l2(data), machine.l2(np.zeros(64, np.uint8), writable=True)
    call = f"memcpy_{side}"
    barrier = f"dory_cores_barrier_{'digital' if side == 'dig' else 'analog'}"
    machine.start(call, source, 48, 64, 0, 1)
    machine.start(barrier)
    assert np.array_equal(machine.get(48, 64), data)
    machine.start(call, back, 48, 64, 1, 1)
    if late:
        assert not np.array_equal(machine.l2_bytes[back], data)
    machine.start(barrier)
    assert np.array_equal(machine.l2_bytes[back], data)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 0, 48, 0, 1), "48 bytes are no multiple of 32: 64 would be moved"),
        ((0, 0, 0, 0, 1), "0 bytes are no multiple of 32"),
        ((0, 8, 32, 0, 1), "l1 = 8 is not a multiple of 16"),
        ((2, 0, 32, 0, 1), "l2 is not a multiple of 4"),
        ((0, L1 - 16, 32, 0, 1), f"32 bytes at l1 = {L1 - 16} do not fit L1"),
        ((32, 0, 64, 0, 1), "64 bytes at l2 do not lie in L2"),
        ((0, 0, 32, 2, 1), "direction = 2 is neither 0 nor 1"),
        ((0, 0, 32, 0, 4), "banks = 4 is not 1"),
        ((0, 0, 32, 1, 1), "32 bytes at l2 are constant"),
    ],
)
def test_broken_rules_of_copies_are_named(arguments: tuple[int, ...], words: str) -> None:
    machine = Machine(l1_bytes=L1)
    l2 = machine.l2(np.zeros(64, np.uint8))
    with pytest.raises(BrokenRule) as broken:
        machine.start("memcpy_dig", l2 + arguments[0], *arguments[1:])
    assert str(broken.value) == f"memcpy_dig: {words}" or words in str(broken.value)


def test_a_copy_to_l2_of_bytes_that_nobody_wrote_is_found() -> None:
    machine = Machine(l1_bytes=L1)
    l2 = machine.l2(np.zeros(64, np.uint8), writable=True)
    with pytest.raises(BrokenRule, match="byte 0 of L1 is read but was not written"):
        machine.start("memcpy_dig", l2, 0, 64, 1, 1)
