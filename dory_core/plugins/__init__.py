"""Finding, checking and asking plugins."""
