"""Summaries that a model writes within its own window. Start at `abstractive`."""
