"""The basic data types: messages, formats, tokens, budgets, policies, and the ports of adapters.

Nothing here does I/O or uses randomness. Only `clock_and_ids` reads the clock. Start at `messages`.
"""
