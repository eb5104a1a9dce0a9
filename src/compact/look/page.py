"""The report as one HTML page, which needs no network and runs no script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path


def page_of(screen: Iterable[str], each: Iterable[tuple[str, Mapping[str, Sequence[str]]]]) -> str:
    """Return the page: the lines of the screen, and of each compaction its heading and the lines
    of its parts.
    """
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    compactions = (
        f"<details><summary>{escape(head)}</summary><div>"
        + "".join(f"<section><h3>{k}</h3>{_lines(v)}</section>" for k, v in parts.items())
        + "</div></details>"
        for head, parts in each
    )
    body = "\n".join([_lines(screen), "<h2>All compactions</h2>", *compactions])
    body = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in body)
    return (
        '<!doctype html>\n<html lang="en" data-page="compactctl look">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>What was forgotten · compact</title>\n<style>{style}</style>\n"
        f"<h1>What was forgotten</h1>\n{body}\n</html>\n"
    )


def _lines(lines: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"
