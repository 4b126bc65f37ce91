"""A plugin with an operator of its own, and a kernel for it."""
