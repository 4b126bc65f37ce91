"""Estimates: the cycles that a layer's schedule takes on the cores and on the links."""
