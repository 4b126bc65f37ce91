"""Where blocks lie: in one memory, or in several."""
