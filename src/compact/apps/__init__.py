"""Keeps the import paths that the command line had in version 0.1. The next release removes them.
Use `compact.cli`.
"""
