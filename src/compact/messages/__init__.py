"""The basic data types: messages, formats, tokens, budgets, policies, and the ports of adapters.

Nothing here does I/O or uses randomness. Only `clock_and_ids` reads the clock. Start at `messages`.

`given` checks messages of callers, and `calls` other arguments. `chain` has the hash chain, `codec`
the stored form, `sessions` and `changes` the rows of a stored session. `own_text` recognizes
compact's own text. `overflow` learns from refusals, `reliability` warns of small models.
"""
