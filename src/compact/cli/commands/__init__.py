"""The commands: a module of its name for each, with the function and what it alone needs. The
function's docstring is the command's help, and it yields its output.
"""
