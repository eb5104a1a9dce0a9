"""Summaries written by a model, within its own window. Start at `abstractive`."""
