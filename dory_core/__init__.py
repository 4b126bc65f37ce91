"""dory: quantised networks to C applications for microcontrollers with scratchpad memories."""

__version__ = "0.1.0"
