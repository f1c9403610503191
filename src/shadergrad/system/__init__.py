"""Python and the operating system: atomic file replacement, optional packages, pauses of the garbage collector."""
