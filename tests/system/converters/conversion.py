"""Networks of Keras and torch become files, as their users make them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_SAMPLES = 8


def write_tflite(model: Any, path: Path, activation_bits: int = 8) -> None:
    """Write a Keras model as .tflite: integers alone, calibrated with random samples."""
    import tensorflow as tf

    shapes = {each.name: tuple(each.shape) for each in model.inputs}

    def samples() -> Iterator[dict[str, Any]]:
        generator = np.random.default_rng(0)
        for _ in range(_SAMPLES):
            yield {n: generator.normal(size=s).astype(np.float32) for n, s in shapes.items()}

    operators = tf.lite.OpsSet.TFLITE_BUILTINS_INT8
    kind = tf.int8
    if activation_bits == 16:
        operators = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        kind = tf.int16
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = samples
    converter.target_spec.supported_ops = [operators]
    converter.inference_input_type = converter.inference_output_type = kind
    path.write_bytes(converter.convert())


def write_qdq(model: Any, shape: tuple[int, ...], path: Path) -> None:
    """Write a torch module as ONNX, and `dory quantize` of it as ``path``."""
    import torch

    import dory_core.tools as dory

    model = model.eval()
    floats = path.with_name(f"{path.stem}_float.onnx")
    sample = torch.zeros(shape)
    torch.onnx.export(model, (sample,), str(floats), input_names=["x"])
    samples = np.random.default_rng(0).normal(size=(_SAMPLES, *shape[1:])).astype(np.float32)
    dory.quantize(floats, {"x": samples}, output=path)
