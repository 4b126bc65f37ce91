"""A decision as a sequence of parts, with the blocks that each one needs."""
