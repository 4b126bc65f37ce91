"""From a Plan to C and files."""
