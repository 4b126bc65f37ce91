"""Architectures of today, written by today's converters: Keras to TFLite, torch to ONNX.

The weights are random, so that no file is needed. `make test-converters` runs the tests with the
newest TensorFlow and torch; `python -m tests.system.converters DIRECTORY` writes the files.
"""
