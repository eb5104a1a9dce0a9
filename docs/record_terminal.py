"""Draw docs/images/demo.svg, a terminal in which `compactctl demo` ran:
`python docs/record_terminal.py`. A test fails when the picture is not what this would draw.
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).parent / "images/demo.svg"
COMMAND = "compactctl demo"
WIDTH, LINES = 100, 34
"""Columns of the terminal; lines of the output that are shown."""
THEME = TerminalTheme(
    (23, 27, 34),
    (201, 209, 217),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34),
     (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)],
)  # fmt: skip
SECONDS = re.compile(r"\b[0-9]+\.[0-9] s\b")
"""How long it took: another number in every run, and the picture is the same in all."""
FETCHED = re.compile(r"@font-face \{.*?\}\s*", flags=re.DOTALL)
"""What would be fetched from elsewhere by whoever looks at it."""


def drawn() -> str:
    """The picture."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
    environment.pop("NO_COLOR", None)
    run = [sys.executable, "-m", "compact", *COMMAND.split()[1:]]
    done = subprocess.run(
        run, check=True, capture_output=True, encoding="utf-8", env=environment, cwd="/"
    )
    lines = SECONDS.sub("0.4 s", done.stdout).splitlines()
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False
    )
    console.print(Text(f"$ {COMMAND}", style="bold"))
    for line in lines[:LINES]:
        console.print(Text.from_ansi(line), soft_wrap=False, no_wrap=True, overflow="ellipsis")
    if len(lines) > LINES:
        console.print(Text("…", style="dim"))
    svg = console.export_svg(title="compact", theme=THEME, unique_id="demo")
    return FETCHED.sub("", svg).replace("Fira Code, monospace", "ui-monospace, Menlo, monospace")


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(), encoding="utf-8")
