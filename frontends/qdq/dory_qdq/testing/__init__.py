"""For tests: random quantised networks, and onnxruntime as their reference. Needs onnxruntime."""

from dory_qdq.testing.builder import Builder
from dory_qdq.testing.mixed import mixed_network
from dory_qdq.testing.networks import MORE_OPERATORS, OPERATORS, random_network
from dory_qdq.testing.qoperator import as_qoperator
from dory_qdq.testing.reference import Inference, infer, write_golden

__all__ = [
    "MORE_OPERATORS",
    "OPERATORS",
    "Builder",
    "Inference",
    "as_qoperator",
    "infer",
    "mixed_network",
    "random_network",
    "write_golden",
]
