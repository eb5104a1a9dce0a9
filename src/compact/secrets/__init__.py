"""What must not leave: keys, tokens, passwords and, by choice, personal data. Start at `redaction`.

Knows no message: a text comes in, and the text without its secrets goes out.
"""
