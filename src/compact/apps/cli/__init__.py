"""The command line, `compactctl`. Start at `main`; a file for each group of commands.

What commands share: `options` (what may be asked for), `work` (file and settings to plan), `pins`,
`report` and `drawing` (what a person sees), `output` (where bytes go), `progress`, `ending` (exit
codes and the one line of an error).
"""
