"""A chip as data: memories, links, options, operating points."""
