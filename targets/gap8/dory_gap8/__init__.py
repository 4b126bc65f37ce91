"""The GAP8 target of dory: memories, kernels and costs of GreenWaves' eight-core cluster."""
