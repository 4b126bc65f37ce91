"""Tiling: which tile of a layer is computed at a time, on which kernel, in which order."""
