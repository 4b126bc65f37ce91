"""From a file to an application, and what is done with one: compile, check, run."""
