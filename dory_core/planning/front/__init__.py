"""Plans of which none is better in bytes of L2 and in cycles, and what binds a plan."""
