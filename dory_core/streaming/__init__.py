"""Networks that do not fit into L2: parts, streamed constants, activations in L3."""
