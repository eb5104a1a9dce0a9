"""The commands, each a function of its name. Its docstring is the command's help, and it yields the
command's output.
"""
