"""One planner: layers in parts, tensors in blocks of every memory, and the transfers between."""
