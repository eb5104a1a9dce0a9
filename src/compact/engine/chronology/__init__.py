"""Summaries put together by code from what the messages say. Start at `extractive`."""
