"""Secrets in texts: keys, tokens, passwords and, by choice, personal data. Start at `redaction`.

This package takes texts and returns them without secrets. It does not know about messages.
"""
