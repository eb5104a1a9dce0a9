"""The command line, `compactctl`. Start at `main`, which has the table of commands; each is in
`commands`.

What commands share: `options` (what may be asked for), `settings`, `jobs` (a file that is read, and
the plan for it), `stores` (sessions), `session_file` and `session_markdown` (sessions as files),
`changes` (what became of messages), `render` and `words` (what a person sees), `output` (where
bytes go), `progress`, `errors` (exit codes and the one line of an error).
"""
