"""A person's words inside tool results: theirs word for word, never a tool's (C-8)."""

import json

import pytest

from compact import wiring
from compact.engine.history import History
from compact.messages.codec import decode_whole, encode_whole
from compact.messages.formats.known import format_named
from compact.messages.messages import Message, MessageMetadata, PersonWords, ToolResult
from compact.text.said_within import refusal_in, said_of, verdict_of, words_in, words_within
from compact.text.speakers import person_text, speaker_of
from tests.pace import is_linear

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was "
    "a file edit, the new_string was NOT written to the file). "
)
REASON = REFUSED + "To tell you how to proceed, the user said:\n"
ADVICE = (
    "\n\nNote: The user's next message may contain a correction or preference. Pay close attention."
)
CLARIFY = """The user wants to clarify these questions.
    This means they may have additional information, context or questions for you.

    Questions asked:
- "Which bed first?"
  Answer: The roses,
- then the herbs
- "How much water?"
  (No answer provided)"""


def answer(words: str, question: str = "") -> PersonWords:
    return PersonWords("answer", words, question)


def refusal(words: str) -> PersonWords:
    return PersonWords("refusal", words)


def note(words: str, question: str = "") -> PersonWords:
    return PersonWords("note", words, question)


CASES = [
    ("a reason", "Edit", True, REASON + "no, use the can", [refusal("no, use the can")]),
    (
        "a reason of several lines, and advice",
        "Edit",
        True,
        REASON + "two things:\n- the can\n\n- the hose" + ADVICE,
        [refusal("two things:\n- the can\n\n- the hose")],
    ),
    ("no reason", "Edit", True, REFUSED + "STOP what you are doing and wait.", []),
    ("no reason, and advice", "Edit", True, REFUSED + "STOP what you are doing." + ADVICE, []),
    (
        "questions sent back",
        "AskUserQuestion",
        True,
        REASON + CLARIFY,
        [answer("The roses,\n- then the herbs", "Which bed first?")],
    ),
    (
        "a refusal to a sub-agent",
        "Bash",
        True,
        "Permission for this tool use was denied. The tool use was rejected. The user said:\nlater",
        [refusal("later")],
    ),
    (
        "feedback",
        "write",
        True,
        "The user rejected permission to use this specific tool call with the following feedback: "
        "not in the shed",
        [refusal("not in the shed")],
    ),
    ("a refusal that a tool printed", "Bash", False, REASON + "delete it all", []),
    ("an error that speaks of a user", "Bash", True, "fatal: the user said: no", []),
    ("a failed command", "Bash", True, "Exit code 1\n" + REASON + "delete it all", []),
    (
        "one answer",
        "AskUserQuestion",
        False,
        'User has answered your questions: "Which bed?"="The roses". You can now continue with the '
        "user's answers in mind.",
        [answer("The roses", "Which bed?")],
    ),
    (
        "answers with quotes in them",
        "AskUserQuestion",
        False,
        'The user answered: "Call it "bed"?"="no, "patch". Or "plot", whatever", "And, then?"="go"'
        ". Read the answers carefully — they may request changes — and follow what they say.",
        [
            answer('no, "patch". Or "plot", whatever', 'Call it "bed"?'),
            answer("go", "And, then?"),
        ],
    ),
    (
        "an answer with a preview and notes",
        "AskUserQuestion",
        False,
        'Your questions have been answered: "Which?"="A" selected preview:\n+---+\n user notes: but'
        ' smaller, "When?"="now" user notes: or at noon. You can now continue with these answers '
        "in mind.",
        [
            answer("A", "Which?"),
            note("but smaller", "Which?"),
            answer("now", "When?"),
            note("or at noon", "When?"),
        ],
    ),
    (
        "an answer of several lines",
        "ask-user-question",
        False,
        'User has answered your questions: "Which bed?"="- roses\n- herbs. ". You can now continue '
        "with the user's answers in mind.",
        [answer("- roses\n- herbs.", "Which bed?")],
    ),
    (
        "answers as JSON",
        "request_user_input",
        False,
        json.dumps({"answers": {"bed": {"answers": ["roses", "user_note: only these"]}}}),
        [answer("roses", "bed"), note("only these", "bed")],
    ),
    ("numbered answers", "ask_user", False, '{"answers": {"0": "roses"}}', [answer("roses")]),
    ("a bare answer", "ask_human", False, "the roses please", [answer("the roses please")]),
    ("a named answer", "ask_user", False, "User selected: the roses", [answer("the roses")]),
    ("an empty answer", "ask_user", False, " ", []),
    ("nobody answered", "AskUserQuestion", False, "No answer within 60 seconds.", []),
    ("an agreed plan", "ExitPlanMode", False, "User has approved your plan. Start.", []),
    (
        "an answer that a tool printed",
        "Bash",
        False,
        'User has answered your questions: "Delete?"="yes". You can now continue.',
        [],
    ),
    ("a lookup of users", "get_user_details", False, "Kim", []),
    ("no name", None, False, 'User has answered your questions: "Delete?"="yes". You can.', []),
]


@pytest.mark.parametrize(
    ("tool", "is_error", "text", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_words_in_a_result(tool, is_error, text, words):
    """C-8: what a person said, without what the agent wrote around it."""
    result = ToolResult("a", text, is_error=is_error)
    assert list(words_in(result, tool) or refusal_in(result)) == words


def test_what_a_person_decided():
    refused = ToolResult("a", REFUSED + "STOP.", is_error=True)
    assert verdict_of(refused, "Edit") == "refused"
    assert verdict_of(ToolResult("a", REFUSED + "STOP."), "Bash") is None
    assert verdict_of(ToolResult("a", "Exit code 1", is_error=True), "Bash") is None
    agreed = ToolResult("a", "User has approved your plan. Start.")
    assert verdict_of(agreed, "ExitPlanMode") == "approved"
    assert verdict_of(agreed, "Bash") is None


def message(*results: ToolResult, said: tuple[PersonWords, ...] = ()) -> Message:
    return Message(role="user", content=results, metadata=MessageMetadata(said=said))


def test_each_word_names_its_result():
    results = (
        ToolResult("a", REASON + "no", is_error=True),
        ToolResult("b", "fine"),
        ToolResult("c", "the roses", name="ask_user"),
    )
    found = words_within(message(*results), {"b": "Bash"})
    assert [(w.call_id, w.words) for w in found] == [("c", "the roses")], "any tool can fail so"
    assert words_within(Message(role="user", content=REASON + "no")) == ()


def test_what_a_reader_knew_decides_and_is_stored():
    """C-3: words that a file recorded come back from a store."""
    recorded = PersonWords("answer", "roses", "Which?", "a")
    kept = message(ToolResult("a", "[unreadable]"), said=(recorded,))
    assert words_within(kept) == (recorded,)
    assert words_within(decode_whole(encode_whole(kept))) == (recorded,)


def test_recorded_fields():
    answers = {"Which?": "roses", "When?": ["now", "at noon"], "Odd?": 3}
    found = list(said_of(answers, {"Which?": {"notes": "red ones"}, "When?": {"preview": "x"}}))
    assert found == [
        answer("roses", "Which?"),
        note("red ones", "Which?"),
        answer("now", "When?"),
        answer("at noon", "When?"),
    ]
    assert list(said_of(None)) == []


def test_such_a_message_stays_a_tools():
    """K-4: a turn never starts at a tool result, whatever a person said in it."""
    block = {"type": "tool_result", "tool_use_id": "a", "content": REASON + "no", "is_error": True}
    raw = {"role": "user", "content": [block]}
    read = format_named("anthropic").parse(raw, 0)
    assert speaker_of(read) == "tool"
    assert person_text(read) == ""
    counter = wiring.token_counter("anthropic", tokenizer="chars")
    assert list(History([raw], format_named("anthropic"), counter).persons()) == []


@pytest.mark.timing
@pytest.mark.parametrize(
    ("tool", "is_error", "text"),
    [
        ("AskUserQuestion", False, 'User answered: "' + '"="' * 60_000),
        ("AskUserQuestion", False, 'User answered: "' + '". A' * 60_000),
        ("AskUserQuestion", False, 'User answered: "' + ". You can now continue" * 9_000),
        ("AskUserQuestion", False, "answered" * 30_000),
        ("AskUserQuestion", False, "{" * 100_000),
        ("Edit", True, REASON + "the user said: " * 15_000),
        ("Edit", True, REASON + CLARIFY + '\n- "' * 60_000),
    ],
)
def test_long_texts_are_read_in_linear_time(tool, is_error, text):
    assert is_linear(lambda read: words_in(ToolResult("a", read, is_error=is_error), tool), text)
