"""The report as one HTML page, which needs no network and runs no script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

_LONGEST = 4_000
"""Characters of one text. The whole text is in the transcript."""


class Texts(NamedTuple):
    """The report's sentences, as the terminal shows them."""

    head: Sequence[str]
    table: Sequence[Sequence[str]]
    """The rows of the comparison. The first is its heading."""
    notes: Sequence[str]
    said: Sequence[tuple[str, float]]
    """What is quoted, and its share from 0 to 1."""
    moments: Sequence[Sequence[str]]


def page_of(value: Mapping[str, Any], texts: Texts) -> str:
    """Return the page for a report with the texts of all compactions."""
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    body = "\n".join(
        [
            _lines(texts.head, "p"),
            _table(texts.table) if texts.table else "",
            _lines(texts.notes, "small"),
            "<h2>What you had said</h2>" if texts.said else "",
            *(
                f'<p>{escape(label)}<br><meter value="{share:.3f}"></meter> {share:.0%}</p>'
                for label, share in texts.said
            ),
            "<h2>The worst moments</h2>" if texts.moments else "",
            *(f'<div class="moment">{_lines(lines, "p")}</div>' for lines in texts.moments),
            "<h2>All compactions</h2>",
            *map(_compaction, value["each"]),
        ]
    )
    body = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in body)
    return (
        '<!doctype html>\n<html lang="en" data-page="compactctl look">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>What was forgotten · compact</title>\n<style>{style}</style>\n"
        f"<h1>What was forgotten</h1>\n{body}\n</html>\n"
    )


def _lines(lines: Iterable[str], tag: str) -> str:
    return "\n".join(f"<{tag}>{escape(line)}</{tag}>" for line in lines)


def _table(rows: Sequence[Sequence[str]]) -> str:
    cells = [
        "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
        for tag, row in zip(["th", *["td"] * len(rows)], rows, strict=False)
    ]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def _compaction(one: Mapping[str, Any]) -> str:
    size = f" · {one['tokens_before']:,} tokens" if one["tokens_before"] else ""
    pause = f" · pause {one['pause_seconds']:.0f} s" if one["pause_seconds"] else ""
    head = f"{one['session']} · compaction {one['number']} · {one['time'][:16]}{size}{pause}"
    quoted = f"{one['messages_in_summary']} of {one['messages']} of your messages are quoted"
    said = "".join(
        f'<pre class="{"kept" if said["in_summary"] else "lost"}">{_text(said["text"])}</pre>'
        for said in one["said"]
    )
    actions = "".join(
        f"<pre>{label}: {_text(a['tool'])} {_text(a['subject'])} ({a['tokens']:,} tokens)</pre>"
        for key, label in (
            ("looked_up_again", "had just seen it"),
            ("refused_edits", "refused, not read yet"),
            ("repeated_errors", "the same error"),
        )
        for a in one[key]
    )
    return (
        f"<details><summary>{escape(head)}</summary><div class=three>"
        f"<section><h3>Before</h3><p>{quoted}</p>{said}<h3>Last words</h3>{_spoken(one['before'])}"
        f"</section><section><h3>Summary</h3><pre>{escape(one['summary'])}</pre></section>"
        f"<section><h3>After</h3><p>{one['lookups']} look-ups in {one['actions_after']} actions</p>"
        f"{actions}<h3>First words</h3>{_spoken(one['after'])}</section></div></details>"
    )


def _spoken(spoken: Sequence[Mapping[str, Any]]) -> str:
    return "".join(
        f"<pre>{'you' if each['by_person'] else 'agent'}: {_text(each['text'])}</pre>"
        for each in spoken
    )


def _text(text: str) -> str:
    return escape(text[:_LONGEST])
