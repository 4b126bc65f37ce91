"""The conformance kit on the frontend of QDQ: files are read, refused, and equal to goldens."""

from __future__ import annotations

from functools import partial

import dory_qdq
from dory_qdq.testing.networks import random_network

from dory_core.testing import FrontendConformance, NetworkFile

[RECORD] = dory_qdq.dory_frontends()


class TestQdq(FrontendConformance):
    """Random networks; test_against_onnxruntime.py compares each operator."""

    frontend = "qdq"
    networks = tuple(
        NetworkFile(f"seed{seed}", "net.onnx", partial(random_network, seed, operators=4))
        for seed in (1, 2)
    )
    elsewhere = frozenset(one.name for one in RECORD.operators())
