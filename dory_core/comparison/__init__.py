"""One network planned for several targets, options and memory sizes, side by side."""

from dory_core.comparison.points import Comparison, Outcome, Point, Study, grid, measure

__all__ = ["Comparison", "Outcome", "Point", "Study", "grid", "measure"]
