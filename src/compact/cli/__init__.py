"""The command line, `compactctl`.

`main` lists the commands and runs one. Each command is a function in a module of `commands`. Module
and function have the command's name, but the commands of the group `memory` share one module. A
module is imported when its command runs. The docstring of a command is its help. A command yields
its output (`parts`), and `render` prints it.

Shared modules: `options`; `settings`, the effective settings; `jobs`, a conversation from a file;
`plans`, what a compression does to that conversation; `stores`, sessions; `views`, how sessions are
shown; `exchange` and `session_markdown`, sessions as files; `output`, files and stdout; `progress`,
long work; `errors`, exit codes and error lines; `helping`, help and removed commands.
"""
