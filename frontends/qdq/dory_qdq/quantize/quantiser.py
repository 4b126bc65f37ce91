"""The run of onnxruntime's static quantiser."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from dory_core.api import NotSupported
from dory_qdq.quantize.choices import UINT8, Choices
from dory_qdq.quantize.preparation import FloatModel
from dory_qdq.quantize.samples import Samples
from dory_qdq.runtime import reason_of, runtime_errors, silent

_QUANTISER_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

#: How ranges follow from samples: names of onnxruntime by ours.
METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}


def quantise(model: FloatModel, samples: Samples, choices: Choices, method: str) -> Any:
    """Return the QDQ model (an onnx.ModelProto) of a float model that is ready.

    method: how ranges follow from the samples, of ``METHODS``. Raises: NotSupported when the
    quantiser gives up.
    """
    import onnx
    from onnxruntime import quantization

    signed = {UINT8: quantization.QuantType.QUInt8}.get(
        choices.activations, quantization.QuantType.QInt8
    )
    proto = onnx.ModelProto()  # the quantiser changes the one that it is given
    proto.CopyFrom(model.proto)
    with tempfile.TemporaryDirectory() as folder, silent():
        target = Path(folder) / "quantised.onnx"
        try:
            quantization.quantize_static(
                proto,
                target,
                _reader(samples),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=choices.per_channel,
                activation_type=signed,
                weight_type=quantization.QuantType.QInt8,
                calibrate_method=quantization.CalibrationMethod[METHODS[method]],
                extra_options={
                    "ActivationSymmetric": choices.symmetric,
                    "WeightSymmetric": True,
                },
            )
        except (*_QUANTISER_ERRORS, *runtime_errors()) as error:
            raise NotSupported(
                f"onnxruntime's quantiser gave up ({reason_of(error)})",
                "take --method minmax, or another version of onnxruntime",
            ) from error
        return onnx.load(str(target))


def _reader(samples: Samples) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Hands out the samples, once."""

        def __init__(self) -> None:
            self.feeds = samples.feeds()

        def get_next(self) -> Any:
            return next(self.feeds, None)

    return Reader()
