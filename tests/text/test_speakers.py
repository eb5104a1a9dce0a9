"""Who is speaking: a table of cases (K-4: a turn starts at a person's words, never at a tool
result,
an observation or an injected reminder)."""

import hashlib

import pytest

from compact import ContextManager, compress
from compact.engine.history import History
from compact.errors import CannotFit
from compact.messages.checkpoints import Checkpoint, Span
from compact.messages.formats.known import format_named
from compact.messages.messages import Message, MessageMetadata
from compact.messages.own_text import keyed
from compact.messages.tokens import TokenCounter
from compact.models.providers.tokenizers import tokenizer
from compact.text.speakers import marked, own_words_of, person_text, speaker_of, spoken_text
from tests.pace import is_linear

COUNTER = TokenCounter(tokenizer("o200k"))


def user(text):
    return Message(role="user", content=text)


REMINDER = "<system-reminder>\nThe list is empty.\n</system-reminder>"
CHECKPOINT = Checkpoint(
    id="ck-0123456789ab", span=Span(first=0, last=3, messages=4), summary="Done."
)
ADOPTED = "[tool result that does not follow its call, id a]\nx"
COMMAND = (
    "<command-name>/compact</command-name>\n            <command-message>compact</command-message>"
    "\n            <command-args>{}</command-args>"
)
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "fine"}

CASES = [
    ("plain words", "user", "Fix the build.", "person", "Fix the build."),
    (
        "words in German",
        "user",
        "Bitte repariere den Build.",
        "person",
        "Bitte repariere den Build.",
    ),
    ("an empty message", "user", "", "person", ""),
    ("white space", "user", " \n ", "person", ""),
    ("a reminder", "user", REMINDER, "injected", ""),
    ("two reminders", "user", REMINDER + "\n" + REMINDER, "injected", ""),
    ("words after a reminder", "user", REMINDER + "\nGo on.", "person", "Go on."),
    ("words before a reminder", "user", "Go on." + REMINDER, "person", "Go on."),
    ("an interruption", "user", "[Request interrupted by user for tool use]", "injected", ""),
    (
        "a command's output",
        "user",
        "<local-command-stdout>ok</local-command-stdout>",
        "injected",
        "",
    ),
    ("a command", "user", COMMAND.format(""), "injected", ""),
    ("words after a command", "user", COMMAND.format("keep the plan"), "person", "keep the plan"),
    (
        "a command that is named last",
        "user",
        "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
        "<command-args>both\nfiles</command-args>",
        "person",
        "both\nfiles",
    ),
    ("a shell command", "user", "<bash-input>git status</bash-input>", "person", "git status"),
    ("a sub-agent's end", "user", "<agent-notification>x</agent-notification>", "injected", ""),
    ("a tag of a person's own", "user", "<div>why?</div>", "person", "<div>why?</div>"),
    ("an unclosed reminder", "user", "<system-reminder> and", "person", "<system-reminder> and"),
    ("a return code", "user", "<returncode>0</returncode>\nfine", "observation", ""),
    ("an observation", "user", "OBSERVATION:\nfine", "observation", ""),
    (
        "a person's observation",
        "user",
        "My observation: it fails.",
        "person",
        "My observation: it fails.",
    ),
    ("an adopted result", "user", ADOPTED, "observation", ""),
    ("a system prompt", "system", "Be brief.", "system", ""),
    ("a developer", "developer", "Be brief.", "system", ""),
    ("an assistant", "assistant", "Done.", "assistant", ""),
]


@pytest.mark.parametrize(
    ("role", "text", "speaker", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_who_speaks(role, text, speaker, words):
    """K-4: decided by role and text, in one place."""
    message = Message(role=role, content=text)
    assert speaker_of(message) == speaker
    assert person_text(message) == words


BLOCKS = [
    ([RESULT], "tool", ""),
    ([RESULT, {"type": "text", "text": REMINDER}], "tool", ""),
    ([RESULT, {"type": "text", "text": "Go on."}], "person", "Go on."),
    ([{"type": "text", "text": REMINDER}, {"type": "text", "text": "Go on."}], "person", "Go on."),
    ([{"type": "text", "text": REMINDER}], "injected", ""),
    ([{"type": "image", "source": {"type": "url", "url": "x"}}], "person", ""),
]


@pytest.mark.parametrize(("blocks", "speaker", "words"), BLOCKS)
def test_who_speaks_in_blocks(blocks, speaker, words):
    """K-4: a person's words beside a tool result count; a reminder beside it does not."""
    message = format_named("anthropic").parse({"role": "user", "content": blocks}, 0)
    assert speaker_of(message) == speaker
    assert person_text(message) == words


@pytest.mark.parametrize("source", ["person", "injected", "observation", "checkpoint"])
def test_what_a_reader_knew_decides(source):
    """K-4: the text decides only where nobody knew."""
    message = Message(role="user", content=REMINDER, metadata=MessageMetadata(source=source))
    assert speaker_of(message) == source


def test_a_tool_message_is_a_tools():
    """K-4: whatever it says."""
    raw = {"role": "tool", "tool_call_id": "a", "content": "Fix the build."}
    assert speaker_of(format_named("chat_completions").parse(raw, 0)) == "tool"


@pytest.mark.timing
@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>" * 20_000,
        " " * 100_000 + "<x",
        "<command-args" * 20_000 + " <",
        "[Request interrupted by user" * 9_000,
    ],
)
def test_long_texts_are_read_in_linear_time(text):
    assert spoken_text(text) == text.strip()
    assert is_linear(spoken_text, text)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_response>\nNever push.\n</tool_response>",
        "Tool result:\nNever push.",
        "[Function output]\nNever push.",
        "<returncode>0</returncode>\n<output_head>\nNever push.\n</output_head>",
    ],
)
def test_what_a_tool_said_in_a_users_message_is_an_observation(text):
    """K-4: whatever the scaffold wraps it in."""
    message = Message(role="user", content=text)
    assert speaker_of(message) == "observation"
    assert person_text(message) == ""


@pytest.mark.parametrize("label", ["Observation", "Tool output", "Function output"])
def test_what_may_be_a_persons_is_never_clipped(label):
    """K-4: a label alone is no proof; only where an agent called in plain text is it a tool's."""
    text = f"{label}: " + "Field f must be checked before it is written. " * 200
    call = "I look.\nAction: read[a.py]"
    for said in ("I see.", "Done:\n- a\n- b"):
        history = History(
            [Message(role="assistant", content=said), user(text)],
            format_named("chat_completions"),
            COUNTER,
        )
        assert list(history.persons()) == [1]
    talk = [{"role": "user", "content": "Mend it."}, {"role": "assistant", "content": "Yes."}]
    asked = {"role": "user", "content": text}
    with pytest.raises(CannotFit, match="newest user message"):
        compress([*talk * 4, asked], max_tokens=600)
    ctx = ContextManager(window=8_192)
    ctx.add_messages([*talk, asked])
    assert ctx.history.is_person(2)
    if label != "Function output":
        history = History(
            [Message(role="assistant", content=call), user(text)],
            format_named("chat_completions"),
            COUNTER,
        )
        assert list(history.persons()) == []
        ctx.add_messages([{"role": "assistant", "content": call}, asked])
        assert not ctx.history.is_person(4)


def test_text_of_ours_is_told_by_its_key():
    """K-6: a heading that somebody else wrote, or changed the words of, is their text."""
    own, other = keyed(b"of this store"), keyed(b"of another one")

    def speaker(text):
        return speaker_of(marked(Message(role="user", content=text), own))

    text = CHECKPOINT.text(own)
    assert speaker(text) == "checkpoint"
    assert speaker(text + "!") == "person"
    assert speaker(CHECKPOINT.text(other)) == "person"
    words = hashlib.sha256(CHECKPOINT.summary.encode()).hexdigest()[:12]
    assert speaker(text.replace(own.digest(CHECKPOINT.summary), words)) == "person"


def test_own_words_are_what_nobody_else_said():
    """C-8: a quoted page is in the message, and is not what its person says."""
    page = "<page>\nNever push.\n</page>"
    assert own_words_of(Message(role="user", content=f"{page}\nIs that so?")) == "Is that so?"
    alone = Message(role="user", content=page)
    assert speaker_of(alone) == "person"
    assert own_words_of(alone) == ""
    assert own_words_of(alone, opens=True) == page, "nobody has called a tool: it is the request"
