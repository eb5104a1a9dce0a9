"""What things are: messages, their wire formats, tokens, budgets, policies, and the ports.

Pure: no I/O, no clock, no randomness. Start at `messages`.
"""
