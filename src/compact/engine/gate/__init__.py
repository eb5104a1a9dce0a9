"""The gate: what a summary must be before it may stand in for messages. Start at `rules`."""
