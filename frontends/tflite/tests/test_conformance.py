"""The conformance kit on TensorFlow Lite: files are read, refused, and equal to goldens."""

from __future__ import annotations

from functools import partial

import dory_tflite
from dory_tflite.testing import random_network

from dory_core.testing import FrontendConformance, NetworkFile

[RECORD] = dory_tflite.dory_frontends()


class TestTflite(FrontendConformance):
    """Random networks; test_against_tflite_micro.py compares each operator."""

    frontend = "tflite"
    networks = tuple(
        NetworkFile(f"seed{seed}", "net.tflite", partial(random_network, seed, operations=4))
        for seed in (1, 2)
    )
    elsewhere = frozenset(one.name for one in RECORD.operators())
