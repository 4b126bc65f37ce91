"""Where CMSIS-NN lies, and which of its files a function needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from dory_cmsis_nn.library import CmsisNn, find_cmsis_nn
from dory_cmsis_nn.testing import COMPLETE, fake_library

from dory_core.api import UsageError


@pytest.mark.parametrize(
    "folder",
    [
        *("", "NN", "CMSIS/NN", "CMSIS-NN", "Drivers/CMSIS/NN"),
        "Middlewares/Third_Party/ARM_CMSIS/CMSIS/NN",
        *("6.0.0", "CMSIS-NN/7.0.0", "ARM/CMSIS-NN/7.0.0", "Packs/ARM/CMSIS-NN/7.0.0"),
    ],
)
def test_library_is_found_in_checkouts_packages_and_packs(folder: str, tmp_path: Path) -> None:
    root = fake_library(tmp_path / "sdk" / folder)
    assert find_cmsis_nn(tmp_path / "sdk").root.resolve() == root.resolve()


def test_newest_release_of_a_pack_is_taken(tmp_path: Path) -> None:
    for version in ("4.1.0", "10.0.0", "7.0.0"):
        fake_library(tmp_path / "ARM/CMSIS-NN" / version)
    assert find_cmsis_nn(tmp_path).root.name == "10.0.0"


def test_old_library_of_a_package_does_not_hide_a_newer_one(tmp_path: Path) -> None:
    fake_library(tmp_path / "Drivers/CMSIS/NN", "arm_convolve_s8")
    header = tmp_path / "Drivers/CMSIS/NN/Include/arm_nnfunctions.h"
    header.write_bytes(b"/* \xa9 2018 */ void arm_convolve_HWC_q7_fast(void);")
    with pytest.raises(UsageError, match="too old"):
        find_cmsis_nn(tmp_path / "Drivers/CMSIS")
    newer = fake_library(tmp_path / "CMSIS-NN" / "7.0.0")
    assert find_cmsis_nn(tmp_path).root == newer


def test_missing_and_old_libraries_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need its sources") as none:
        find_cmsis_nn(None)
    assert "CMSIS_NN_PATH" in (none.value.hint or "")
    with pytest.raises(UsageError, match="there is no CMSIS-NN in"):
        find_cmsis_nn(tmp_path)
    fake_library(tmp_path / "NN", "arm_convolve_s8 arm_nn_mat_mult_nt_t_s8_s32")
    with pytest.raises(UsageError, match="too old: it has no arm_fully_connected_per_channel_s8"):
        find_cmsis_nn(tmp_path)


def test_sources_follow_calls_and_stay_untouched(tmp_path: Path) -> None:
    root = fake_library(tmp_path, '#include "Internal/a.h"\n' + COMPLETE)
    (root / "Include" / "Internal").mkdir()
    (root / "Include" / "Internal" / "a.h").write_text("/* a */\n")
    first = "void arm_max_pool_s8(void)\n{\n  arm_helper(); /* arm_other */\n}\n"
    (root / "Source" / "arm_max_pool_s8.c").write_text(first)
    (root / "Source" / "helpers.c").write_text("int arm_helper(void)\n{\n  return 0;\n}\n")
    (root / "Source" / "arm_other.c").write_text("int arm_other(void)\n{\n  return 1;\n}\n")
    files = {
        f.path: f.content
        for f in CmsisNn(root).application_files("arm_max_pool_s8", "arm_max_pool_s8", False)
    }
    external = "kernels/external"
    assert files[f"{external}/cmsis-nn/Source/arm_max_pool_s8.c"] == first
    assert f"{external}/cmsis-nn/Source/helpers.c" in files
    assert f"{external}/cmsis-nn/Source/arm_other.c" not in files
    assert f"{external}/Internal/a.h" in files
    wrapper = str(files[f"{external}/helpers.c"]).split("\n")
    assert wrapper[0] == '#include "dory_cmsis_nn_requantize.h"'
    assert '#include "cmsis-nn/Source/helpers.c"' in wrapper
