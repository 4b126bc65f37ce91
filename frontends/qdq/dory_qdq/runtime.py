"""Sessions of onnxruntime that say nothing and fail in one line."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dory_core.api import NotSupported, ToolMissing

_LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
}
_FATAL = 4
_ERRORS = (
    "EPFail",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "NotImplemented",
    "RuntimeException",
)


def need_onnxruntime() -> None:
    """Silence onnxruntime; raise ToolMissing when it or its quantiser cannot be imported."""
    try:
        importlib.import_module("onnxruntime.quantization")
        importlib.import_module("onnxruntime").set_default_logger_severity(_FATAL)
    except ImportError as error:
        raise ToolMissing(
            f"onnxruntime cannot be imported: {error}", 'pip install "dory-qdq[quantize]"'
        ) from error


def quiet_session(
    proto: Any,
    name: str,
    *,
    level: str = "extended",
    outputs: Sequence[str] = (),
    optimised: Path | None = None,
    kept: Sequence[str] = (),
    hint: str = "export the float network again",
) -> Any:
    """Return a session of a model on the CPU.

    Args:
        level: Level of optimisation: none, basic or extended.
        outputs: Tensors to return in addition to the model's outputs.
        optimised: Path for the optimised model.
        kept: Optimisers to disable.
        name, hint: For the message.

    Raises:
        NotSupported: When onnxruntime does not take the model.
    """
    import onnxruntime
    from onnx import helper

    if outputs:
        copied = type(proto)()
        copied.CopyFrom(proto)
        there = {value.name for value in copied.graph.output}
        copied.graph.output.extend(
            helper.make_empty_tensor_value_info(output) for output in outputs if output not in there
        )
        proto = copied
    # Without VNNI, x86 processors add products of uint8 and int8 in pairs that saturate at 16 bits.
    # With wide sums, onnxruntime has no kernel for some models, such as QLinearMatMul of int8.
    for wide_sums in (True, False):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, _LEVELS[level]
        )
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.x64quantprecision", str(int(wide_sums)))
        if optimised is not None:
            options.optimized_model_filepath = str(optimised)
        try:
            with silent():
                return onnxruntime.InferenceSession(
                    proto.SerializeToString(),
                    options,
                    providers=["CPUExecutionProvider"],
                    disabled_optimizers=list(kept),
                )
        except (*runtime_errors(), RuntimeError, ValueError) as error:
            failure = error
    raise NotSupported(
        f"{name}: onnxruntime does not run it ({reason_of(failure)})", hint
    ) from failure


def runtime_errors() -> tuple[type[Exception], ...]:
    """Return the errors of onnxruntime: they have no type in common."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return tuple(getattr(state, name) for name in _ERRORS if hasattr(state, name))


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep what onnxruntime prints and logs off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def reason_of(error: BaseException) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
