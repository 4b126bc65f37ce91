"""Generated C and kernels of all targets have nothing to say to programs that analyse C."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import load_plugins
from dory_core.simulate.build import INCLUDE_FOLDERS
from dory_core.testing.apps import build_app
from dory_core.testing.compilers import require_gcc
from tests.codegen.test_strict_warnings import STRICT, every_kind
from tests.nets import net, tflite_net

TARGETS = ("gap8", "stm32h7", "cortex_m55", "diana")
FOLDERS = ("src", "kernels")
# Pointers and products of sizes have 32 bits on the chips: nothing is widened there. Fields of
# words are taken with shifts of signed values, as on every compiler of these targets. Names that
# macros define are equal in some instances of a kernel (branch-clone), and are no expressions.
# Elements of tensors are signed bytes, no characters (signed-char-misuse, str34).
TIDY = (
    "-*,bugprone-*,cert-*,-bugprone-easily-swappable-parameters,-bugprone-signed-bitwise,"
    "-bugprone-implicit-widening-of-multiplication-result,-bugprone-branch-clone,"
    "-bugprone-macro-parentheses,-bugprone-narrowing-conversions,"
    "-bugprone-signed-char-misuse,-cert-str34-c"
)
# It takes functions that one macro makes, and which have one place, for one function; and shifts of
# signed values to the right, which every compiler of these targets defines, for those to the left.
NOT_CPPCHECK = ("--suppress=ctunullpointer", "--suppress=shiftTooManyBitsSigned")
# gcc's analyser takes arrays that a loop fills, such as the parameters of a channel, for empty; and
# so all vectors of the Cortex-M55, which are such arrays on this machine.
VECTORS = ("cortex_m55",)
NOT_GCC = ("-Wno-analyzer-use-of-uninitialized-value",)
# Numbers and sizes of tiles are unsigned, sizes that kernels take may be signed: all are far below
# 2^31.
UNSIGNED_TILES = {"src": ("-Wno-sign-conversion",), "kernels": ()}

TFLITE = ("tflm_hello_world", "silabs_image_example1")

every_target = pytest.mark.parametrize("target", TARGETS)
networks = pytest.mark.parametrize(
    "network",
    [
        *("nemo_resnet8", "nemo_mv2_035_96", "quantlab_mixed_conv", "quantlab_mv1_025_96_4b"),
        *TFLITE,
    ],
)


def application(network: str, target: str, folder: Path) -> Path:
    """Compile a real network, or that of every kind where there is no name."""
    if not network:
        build_app(every_kind().graph(), target, folder)
        return folder
    if network in TFLITE:
        options = CompileOptions(tflite_net(network).path, target, "tflite", folder)
        compile_network(options, load_plugins())
        return folder
    found = net(network)
    options = CompileOptions(
        found.onnx, target, found.frontend, folder, input_signed=found.input_signed
    )
    compile_network(options, load_plugins())
    return folder


def files(app: Path) -> list[str]:
    found = [p.relative_to(app).as_posix() for f in FOLDERS for p in (app / f).glob("*.c")]
    assert len(found) > 3
    return sorted(found)


def said(app: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=app, capture_output=True, text=True)
    return done.stdout + done.stderr


def installed(program: str) -> str:
    """Return where a program of the extra `test` is, beside this Python or on the PATH."""
    found = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (extra test)")
    return found


def analysed(app: Path, *more: str) -> str:
    """Return what gcc's analyser and its warnings of conversions, in kernels of signs too, say."""
    gcc = require_gcc()
    folders = [f"-I{folder}" for folder in INCLUDE_FOLDERS]
    command = [*gcc, "-std=c99", "-O1", "-fanalyzer", *STRICT, *more, *folders]
    found = ""
    for name in files(app):
        signs = UNSIGNED_TILES[name.partition("/")[0]]
        found += said(app, *command, *signs, "-c", name, "-o", "/dev/null")
    return found


@pytest.mark.slow
@every_target
def test_the_analyser_of_gcc_finds_nothing(target: str, tmp_path: Path) -> None:
    more = NOT_GCC if target in VECTORS else ()
    assert analysed(application("", target, tmp_path / "app"), *more) == ""


@pytest.mark.slow
@networks
@every_target
def test_the_analyser_of_gcc_finds_nothing_in_networks(
    network: str, target: str, tmp_path: Path
) -> None:
    more = NOT_GCC if network in TFLITE or target in VECTORS else ()
    assert analysed(application(network, target, tmp_path / "app"), *more) == ""


@pytest.mark.slow
@networks
@every_target
def test_clang_tidy_finds_nothing(network: str, target: str, tmp_path: Path) -> None:
    program = installed("clang-tidy")
    app = application(network, target, tmp_path / "app")
    folders = [f"-I{folder}" for folder in INCLUDE_FOLDERS]
    own = subprocess.run(
        [*require_gcc(), "-print-file-name=include"], capture_output=True, text=True
    ).stdout.strip()
    options = ["--", "-std=c99", *folders, "-isystem", own]
    text = "".join(
        said(app, program, "--quiet", f"--checks={TIDY}", name, *options) for name in files(app)
    )
    assert [line for line in text.splitlines() if " warning: " in line or " error: " in line] == []


@pytest.mark.slow
@networks
@every_target
def test_cppcheck_finds_nothing(network: str, target: str, tmp_path: Path) -> None:
    program = installed("cppcheck")
    app = application(network, target, tmp_path / "app")
    folders = [f"-I{folder}" for folder in INCLUDE_FOLDERS]
    asked = ("--enable=warning,portability", "--std=c99", "--quiet", *NOT_CPPCHECK)
    text = "".join(said(app, program, *asked, *folders, name) for name in files(app))
    assert text == ""
