"""Finds and removes secrets in texts: keys, tokens, passwords and, by setting, personal data.

Start reading at `redaction`. This package knows texts, but no messages.
"""
