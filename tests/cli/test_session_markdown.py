"""A session as Markdown: what a renderer makes of it loads and runs nothing."""

from datetime import UTC, datetime

import pytest
from markdown_it import MarkdownIt

from compact.cli.session_markdown import markdown_of
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Session

LIVE = [
    "![x](https://c.example/p)",
    "see ![x][1]\n\n[1]: https://c.example/p",
    "![x]",
    "[x]: https://c.example/p",
    "> [x]: https://c.example/p",
    "<img src=x>",
    "<!-- <b> -->",
    "text <script>x</script>",
    "```\n```\n<style>p{}</style>",
    "~~~\n</details>",
    "    indented\n<b onclick=x>",
    "[go](javascript:x)",
    "[go](java&#115;cript:x)",
    "````\n![x](https://c.example/p)\n```",
]


def rendered(text, **session):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    made = Session(
        id="s", branch=Branch(id="b", session_id="s"), created_at=at, updated_at=at, **session
    )
    page = "".join(markdown_of(made, [Message(role="user", content=text, timestamp=at)]))
    return page, MarkdownIt("commonmark").parse(page)


def live(tokens):
    inner = [x for token in tokens for x in (token, *(token.children or ()))]
    return [x for x in inner if x.type in ("image", "html_block", "html_inline", "link_open")]


@pytest.mark.parametrize("text", LIVE)
def test_nothing_in_a_text_or_a_name_is_live(text):
    page, tokens = rendered(text, title=f"A {text}", model=f"\\{text}")
    assert live(tokens) == []
    assert text in page, "word for word, in a fence"


def test_no_character_turns_a_line_around():
    page, _ = rendered("a\u202eb\u2066c\u200f", title="\u202ex")
    assert "a\ufffdb\ufffdc\ufffd" in page
    assert "\u202e" not in page


def test_plain_markdown_stays_what_it_is():
    text = "**Bold**, `code`, a [link](https://a.example), 1 < 2\n\n- one\n- two"
    page, _ = rendered(text, title="Plain [1]")
    assert f"\n{text}\n" in page
