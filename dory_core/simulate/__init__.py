"""Host simulation: build an application with the host compiler, run it, compare every layer."""
