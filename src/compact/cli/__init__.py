"""The command line, `compactctl`.

`main` lists the commands and runs one. Each is one function in a module of its name in `commands`,
which is imported when the command is run. Its docstring is its help. It yields what it tells
(`told`), and `render` draws that.

Shared by several commands: `options`; `settings`, the effective ones; `jobs`, a conversation from a
file; `plans`, what a compression of it does; `stores`, sessions; `views`, how they are shown;
`exchange` and `session_markdown`, sessions as files; `output`, bytes; `progress`, long work;
`errors`, how a command ends; `helping`, help and the commands that went.
"""
