"""What things are: the values and rules of compact, pure (no I/O, no clock, no randomness)."""
