"""The commands, each in a module of its name. The function's docstring is the command's help, and
the function yields the command's output.
"""
