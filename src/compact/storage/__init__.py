"""Bytes: where conversations are kept and in which file formats people bring them.

Knows nothing of how context shrinks or who calls it: it imports the core and the error tree only.
"""
