"""A chip and a dialect that nobody ships: what the tests of the core compile for and read.

``chip`` has the target, whose hardware and kernels are data, ``array`` an accelerator for it,
``frontend`` a frontend that reads plain integer ONNX. ``target`` is the plugin module of a toy chip
with three levels, for tests that install distributions.
"""
