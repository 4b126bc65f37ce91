"""A target of dory: chips with a Cortex-M55 or M85 and its vector extension, Helium (MVE)."""
