"""Tests that need several of our plugins at once; each skips where one is not installed."""
