"""Kernels of CMSIS-NN: what targets with a Cortex-M share. A library, not a target."""
