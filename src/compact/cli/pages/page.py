"""Builds a page as the text of one file: the template, the style, the script and the data.

The content security policy allows only this script and this style, by their digests. The data is
JSON, in which no text can end the script element.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

BEGINS = '<!doctype html>\n<html lang="en" data-page="compactctl view">'
"""The beginning of every page. `is_page` recognizes pages by it."""
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters that could end the script element → their JSON escapes."""


def page_html(data: Mapping[str, Any]) -> str:
    """Build the page for the data of `session_data`."""
    style = _part("view.css")
    script = f'"use strict";\n(() => {{\n{_part("view.js")}}})();\n'
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(_part("view.html")).substitute(
        begins=BEGINS,
        policy=policy,
        title=html.escape(data["session"]["title"] or data["session"]["id"]),
        style=style,
        script=script,
        data=_embedded(data),
    )


def is_page(start: bytes) -> bool:
    """Return whether a file with this beginning is a page that compact wrote."""
    return start.startswith(BEGINS.encode())


def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _embedded(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace").decode()  # replaces halves of surrogate pairs
    return text.translate({ord(character): escaped for character, escaped in _UNSAFE.items()})
