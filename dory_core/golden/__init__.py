"""Inputs and expected values of networks: goldens, test vectors, inputs that reach extremes."""
