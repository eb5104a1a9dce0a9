"""What in a text is not its speaker's own: found by form, in linear time."""

import pytest

from compact.text.passages import own_lines, own_words, passages, said_in
from tests.pace import is_linear, seconds

SAID = "Never push to main."

TOOLS = {
    "tags": f"<tool_response>\n{SAID}\n</tool_response>",
    "tags on one line": f'<function_results id="3">{SAID}</function_results>',
    "tags closed within": f"<search_output>\n</search_output>\n{SAID}\n</search_output>",
    "tags never closed": f"<tool_output>\n{SAID}",
    "a status": f"<returncode>0</returncode>\n{SAID}",
    "square brackets": f"[TOOL_RESULT]{SAID}\n[/TOOL_RESULT]",
    "a control token": f"<|tool_output|>\n{SAID}",
    "a label": f"Observation: {SAID}",
    "a label that names the tool": f"Tool result for read_file:\n{SAID}",
    "a label in brackets": f"[Result of tool call 7 (read_file)]\n{SAID}",
    "a heading": f"### Tool Output\n\n{SAID}",
    "a bold label": f"**Tool response:** {SAID}",
    "a label in lower case": f"observation: {SAID}",
    "a call and its result": f"[read_file for 'a.md'] Result:\n{SAID}",
    "a sentence before it": f"Result from the fetch tool:\n{SAID}",
    "another sentence": f"The tool returned:\n{SAID}",
    "a role": f"Tool: {SAID}",
    "a turn of a template": f"<|im_start|>tool\n{SAID}",
    "output never closed": f"<stdout>\n{SAID}",
    "a banner": f"=== BEGIN TOOL OUTPUT ===\n{SAID}\n=== END TOOL OUTPUT ===",
}

QUOTED = {
    "any tags": f"<web_page url='x'>\n{SAID}\n</web_page>",
    "any brackets": f"[page]\n{SAID}\n[/page]",
    "a tag over lines": f'<document\n title="a">\n{SAID}\n</document>',
    "a source in a tag": f'<thing url="a.example">\n{SAID}\n</thing>',
    "a banner": f"=== BEGIN DOCUMENT ===\n{SAID}\n=== END DOCUMENT ===",
    "a label that people write": f"Function output: {SAID}",
    "triple marks": f'"""Dear agent,\n{SAID}"""',
    "a page within a person's tags": f"<page>\n<rules>\n{SAID}\n</rules>\n</page>",
    "a tag named within its own": f"<page>\na <page> of\n{SAID}\n</page>",
    "a fence": f"```\n{SAID}\n```",
    "a fence never closed": f"~~~ text\n{SAID}",
    "quoted lines": f"> {SAID}\n> {SAID}",
    "JSON": f'{{"title": "x",\n "text": "{SAID}"}}',
    "a list of JSON": f'[\n  {{"text": "{SAID}"}}\n]',
    "quotation marks": f'The page says: "Dear agent,\n{SAID}\nYours"',
    "curly quotation marks": f"“Dear agent,\n{SAID}”",
}

OWN = (
    SAID,
    "Always close the <div>, and never use <b>bold</b>.",
    "<b>Never</b> push to main.",
    "Never write `rm -rf`; keep ```x``` inline.",
    "Rules:\n- never push\n    - not even tags\n1. ask first\n    use the form",
    "My observation: never push.",
    "Output: JSON, and never prose.",
    "Response: always in German.",
    "- tool output: never paste it",
    "Tool results must never be pasted.",
    "Function returns never change.",
    'Call it "safe", and never "fast".',
    'It is 5" wide.\nNever cut it.',
    *(
        f"<{name}>\nNever push to main.\n</{name}>"
        for name in ("rules", "instructions", "task", "feedback", "query", "coding_standards")
    ),
    "<p>Always use tabs</p>",
    '<p class="x">\nAlways use tabs\n</p>',
    "<b>Rule 1</b>\nAlways use tabs.\n<b>Rule 2</b>\nThanks",
    ">= 3.11 is what we need. Always use tabs",
    "[URGENT] Always use tabs [/URGENT]",
    "~~~ Always use tabs ~~~",
    "Hi,\n\n    Always use tabs, please.\n\nBye",
    "How to handle tool errors:\n- Always retry.",
    "Rules for the tool output: none.",
    "<user_query>\nNever push to main.\n</user_query>",
    "[1] Never push.\n[x] done",
    "{name} must never be empty.",
)


@pytest.mark.parametrize("text", TOOLS.values(), ids=TOOLS)
def test_what_tools_say_is_found(text):
    assert said_in(text).strip() == ""
    assert own_words(f"Please read this.\n\n{text}").strip() == "Please read this."


@pytest.mark.parametrize("text", QUOTED.values(), ids=QUOTED)
def test_what_is_quoted_is_found(text):
    assert own_words(text).strip() == ""
    assert said_in(text) == text
    assert own_words(f"Read this:\n\n{text}").strip() == "Read this:"


@pytest.mark.parametrize("text", OWN)
def test_what_a_person_writes_is_theirs(text):
    assert own_words(text) == text
    assert said_in(text) == text
    assert list(passages(text)) == []


def test_words_behind_a_passage_are_own():
    text = f"{TOOLS['tags']} Go on.\n{TOOLS['a banner']}\n{QUOTED['JSON']}\nAnd ask."
    assert own_words(text).split("\n") == [" Go on.", "", "", "And ask."]
    assert said_in(f"Observation: {SAID}\n\n{SAID}") == "", "a message of an agent's tool"
    labelled = f"Be kind.\nTool output: {SAID}\n\nGo on."
    assert own_words(labelled).split() == ["Be", "kind.", "Go", "on."]


@pytest.mark.parametrize(
    "text",
    [
        "Tool output:\n```\nfoo\n```\n\nNever push.",
        "Fix this.\n\nTool output:\n```\nfoo\n```\nNever push.",
        "Fix this.\n\nTool output:\nfoo\nfoo\n\nNever push.",
        "Fix this.\n\n### Tool Output\n\nfoo\n\nNever push.",
        "Function output: foo.\n\nNever push.",
        "Action result: foo\n\nNever push.",
        "<example>\nfoo\n</example>\nNever push.\n<example>\nfoo\n</example>\nThanks",
        "<file name='a'>\nfoo\n</file>\nNever push.\n<file>foo</file>\nThanks",
        "See <document>\na foo of mine</document> please.\nNever push.",
        "See <document>a foo of mine</document> please.\nNever push.",
    ],
)
def test_words_of_a_person_behind_what_is_pasted_are_theirs(text):
    assert "Never push." in own_words(text)
    assert "foo" not in own_words(text)


def test_a_status_in_a_sentence_is_no_output():
    text = "<returns>0</returns> is what main() gives.\n\nNever push."
    assert own_words(text) == text.removeprefix("<returns>0</returns>")


@pytest.mark.parametrize("text", ["## Tool results\n4 passed.", "**Execution results:** 4 passed."])
def test_an_answers_own_heading_hides_nothing(text):
    assert ("[GOAL] x", True) in list(own_lines(f"{text}\n\n[GOAL] x"))
    assert ("[GOAL] x", True) in list(own_lines("Tool output: x\n\n[GOAL] x"))
    assert ("[GOAL] x", False) in list(own_lines("<plan>\n[GOAL] x\n</plan>"))


def test_indented_code_is_found():
    code = f"It holds:\n\n    {SAID}\n\n    {SAID}\n\nGo on."
    assert own_words(code).split() == ["It", "holds:", "Go", "on."]


def test_lines_are_told_apart():
    text = f"One\n> {SAID}\n```\nx\n```\nTwo\n"
    assert [line for line, _ in own_lines(text)] == text.split("\n")
    assert [line for line, is_own in own_lines(text) if is_own] == ["One", "Two", ""]


@pytest.mark.timing
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "piece",
    [
        *("<a>\n", "</a>\n", "<a></a\n", "[", "[1,\n", '{"a":\n', '"\n', ': "x\n', "> ", "```\n"),
        *("    x\n", "[tool result", "Tool result: x\n\n", "--- end ", "*" * 12 + " ", ", " * 9),
        *("<|a", "_", " ", "„\n", "“a\n", "Observation: x\n\n"),
    ],
)
def test_long_texts_are_read_in_linear_time(piece):
    assert is_linear(own_words, piece * (200_000 // len(piece)))


@pytest.mark.timing
@pytest.mark.parametrize(
    ("opener", "piece"),
    [
        ("a\n\n", "Tool output: x\n\n"),
        ("a\n\n", "Observation: x\n\n"),
        ("Tool output x", ":"),
        ("Tool output ", "x:"),
        ("", "„“x\n"),
        ("", "<text>"),
        ("</p>", " "),
        (" ", "    a b"),
        ("", "<text>a </text>\n"),
        ("", "<" + "a" * 90),
        ("</page>", "<page>\n"),
        ("<page>", "</page>\n"),
        ("a\n\n", "=== Tool output ===\nx\n\n"),
    ],
)
def test_labels_are_read_in_linear_time(opener, piece):
    assert is_linear(own_words, opener + piece * (60_000 // len(piece)) + "a")


@pytest.mark.timing
@pytest.mark.slow
def test_many_quotations_that_nobody_closes_take_no_longer_than_lines():
    lines, opened = "x\n" * 40_000, "„\n" * 40_000
    assert seconds(own_words, opened, 3) < 15 * seconds(own_words, lines, 3)
