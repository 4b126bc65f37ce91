"""The tile loop of one layer as data, and what it costs."""
