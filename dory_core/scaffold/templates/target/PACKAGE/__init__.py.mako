"""dory target: ${n.name}."""
