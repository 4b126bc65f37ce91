"""Check of what lies where when it is read."""
