"""Each fault planted in a correct application is found, with layer, tile and line."""

# ruff: noqa: E501 (lines of C, and tables of them)
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dory_core.errors import DoryError, UsageError, VerificationFailed
from dory_core.simulate.build import build
from dory_core.simulate.run import DMA_MODES
from dory_core.testing.sanitizers import require_sanitizer

from .mini import EXPECTED, INPUTS, LAYER, line_of, simulate, write_app

every_mode = pytest.mark.parametrize("dma", DMA_MODES)
# A lucky order of the threads hides a race from the sanitizer, on a busy machine now and then.
OFTEN = 20


def fault(app_dir: Path, dma: str = "late", sanitize: str | None = None, **options: object) -> str:
    """Run the application, which must be stopped, and return the message."""
    if sanitize is not None:
        require_sanitizer(sanitize)
    with pytest.raises(VerificationFailed) as caught:
        simulate(
            app_dir,
            layers=[LAYER],
            expected=EXPECTED[:1],
            inputs=INPUTS[:1],
            dma=dma,
            sanitize=sanitize,
            **options,  # type: ignore[arg-type]
        )
    return caught.value.message


@every_mode
def test_missing_wait_is_found_before_the_tile_is_computed(tmp_path: Path, dma: str) -> None:
    app = write_app(
        tmp_path, {"      dory_dma_wait(in);\n": "      if (t > 0) dory_dma_wait(in);\n"}
    )
    message = fault(app, dma)
    assert message.startswith("dory-sim: error: layer 3 'add3', tile 0: tile reads byte 0 of L1")
    start = line_of(app, "in = dory_dma_start(&copy);")
    assert f"network.c:{start} before the first tile" in message
    assert message.endswith(f"(network.c:{line_of(app, 'DORY_SIM_READ(x[t')})")


@every_mode
def test_input_buffer_refilled_while_it_is_read(tmp_path: Path, dma: str) -> None:
    app = write_app(
        tmp_path,
        {"copy = copy_of(x[(t + 1) & 1], l2 + (t + 1)": "copy = copy_of(x[t & 1], l2 + (t + 1)"},
    )
    assert "layer 3 'add3', tile 0: tile reads byte 0 of L1 while the transfer" in fault(app, dma)


@every_mode
def test_output_buffer_reused_before_its_store_ends(tmp_path: Path, dma: str) -> None:
    app = write_app(
        tmp_path,
        {
            "      copy = copy_of(l2 + 600 + t * TILE, y, DORY_L1_TO_L2);\n"
            "      dory_dma_wait(dory_dma_start(&copy));\n": (
                "      copy = copy_of(l2 + 600 + t * TILE, y, DORY_L1_TO_L2);\n"
                "      out = dory_dma_start(&copy);\n"
            ),
            "  dory_ticket_t in = 0;\n": "  dory_ticket_t in = 0, out = 0;\n",
            "    DORY_SIM_LAYER_END();\n": "    dory_dma_wait(out);\n    DORY_SIM_LAYER_END();\n",
        },
    )
    message = fault(app, dma)
    assert "layer 3 'add3', tile 1: tile writes byte 100 of L1 while the transfer" in message
    assert f"network.c:{line_of(app, 'out = dory_dma_start')} during tile 0" in message
    assert message.endswith(f"reads it (network.c:{line_of(app, 'DORY_SIM_WRITE(y')})")


@every_mode
def test_ticket_left_at_the_end_of_the_layer(tmp_path: Path, dma: str) -> None:
    app = write_app(
        tmp_path,
        {
            "if (t + 1 < TILES) in": "if (t + 1 < TILES || t == 11) in",
            "(t + 1) * TILE": "((t + 1) % 12) * TILE",
        },
    )
    message = fault(app, dma)
    assert "tile 11: the transfer started at network.c:" in message
    assert "was never waited for" in message
    assert message.endswith(f"(network.c:{line_of(app, 'DORY_SIM_LAYER_END')})")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("copy_of(b, bias", "copy_of(l1 + 151, bias", "destination of a transfer of 50 bytes does not lie inside L1"),
        ("copy_of(b, bias", "copy_of(l1 - 1, bias", "destination of a transfer of 50 bytes does not lie inside L1"),
        ("copy_of(b, bias", "copy_of(b, bias + 1", "source of a transfer of 50 bytes does not lie inside L2"),
        ("copy_of(x[0], l2,", "copy_of(x[0], l2 + 1156,", "source of a transfer of 50 bytes does not lie inside L2"),
        ("copy_of(x[0], l2,", "copy_of(x[0], l1 + 50,", "does not lie inside L2"),
        ("copy_of(x[0], l2, DORY_L2_TO_L1", "copy_of(x[0], l2, DORY_L1_TO_L2", "does not lie inside L2"),
        ("copy_of(x[0], l2, DORY_L2_TO_L1", "copy_of(x[0], l2, 7", "unknown direction 7"),
        ("copy.n1 = 5;", "copy.n1 = 0;", "empty transfer: 1 planes of 0 rows of 10 elements"),
        ("copy.dst_s1 = copy.src_s1 = TILE / 5;", "copy.src_s1 = TILE / 5; copy.dst_s1 = 9;", "its rows overlap"),
    ],
)  # fmt: skip
def test_wrong_transfer_is_refused_at_its_start(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    message = fault(write_app(tmp_path, {old: new}), "early")
    assert message.startswith("dory-sim: error: layer 3 'add3': ")
    assert reason in message
    assert "(network.c:" in message


def test_strided_rows_that_end_outside_the_arena(tmp_path: Path) -> None:
    app = write_app(
        tmp_path, {"copy.dst_s1 = copy.src_s1 = TILE / 5;": "copy.dst_s1 = 41; copy.src_s1 = 10;"}
    )
    assert "destination of a transfer of 174 bytes does not lie inside L1" in fault(app)


@every_mode
def test_two_transfers_into_the_same_bytes(tmp_path: Path, dma: str) -> None:
    app = write_app(
        tmp_path,
        {
            "    in = dory_dma_start(&copy);\n  }": (
                "    in = dory_dma_start(&copy);\n    copy.dst = l1 + 49;\n"
                "    dory_dma_wait(dory_dma_start(&copy));\n  }"
            )
        },
    )
    message = fault(app, dma)
    assert "transfer writes byte 49 of L1 while the transfer started at network.c:" in message
    assert "writes it" in message


def test_interleaved_rows_of_two_transfers_are_no_conflict(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {
            "    in = dory_dma_start(&copy);\n  }": (
                "    copy.n0 = 5;\n    in = dory_dma_start(&copy);\n"
                "    copy.dst = l1 + 5;\n    copy.src = l2 + 5;\n"
                "    dory_dma_wait(dory_dma_start(&copy));\n  }"
            )
        },
    )
    result = simulate(app, layers=[LAYER], expected=EXPECTED[:1], inputs=INPUTS[:1], dma="late")
    assert result.exact


@every_mode
def test_tile_reads_l1_that_nothing_wrote(tmp_path: Path, dma: str) -> None:
    app = write_app(
        tmp_path, {"copy.n1 = 5;": "copy.n1 = dst == (void *)0 || dir ? 5 : src == bias ? 4 : 5;"}
    )
    message = fault(app, dma)
    assert (
        "layer 3 'add3', tile 0: tile reads bytes of L1 that nothing wrote: bytes 190..199"
        in message
    )


def test_store_of_l1_that_nothing_wrote(tmp_path: Path) -> None:
    shorter = {
        "DORY_SIM_WRITE(y, TILE)": "DORY_SIM_WRITE(y, TILE - 1)",
        "i < TILE;": "i < TILE - 1;",
    }
    message = fault(write_app(tmp_path, shorter))
    assert "tile 0: transfer reads L1 bytes 149..149 that nothing wrote (network.c:" in message


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ("DORY_SIM_WRITE(b, TILE)", "writes byte 150 of L1, which it reads"),
        ("DORY_SIM_WRITE(y, TILE + 1)", "writes byte 150 of L1, which it reads"),
        ("DORY_SIM_WRITE(b + 49, 1); DORY_SIM_WRITE(y, TILE)", "writes byte 199 of L1, which it reads"),
        ("DORY_SIM_WRITE(y, TILE); DORY_SIM_WRITE(y + 46, 4)", "writes byte 146 of L1, which it also writes as another buffer"),
    ],
)  # fmt: skip
def test_a_tile_writes_over_what_it_reads_or_writes(
    marks: str, message: str, tmp_path: Path
) -> None:
    """Although the values may be right: in which order a kernel reads and writes is its own matter."""
    found = fault(write_app(tmp_path, {"DORY_SIM_WRITE(y, TILE)": marks}))
    assert f"layer 3 'add3', tile 0: tile {message}" in found


def test_sums_that_a_tile_adds_to_are_read_and_written(tmp_path: Path) -> None:
    again = "if (t > 0) { DORY_SIM_SUMS(y, TILE); } DORY_SIM_WRITE(y, TILE)"
    app = write_app(tmp_path / "right", {"DORY_SIM_WRITE(y, TILE)": again})
    assert simulate(app, layers=[LAYER], expected=EXPECTED, inputs=INPUTS).exact
    early = "DORY_SIM_SUMS(y, TILE); DORY_SIM_WRITE(y, TILE)"
    message = fault(write_app(tmp_path / "early", {"DORY_SIM_WRITE(y, TILE)": early}))
    assert "tile 0: tile reads bytes of L1 that nothing wrote" in message


def test_load_of_l2_that_nothing_wrote(tmp_path: Path) -> None:
    message = fault(
        write_app(tmp_path, {"DORY_SIM_L2_DEFINE(l2, 600)": "DORY_SIM_L2_DEFINE(l2, 140)"})
    )
    assert "layer 3 'add3', tile 0: transfer reads L2 bytes 140..149 that nothing wrote" in message


def test_load_of_a_dead_block(tmp_path: Path) -> None:
    message = fault(
        write_app(tmp_path, {"DORY_SIM_LAYER(3,": "DORY_SIM_L2_DEAD(l2, 10);\nDORY_SIM_LAYER(3,"})
    )
    assert "transfer reads L2 bytes 0..9 that nothing wrote" in message


def test_second_run_does_not_see_the_first(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {
            "    memcpy(l2, io->input, 600);\n    DORY_SIM_L2_DEFINE(l2, 600);": (
                "    static int once;\n    if (once++ == 0) {\n      memcpy(l2, io->input, 600);\n"
                "      DORY_SIM_L2_DEFINE(l2, 600);\n    }"
            )
        },
    )
    assert "L2 bytes 0..9 that nothing wrote" in fault(app, repeat=2)


def test_layer_output_that_is_not_complete(tmp_path: Path) -> None:
    app = write_app(tmp_path, {"t < TILES; ++t": "t < 11; ++t", "t + 1 < TILES": "t + 1 < 11"})
    assert "tile 10: tile reads bytes of L2 that nothing wrote: bytes 1150..1199" in fault(app)


def test_ticket_waited_for_twice(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {"      dory_dma_wait(in);\n": "      dory_dma_wait(in);\n      dory_dma_wait(in);\n"},
    )
    assert "layer 3 'add3': the transfer of ticket" in fault(app)


def test_only_core_0_starts_transfers(tmp_path: Path) -> None:
    # A barrier keeps the mark of the layer, by core 0, in front of the transfer.
    fill = "  dory_barrier();\n  if (core == 1) {\n    copy = copy_of(b, bias, DORY_L2_TO_L1);\n    dory_dma_wait(dory_dma_start(&copy));\n  }\n"
    change = {"  for (int t = 0;": fill + "  dory_barrier();\n  for (int t = 0;"}
    app = write_app(tmp_path / "forbidden", change)
    assert "core 1 starts a transfer; only core 0 may" in fault(app)
    app = write_app(
        tmp_path / "allowed",
        change,
        {"#define DORY_CORES 4": "#define DORY_CORES 4\n#define DORY_DMA_EACH_CORE 1"},
    )
    assert simulate(app, layers=[LAYER], expected=EXPECTED).exact


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("DORY_DMA_ALIGN 4", "rows of a transfer do not start on multiples of 4 bytes"),
        ("DORY_DMA_MAX_BYTES 49", "transfer of 50 bytes, more than the limit of 49"),
        ("DORY_DMA_DIMENSIONS 1", "transfer of 2 dimensions, the DMA has 1"),
        ("DORY_DMA_NONE 1", "transfer of 50 bytes, but there is no DMA between L2 and L1"),
    ],
)
def test_limits_of_the_dma(tmp_path: Path, limit: str, reason: str) -> None:
    app = write_app(
        tmp_path, header={"#define DORY_CORES 4": f"#define DORY_CORES 4\n#define {limit}"}
    )
    assert reason in fault(app)


ALIGNED_2 = {"#define DORY_CORES 4": "#define DORY_CORES 4\n#define DORY_DMA_ALIGN 2"}


def test_length_of_rows_that_the_dma_does_not_move(tmp_path: Path) -> None:
    app = write_app(tmp_path / "even", header=ALIGNED_2)
    assert simulate(app, layers=[LAYER], expected=EXPECTED).exact
    app = write_app(tmp_path / "odd", {"copy.n0 = TILE / 5;": "copy.n0 = 9;"}, ALIGNED_2)
    message = fault(app)
    assert (
        "layer 3 'add3': rows of a transfer have 9 bytes, no multiple of 2 (network.c:" in message
    )


@every_mode
def test_a_thousand_copies_share_a_ticket(tmp_path: Path, dma: str) -> None:
    """More than tickets may be open; each byte of 1000 is a copy of its own."""
    layer = "  dory_barrier(); /* begins */\n  if (core == 0) {\n"
    joined = """    for (int i = 0; i < 1000; ++i) {
      copy = (dory_copy_t){l1 + 200 + i, l2 + i % 600, 1, 1, 1, 0, 0, 0, 0, 1, DORY_L2_TO_L1};
      in = dory_dma_join(in, &copy);
    }
    dory_dma_wait(in);
    DORY_SIM_READ(l1 + 200, 1000);
    for (int i = 0; i < 1000; ++i) if (l1[200 + i] != l2[i % 600]) return -9;
"""
    size = {"#define DORY_L1_SIZE 200": "#define DORY_L1_SIZE 1200"}
    app = write_app(tmp_path / "all", {layer: layer + joined}, size)
    assert simulate(app, layers=[LAYER], expected=EXPECTED, dma=dma).exact
    lost = joined.replace("    dory_dma_wait(in);\n", "")
    app = write_app(tmp_path / "lost", {layer: layer + lost}, size)
    assert "tile reads byte 200 of L1 while the transfer started at" in fault(app, dma)


@every_mode
def test_padding_may_be_moved_and_is_not_read(tmp_path: Path, dma: str) -> None:
    """Three bytes of a block of four are written: the DMA moves all, kernels have three."""
    moved = """    memset(l2 + 1200, 9, 3);
    DORY_SIM_L2_DEFINE(l2 + 1200, 3);
    copy = (dory_copy_t){l1 + 100, l2 + 1200, 4, 1, 1, 0, 0, 0, 0, 1, DORY_L2_TO_L1};
    dory_dma_wait(dory_dma_start(&copy));
    DORY_SIM_READ(l1 + 100, BYTES);
"""
    layer = "  dory_barrier(); /* begins */\n  if (core == 0) {\n"
    for count in (3, 4):
        app = write_app(
            tmp_path / str(count), {layer: layer + moved.replace("BYTES", str(count))}, ALIGNED_2
        )
        if count == 3:
            assert simulate(app, layers=[LAYER], expected=EXPECTED, dma=dma).exact
        else:
            assert "tile reads bytes of L1 that nothing wrote: bytes 103..103" in fault(app, dma)
    unaligned = write_app(tmp_path / "any", {layer: layer + moved.replace("BYTES", "3")})
    assert "transfer reads L2 bytes 1203..1203 that nothing wrote" in fault(unaligned, dma)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("y[100 + 8] = 1;", "core 2 touches L1 9 bytes behind its end"),
        ("(l1 - 4096)[0] = 1;", "bytes before its start"),
        ("(l1 - 3)[0] = 1;", "something wrote 3 bytes before the start of L1"),
        ("l2[1205 + 1] = 1;", "something wrote 2 bytes behind the end of L2"),
        ("l2[1216] = 1;", "core 2 touches L2 12 bytes behind its end"),
    ],
)
def test_kernel_leaves_its_arena(tmp_path: Path, statement: str, reason: str) -> None:
    app = write_app(
        tmp_path,
        {
            "    add(x[t & 1], b, y);": f"    add(x[t & 1], b, y);\n    if (core == 2 && t == 4) {statement}"
        },
    )
    message = fault(app)
    assert message.startswith("dory-sim: error: layer 3 'add3', tile ")
    assert reason in message
    if "touches" in reason:
        assert "tile 4: " in message


@every_mode
def test_core_that_touches_an_l1_of_devices_alone(tmp_path: Path, dma: str) -> None:
    hide = '#include "dory_sim.h"\n__attribute__((constructor)) static void hide(void) { dory_sim_hide_l1(); }\n'
    call, one = "    add(x[t & 1], b, y);", {"#define DORY_CORES 4": "#define DORY_CORES 1"}
    sources = {"hal/host/hide.c": hide}
    app = write_app(tmp_path / "core", {}, one, sources)
    assert "tile 0: core 0 touches byte " in fault(app, dma)
    assert fault(app, dma).endswith(" of L1, which only transfers and devices reach")
    device = f"    dory_sim_l1_begin();\n{call}\n    dory_sim_l1_end();"
    include = '#include "dory_hal.h"\n'
    change = {call: device, include: f'{include}#include "dory_sim.h"\n'}
    app = write_app(tmp_path / "device", change, one, sources)
    assert simulate(app, layers=[LAYER], expected=EXPECTED[:1], inputs=INPUTS[:1], dma=dma).exact
    app = write_app(tmp_path / "team", {}, {}, sources)
    assert "L1 can be hidden from one core, not from 4" in fault(app, dma)


def test_core_that_misses_a_barrier_is_a_deadlock(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {"    dory_barrier(); /* before */": "    if (core != 2 || t != 5) dory_barrier();"},
    )
    message = fault(app)
    assert (
        "layer 3 'add3', tile 11: deadlock at a barrier: waiting are cores 0 (network.c:" in message
    )
    assert "missing are cores 2 (ended)" in message


def test_core_that_never_arrives_is_a_deadlock(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {
            "    dory_barrier(); /* before */": (
                "    if (core == 3 && t == 2) {\n      volatile int stop = 0;\n"
                "      while (!stop) usleep(1000);\n    }\n    dory_barrier();"
            ),
            "#include <string.h>": "#define _DEFAULT_SOURCE\n#include <unistd.h>\n#include <string.h>",
        },
    )
    result = subprocess.run(
        [build(app), "--timeout", "1"],
        cwd=app,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert result.returncode == 70
    assert "tile 1: deadlock at a barrier: waiting are cores 0 " in result.stderr
    assert "missing are cores 3 " in result.stderr


def test_program_that_never_ends_is_stopped(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {
            "  const uint32_t core = dory_core_id();": "  const uint32_t core = dory_core_id();\n  for (volatile int i = 1; i;) {}"
        },
    )
    assert "did not end within 1 s" in fault(app, timeout_s=1)


def test_error_code_of_the_network(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {
            "  const uint32_t core = dory_core_id();": "  const uint32_t core = dory_core_id();\n  if (io->l1_size < 4096) return DORY_EL1;"
        },
    )
    assert fault(app) == "dory-sim: error: before the first layer: dory_network_run returns -2"


def test_output_that_is_not_handed_out(tmp_path: Path) -> None:
    app = write_app(
        tmp_path, {"memcpy(io->output, l2 + 600, 600)": "memcpy(io->output, l2 + 600, 599)"}
    )
    assert "network's output is not that of layer 3" in fault(app, output_layers=[3])


@pytest.mark.sample(3)
@pytest.mark.sanitizer
@pytest.mark.parametrize(
    "removed", ["    dory_barrier(); /* before */\n", "    dory_barrier(); /* after */\n"]
)
@every_mode
def test_race_between_cores_is_seen_by_thread_sanitizer(
    tmp_path: Path, removed: str, dma: str
) -> None:
    message = fault(write_app(tmp_path, {removed: ""}), dma, "thread", repeat=OFTEN)
    # without the first barrier, another core may be ahead of the announcement of layer or tile
    assert "layer 3 'add3'" in message or "before the first layer" in message
    assert "ThreadSanitizer: data race" in message


@pytest.mark.sanitizer
def test_race_of_a_kernel_with_a_transfer_is_seen_by_thread_sanitizer(tmp_path: Path) -> None:
    """Without any mark of the generated code: the copy itself races with another core's read."""
    app = write_app(
        tmp_path,
        {
            "copy = copy_of(x[(t + 1) & 1], l2 + (t + 1)": "copy = copy_of(x[t & 1], l2 + (t + 1)",
            "      DORY_SIM_READ(x[t & 1], TILE);\n": "",
            "    dory_barrier(); /* before */\n": "    dory_barrier();\n    if (core == 0) dory_dma_wait(in);\n",
            "      dory_dma_wait(in);\n": "",
            "if (t + 1 < TILES) in": "if (t + 1 <= TILES) in",
            "l2 + (t + 1) * TILE": "l2 + t * TILE",
            "    in = dory_dma_start(&copy);\n  }": "  }",
        },
    )
    message = fault(app, "late", "thread", repeat=OFTEN)
    assert re.search(r"layer 3 'add3'(, tile \d+)?: found by the sanitizer", message)
    assert "ThreadSanitizer: data race" in message


@pytest.mark.sanitizer
def test_address_sanitizer_names_the_layer(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {
            "    add(x[t & 1], b, y);": "    uint8_t local[8] = {0};\n    add(x[t & 1], b, y);\n    local[(uint32_t)t + core] = 1;\n    if (((volatile uint8_t *)local)[7] == 9) return -9;"
        },
    )
    message = fault(app, "early", "address,undefined")
    assert "layer 3 'add3', tile 8" in message or "layer 3 'add3', tile 5" in message
    assert "AddressSanitizer" in message or "runtime error" in message


@pytest.mark.sanitizer
def test_undefined_behaviour_names_the_layer(tmp_path: Path) -> None:
    app = write_app(
        tmp_path,
        {
            "    add(x[t & 1], b, y);": "    add(x[t & 1], b, y);\n    volatile int v = 2147483640;\n    v = v + t;"
        },
    )
    message = fault(app, "early", "undefined")
    assert message.startswith("dory-sim: error: layer 3 'add3', tile 8: found by the sanitizer")
    assert "runtime error: signed integer overflow" in message


def test_warning_in_a_source_is_an_error_of_dory(tmp_path: Path) -> None:
    app = write_app(tmp_path, sources={"src/odd.c": "int odd(int x) { int y; return x; }\n"})
    with pytest.raises(DoryError, match=r"compiling src/odd.c with .* fails\n.*odd\.c.*") as caught:
        simulate(app, layers=[LAYER], expected=EXPECTED)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"dma": "never"},
        {"repeat": 0},
        {"seed": -1},
        {"sanitize": "thread,address"},
        {"sanitize": "x"},
    ],
)
def test_wrong_arguments_are_usage_errors(tmp_path: Path, arguments: dict[str, object]) -> None:
    app = write_app(tmp_path)
    with pytest.raises(UsageError):
        simulate(app, layers=[LAYER], expected=EXPECTED, **arguments)  # type: ignore[arg-type]


def test_directory_without_sources_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no application"):
        simulate(tmp_path, layers=[LAYER], expected=EXPECTED)


STORE = "copy = copy_of(l2 + 600 + t * TILE, y, DORY_L1_TO_L2);\n      dory_dma_wait(dory_dma_start(&copy));"


@every_mode
@pytest.mark.parametrize(
    ("store", "byte"),
    [
        (STORE.replace("600", "599"), 599),  # the last byte of the input
        (f"{STORE} dory_dma_wait(dory_dma_start(&copy));", 600),  # again: all values are right
        (STORE.replace("t * TILE", "t * (TILE - 1)"), 649),  # into the tile before
    ],
    ids=["its neighbour", "twice", "overlap"],
)
def test_store_into_a_live_tensor_of_l2_is_found(
    store: str, byte: int, dma: str, tmp_path: Path
) -> None:
    message = fault(write_app(tmp_path, {STORE: store}), dma)
    assert f"transfer writes byte {byte} of L2, which holds a live tensor" in message


@every_mode
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("b[0] = 99;", "byte 150 of L1, which holds data of others"),
        ("y[50] = 99;", "byte 150 of L1, which holds data of others"),
        ("x[t & 1][7] ^= 1;", "byte 7 of L1, which holds data of others"),
        ("l1[200 - 1] ^= 1;", "byte 199 of L1, which holds data of others"),
        ("l2[599] ^= 1;", "byte 599 of L2, which holds data of others"),
        ("l2[1200] = 1;", "byte 1200 of L2, which belongs to no buffer in use"),
    ],
)
def test_kernel_that_writes_what_it_does_not_own(
    tmp_path: Path, statement: str, reason: str, dma: str
) -> None:
    """Each value that is compared may be right: the byte is written behind its last use."""
    call = "    add(x[t & 1], b, y);"
    change = f"{call}\n    if (core == 2 && t == 10) {statement}"
    message = fault(write_app(tmp_path, {call: change}), dma)
    assert message.startswith("dory-sim: error: layer 3 'add3', tile 1")
    assert f"something wrote {reason}" in message


# A kernel whose cores meet in each tile, as those of recurrent layers do.
MEETING_KERNEL = {
    "    DORY_SIM_TILE(t, DORY_READS(b, TILE));\n": "",
    "      DORY_SIM_READ(x[t & 1], TILE);\n      DORY_SIM_WRITE(y, TILE);\n": "",
    "    add(x[t & 1], b, y);": (
        "    DORY_SIM_TILE(t, DORY_READS(x[t & 1], TILE), DORY_READS(b, TILE),"
        " DORY_WRITES(y, TILE));\n"
        "    for (int n = 0; n < 4; ++n) {\n"
        "      memset(y + 10 * core, n, 10);\n"
        "      dory_barrier();\n"
        "    }\n"
        "    add(x[t & 1], b, y);"
    ),
}


@every_mode
def test_kernel_whose_cores_meet_while_it_writes(tmp_path: Path, dma: str) -> None:
    app = write_app(tmp_path, MEETING_KERNEL)
    for _ in range(OFTEN):
        simulate(app, layers=[LAYER], expected=EXPECTED, inputs=INPUTS, dma=dma)


@every_mode
def test_kernel_whose_cores_meet_writes_what_it_does_not_own(tmp_path: Path, dma: str) -> None:
    planted = "if (core == 2 && t == 10 && n == 2) b[7] ^= 1;\n      dory_barrier();\n    }\n"
    app = write_app(tmp_path, MEETING_KERNEL)
    source = app / "src/network.c"
    source.write_text(
        source.read_text().replace("dory_barrier();\n    }\n    add", planted + "    add")
    )
    assert "something wrote byte 157 of L1" in fault(app, dma)


# Two buffers of the output, in turn; core 0 comes to each barrier before the others.
SHARED_TILES = {
    "    DORY_SIM_TILE(t, DORY_READS(b, TILE));\n": "",
    "      DORY_SIM_READ(x[t & 1], TILE);\n      DORY_SIM_WRITE(y, TILE);\n": "",
    "    dory_barrier(); /* before */\n": (
        "    for (volatile int wait = core ? 20000 : 0; wait > 0;) wait -= 1;\n"
        "    dory_barrier();\n"
    ),
    "    add(x[t & 1], b, y);": (
        "    uint8_t *const out = y + 100 * (t & 1);\n"
        "    DORY_SIM_TILE(t, DORY_READS(x[t & 1], TILE), DORY_READS(b, TILE),"
        " DORY_WRITES(out, TILE));\n"
        "    add(x[t & 1], b, out);"
    ),
    "copy_of(l2 + 600 + t * TILE, y, ": "copy_of(l2 + 600 + t * TILE, y + 100 * (t & 1), ",
}


@every_mode
def test_cores_that_compute_before_core_0_declares_the_tile(tmp_path: Path, dma: str) -> None:
    """They leave the barrier first, and write into another buffer than in the tile before."""
    app = write_app(tmp_path, SHARED_TILES, {"DORY_L1_SIZE 200": "DORY_L1_SIZE 250"})
    simulate(app, layers=[LAYER], expected=EXPECTED, inputs=INPUTS, dma=dma, repeat=OFTEN)


@every_mode
def test_shared_tile_that_writes_what_it_does_not_own(tmp_path: Path, dma: str) -> None:
    planted = dict(SHARED_TILES)
    planted["    add(x[t & 1], b, y);"] += "\n    if (core == 2 && t == 10) out[50] ^= 1;"
    app = write_app(tmp_path, planted, {"DORY_L1_SIZE 200": "DORY_L1_SIZE 250"})
    message = fault(app, dma)
    assert message.startswith("dory-sim: error: layer 3 'add3', tile 10: ")
    assert "something wrote byte 150 of L1, which holds data of others" in message
