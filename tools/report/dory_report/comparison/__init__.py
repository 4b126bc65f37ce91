"""One network planned for several targets, options and memory sizes, side by side."""
