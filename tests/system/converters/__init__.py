"""Architectures of today, written by today's converters: Keras to TFLite, torch to ONNX.

The weights are random, so that no file is needed. `make test-converters` runs the tests with the
newest TensorFlow and torch; `python -m tests.system.converters DIRECTORY` writes the files.
"""

from __future__ import annotations

import contextlib
import importlib

# The compiler of torch crashes where TensorFlow was imported before it.
with contextlib.suppress(ImportError):
    importlib.import_module("triton")
