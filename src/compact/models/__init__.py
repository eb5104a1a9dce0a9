"""Models: the facts about each, adapters that ask them, and tokenizers that count their tokens.

`profiles` holds each model's limits. `providers` has an adapter for each provider's client.
"""
