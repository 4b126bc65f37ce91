"""Writing small .tflite files, random ones too, for tests and examples.

builder = TfliteBuilder()
x = builder.input((1, 8, 8, 3), scale=0.02, zero_point=-5)
y = builder.tensor((1, 8, 8, 3), scale=1 / 256, zero_point=-128)
builder.operator("LOGISTIC", [x], [y])
data = builder.build([y])
"""

from dory_tflite.testing.builder import TfliteBuilder
from dory_tflite.testing.networks import (
    MORE_OPERATIONS,
    OPERATIONS,
    OTHERS,
    WORDS,
    random_network,
)
from dory_tflite.testing.sequences import lstm_network

__all__ = [
    "MORE_OPERATIONS",
    "OPERATIONS",
    "OTHERS",
    "WORDS",
    "TfliteBuilder",
    "lstm_network",
    "random_network",
]
