"""The commands, one module for each or for a few that belong together. Each is a function whose
docstring is its help, and which yields what is told.

These modules are imported for every help. What takes long to import is a name of
`compact.apps.cli`.
"""
