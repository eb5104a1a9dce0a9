"""Finds and removes secrets in texts: keys, tokens, passwords and, by setting, personal data.

Start reading at `redaction`. This package takes texts and returns them without secrets. It knows
nothing of messages.
"""
