"""Tiles of a layer as data: buffers in L1, loops over tiles, the chosen tile."""
