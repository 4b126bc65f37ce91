"""The C files that accompany generated code: driver header, functional model, HAL of the chip."""

from __future__ import annotations

from pathlib import Path

from dory_core.api import OutputFile

__all__ = ["driver_files", "hal_files", "model_files"]

_HERE = Path(__file__).parent
_DRIVER = ("dory_diana_driver.h",)
_MODEL = (
    "dory_diana_model.h",
    "dory_diana_job.c",
    "dory_diana_digital.c",
    "dory_diana_analog.c",
    "dory_diana_memcpy.c",
    "dory_diana_sim.c",
)
_HAL = ("dory_hal_impl.h", "dory_diana_hal.h", "dory_diana_dma.c")

_CONFIG = """\
/* The chip that the functional model stands in for. */
#ifndef DORY_DIANA_CONFIG_H
#define DORY_DIANA_CONFIG_H

#define DORY_DIANA_ADC_SCALE {adc_scale} /* accumulators per step of the analog array's converter */

#endif
"""


def driver_files(folder: str = "kernels") -> tuple[OutputFile, ...]:
    """Return the header of the driver library, which generated code and the HAL include."""
    return _files("driver", _DRIVER, folder)


def model_files(adc_scale: int, folder: str = "hal/host") -> tuple[OutputFile, ...]:
    """Return the functional model of the driver library, only for the host simulation.

    adc_scale: accumulators per step of the analog array's converter, at least 1, else ValueError.
    """
    if adc_scale < 1:
        raise ValueError(f"adc_scale = {adc_scale} is not positive")
    config = OutputFile(f"{folder}/dory_diana_config.h", _CONFIG.format(adc_scale=adc_scale))
    return (config, *_files("model", _MODEL, folder))


def hal_files(folder: str = "hal/diana") -> tuple[OutputFile, ...]:
    """Return the HAL of the chip: transfers by the driver library's DMA, the cycle counter."""
    return _files("hal", _HAL, folder)


def _files(package_folder: str, names: tuple[str, ...], folder: str) -> tuple[OutputFile, ...]:
    return tuple(
        OutputFile.from_package(_HERE / package_folder / name, f"{folder}/{name}") for name in names
    )
