"""Summaries that code writes from the messages. Start at `extractive`."""
