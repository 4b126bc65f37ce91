"""Applications as packages of Zephyr, Arduino and PlatformIO."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from dory_stm32h7.parts import part_of
from dory_stm32h7.toolchain import zig_flags
from stm32h7_projects import (
    FOLDERS,
    PUBLIC,
    ZIG,
    Library,
    build,
    call,
    cmake,
    toolchain_file,
)

from dory_core.testing import Plugins
from dory_core.testing.zephyr import write_zephyr_application
from dory_core.tools import read_plan


def test_zephyr_takes_the_module(plugins: Plugins, tmp_path: Path) -> None:
    """Kconfig by its own parser; the module's CMake with stand-ins for the functions of Zephyr."""
    import yaml

    app = tmp_path / "app"
    build(app, plugins, "stm32h743", form="library")
    module = yaml.safe_load((app / "zephyr/module.yml").read_text())
    assert module == {
        "name": "eye_network",
        "build": {"cmake": "zephyr", "kconfig": "zephyr/Kconfig"},
    }
    assert (app / module["build"]["kconfig"]).is_file()
    assert (app / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    user, board = tmp_path / "user", Path(sys.modules["dory_stm32h7"].__file__ or "").parent
    settings = write_zephyr_application(user, [app], board / "board/libc")
    assert settings["EYE_NETWORK_L1_SECTION"] == "DTCM"
    tools = f"-DCMAKE_TOOLCHAIN_FILE={toolchain_file(tmp_path, part_of({}))}"
    cmake(user, user / "build", tools, only_configure=True)
    commands = (user / "build/build.ninja").read_text()
    for source in (path for name in FOLDERS for path in app.glob(f"{name}/*.c")):
        assert f"{source.name}.o" in commands
    assert 'DORY_L2_SECTION=\\".noinit.dory_l2\\"' in commands
    assert "DORY_ARENAS_CACHED=1" in commands


@pytest.mark.sample(2)
def test_arduino_takes_the_library(library: Library, tmp_path: Path) -> None:
    """All files lie in one folder, found without any flag."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    app = tmp_path / "app"
    shutil.copytree(library.directory, app)
    call("make", "arduino", cwd=app)
    made = app / "build/arduino/eye_network"
    properties = dict(
        line.split("=", 1) for line in (made / "library.properties").read_text().splitlines()
    )
    required = ("version", "author", "maintainer", "sentence", "paragraph", "category", "url")
    assert all(properties[key] for key in (*required, "architectures"))
    assert properties["name"] == "eye_network" and re.fullmatch(
        r"\d+\.\d+\.\d+", properties["version"]
    )
    headers = properties["includes"].split(",")
    assert all((made / "src" / header).is_file() for header in headers)
    sketch = "".join(f"#include <{header}>\n" for header in headers)
    (tmp_path / "sketch.cpp").write_text(sketch + "void setup() { eye_stm32h7_init(); }\n")
    sources = sorted((made / "src").glob("*.c"))
    out = tmp_path / "out"
    out.mkdir()
    board = Path(sys.modules["dory_stm32h7"].__file__ or "").parent / "board/libc"
    flags = (*zig_flags(library.part.core), "-Os", "-DARDUINO=10800", f"-I{made / 'src'}")
    own = next(path for path in sources if path.name == "dory_stm32h7.c")
    assert {path.name for path in sources} >= {"network.c", "eye_layer_00.c", "eye_weights_00.c"}
    for path in (own, *(made / "src").glob("eye_*.c"), *(made / "src").glob("*_conv_*.c")):
        call(*ZIG, "cc", *flags, "-std=gnu11", f"-I{board}", "-w", "-c", path, cwd=out)
    assert not (made / "src/network.h").exists()
    call(*ZIG, "c++", *flags, "-std=gnu++14", "-c", tmp_path / "sketch.cpp", cwd=out)
    assert b".bss.dory_l1" in (out / "dory_stm32h7.o").read_bytes()


def test_platformio_finds_sources_and_headers(library: Library) -> None:
    app = library.directory
    manifest = json.loads((app / "library.json").read_text())
    assert manifest["name"] == "eye_network"
    build_ = manifest["build"]
    patterns = [f[2:-1] for f in build_["srcFilter"] if f.startswith("+")]
    chosen = {path for pattern in patterns for path in app.glob(pattern)}
    assert chosen == {path for folder in FOLDERS for path in app.glob(f"{folder}/*.c")}
    packed = manifest["export"]["include"]
    assert {"library.json", *FOLDERS, *PUBLIC} <= set(packed)
    includes = [flag[2:] for flag in build_["flags"]]
    for header in manifest["headers"]:
        assert any((app / folder / header).is_file() for folder in includes)


@pytest.mark.parametrize("name", ["library.json", "library.properties"])
def test_platformio_accepts_the_metadata(name: str, library: Library) -> None:
    """By its own schema, where it is installed."""
    manifest = pytest.importorskip("platformio.package.manifest", reason="pip install platformio")
    assert manifest
    from platformio.package.manifest.parser import ManifestParserFactory
    from platformio.package.manifest.schema import ManifestSchema

    raw = ManifestParserFactory.new_from_file(str(library.directory / name)).as_dict()
    assert ManifestSchema().load_manifest(raw)["name"] == "eye_network"


def test_platformio_packs_the_library_alone(library: Library, tmp_path: Path) -> None:
    """Neither simulation nor test vectors are published with it."""
    pack = pytest.importorskip("platformio.package.pack", reason="pip install platformio")
    made = pack.PackagePacker(str(library.directory)).pack(str(tmp_path / "eye.tar.gz"))
    with tarfile.open(made) as archive:
        files = {Path(name) for name in archive.getnames()}
    app = library.directory
    packed = (*FOLDERS, "inc", "hal/include")
    expected = {p.relative_to(app) for f in packed for p in app.glob(f"{f}/*") if p.is_file()}
    others = {Path(name) for name in ("README.md", "library.json", "library.properties")}
    assert {f for f in files if (app / f).is_file()} - {Path(".piopm")} == expected | others


def test_versions_of_tools_do_not_change_the_files(library: Library) -> None:
    """Nothing of this machine is in them."""
    for name in ("CMakeLists.txt", "library.json", "library.properties", "zephyr/Kconfig"):
        text = (library.directory / name).read_text()
        assert "@" not in text and os.fspath(library.directory) not in text
        assert read_plan(library.directory)["prefix"] in text
