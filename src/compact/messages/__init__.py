"""The basic data types: messages, wire formats, token counts, budgets, policies, and the ports that
adapters implement.

Nothing here does I/O, reads the clock or uses randomness (`clock_and_ids` gives default times and
ids). Start reading at `messages`.
"""
