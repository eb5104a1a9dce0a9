"""Models: facts about each, how to ask them, and how to count their tokens.

`profiles` holds each model's limits, and `providers` an adapter for each provider's client.
"""
