"""The gate: what a summary must be before it may replace messages. Start at `rules`."""
