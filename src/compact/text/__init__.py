"""Finds things in texts: speakers, sentences, names, instructions, outcomes and goals.

All functions are pure. Start at `speakers` and `passages`.
"""
