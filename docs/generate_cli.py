"""Write docs/cli.md from the help of the commands: `python docs/generate_cli.py`.

A test fails when the page is not what this would write.
"""

import contextlib
import io
import os
from pathlib import Path

from compact.cli.main import COMMANDS, GROUPS, main

PAGE = Path(__file__).with_name("cli.md")
WIDTH = "88"

HEAD = """# The command line

<!-- Written by docs/generate_cli.py from the commands' own help: change the help, then run it. -->

`compactctl` reads a conversation in any known format, with no key, no network and no model.

**Output.** Results are data and go to standard output or, with `-o`, to a file that is
written whole or not at all. The report of `compact` goes to standard error; the other commands
print their reports to standard output. `--json` prints the report as one JSON object on
standard output; `compact --json` therefore needs `-o OUT`. Progress is for terminals, and so are
colours: `--color always`, `FORCE_COLOR=1` or `CLICOLOR_FORCE=1` keep them in a pipe, as for
`less -R`; `--color never` or `NO_COLOR=1` leaves them out. The parts of a bar differ by their marks
too, and a terminal without Unicode gets plain characters.

**Completion.** `compactctl --install-completion` teaches bash, zsh, fish or PowerShell the commands
and their options; `--show-completion` prints what it would install.

**Exit codes.** 0 done; 1 it cannot fit, with the breakdown of what may not be shortened, or
`memory age` was answered with no; 2 bad input or usage, no such session, a store that cannot be
used, or (`doctor`) something that is broken, with one line that says what is wrong; 70 a bug in
compact (`COMPACT_TRACEBACK=1` shows where); 130 interrupted; 141 the reader closed the pipe.

**Message numbers** count from 0, as positions do in Python and in ids such as `m3`.

**Tokens** are those of the whole prompt as a model would see it: messages, framing, tool schemas
of the file. For chat completions they are exact (`o200k`). Anthropic publishes no tokenizer:
Claude Code sessions are counted by an estimate named `claude`, which lies above a typical count
by the margin shown; `--tokenizer o200k` counts them with OpenAI's instead. A system prompt that is
not in the file is not counted: leave tokens free for it.

**Claude Code sessions** are written as a new, self-contained session file: a boundary row, a
summary row in the tool's own shape, the kept rows. Resuming from such a file in the tool itself
is untested.

**Sessions** are kept in one file, the store: `--store FILE`, the setting `store` (`COMPACT_STORE`),
else `.compact/sessions.db` in the current folder. `sessions import`,
`migrate` and `chat` make one where there is none; every other command refuses a missing file, and
reading changes nothing. A session,
branch, checkpoint or snapshot is named by its id, or by a unique prefix of it.
The context depends on the model's window: `--window`, else from the settings, else the last one
used with the session. `sessions import` prints the new id, and nothing else, on standard output.

Settings are described in [configuration.md](configuration.md).
"""


def help_of(*arguments: str) -> str:
    """What `compactctl … --help` prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main([*arguments, "--help"])
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def page() -> str:
    """The whole page."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        parts = [HEAD, f"## compactctl\n\n```text\n{help_of()}\n```\n"]
        groups = [path.partition(" ")[0] for path in COMMANDS]
        for path in dict.fromkeys(
            name for pair in zip(groups, COMMANDS, strict=True) for name in pair
        ):
            if path in COMMANDS or path in GROUPS:
                heading = "###" if " " in path else "##"
                parts += [f"{heading} {path}\n\n```text\n{help_of(*path.split())}\n```\n"]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    print(f"wrote {PAGE}")
