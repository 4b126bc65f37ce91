"""Fused chains: which layers form them, and their rolling buffers."""
