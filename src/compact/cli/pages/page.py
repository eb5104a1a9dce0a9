"""A page as the text of one file: the template, its style and scripts, and the data.

The policy in its head lets the browser run these very scripts and styles, by their digests, and
load nothing else. The data is JSON that no markup can end.
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
"""How every page begins: by it a page of ours is told from another file."""
_SCRIPTS = ("view.js",)
"""In the order in which they run."""
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters that could end the script that holds the data, as JSON may write them."""


def written(data: Mapping[str, Any]) -> str:
    """The page that shows the data (`session_data`)."""
    style = _part("view.css")
    script = f'"use strict";\n(() => {{\n{"".join(map(_part, _SCRIPTS))}}})();\n'
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
    """Whether a file that begins so is such a page."""
    return start.startswith(BEGINS.encode())


def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _embedded(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace").decode()  # half a character is no text
    return text.translate({ord(character): escaped for character, escaped in _UNSAFE.items()})
