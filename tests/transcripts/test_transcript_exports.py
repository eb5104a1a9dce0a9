"""Account exports of ChatGPT and Claude: many conversations in a file, each a tree of which one
branch is read, with its calls paired and everything else counted (MIG)."""

import json
from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import Thinking
from compact.text.speakers import speaker_of
from compact.transcripts.documents import load
from compact.transcripts.reading import read
from compact.transcripts.table import recognized
from compact.transcripts.writing import write
from tests.store.making import as_written, detect, every

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts"
CHATGPT, CLAUDE = FIXTURES / "chatgpt_export.json", FIXTURES / "claude_export.json"


def told(transcript):
    return [(speaker_of(m), m.text) for m in transcript.messages if m.text]


def results(transcript):
    return {r.call_id: (r.name, r.text) for m in transcript.messages for r in m.tool_results}


def titles(document):
    titles_of = recognized(document).titles
    assert titles_of is not None
    return titles_of(document)


def data_of(value):
    return json.dumps(value).encode()


# --- what both share ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHATGPT, CLAUDE])
def test_one_of_many_conversations_is_chosen(path):
    with pytest.raises(InvalidTranscript, match="holds 2 conversations: choose one with"):
        read(path)
    with pytest.raises(InvalidTranscript, match="there is no conversation 3"):
        read(path, conversation=3)
    assert {found.conversations for found in every(path)} == {2}


@pytest.mark.parametrize("path", [CHATGPT, CLAUDE])
def test_a_conversation_alone_is_read_too(path):
    """As one object, and as one line of several."""
    first, second = json.loads(path.read_text(encoding="utf-8"))
    assert read(data_of(second)).conversations == 1
    lines = data_of(first) + b"\n" + data_of(second)
    assert detect(lines) == detect(path)
    assert told(read(lines, conversation=2)) == told(read(path, conversation=2))


@pytest.mark.parametrize("path", [CHATGPT, CLAUDE])
def test_what_is_written_is_read_again_the_same(path):
    """C-3, K-4: as chat completions."""
    for transcript in every(path):
        if transcript.messages:
            again = read(write(transcript, transcript.messages).encode())
            assert [m.text for m in again.messages] == [as_written(m) for m in transcript.messages]
            assert results(again) == results(transcript)


@pytest.mark.parametrize("path", [CHATGPT, CLAUDE])
def test_one_broken_conversation_does_not_stand_in_the_way_of_others(path):
    values = json.loads(path.read_text(encoding="utf-8"))
    data = data_of([*values, 5, {"title": "no messages"}])
    assert len(titles(load(data))) == 4
    assert read(data, conversation=2).conversations == 4
    for number in (3, 4):
        with pytest.raises(InvalidTranscript):
            read(data, conversation=number)


def test_messages_without_a_time_take_that_of_their_conversation():
    """And then that of the message before: none is of the day of the import."""
    days = ["2024-05-01", "2024-05-01", "2024-05-07"]
    at = {"create_time": 1714557600}
    nodes = {"a": (None, message("user", "1", n=None)), "b": ("a", message("user", "2", n=None)),
             "c": ("b", message("user", "3", n=1715076000))}  # fmt: skip
    (found,) = json.loads(tree("c", **nodes))
    rows = [row("a", "human", "1"), row("b", "human", "2"), row("c", "human", "3")]
    rows[2]["created_at"] = "2024-05-07T10:00:00Z"
    plain = [{"role": "user", "content": str(n)} for n in (1, 2, 3)]
    plain[2]["timestamp"] = "2024-05-07T10:00:00Z"
    for data in (
        data_of([{**found, **at}]),
        chat(*rows, created_at="2024-05-01T10:00:00Z"),
        data_of({"messages": plain, "createdAt": "2024-05-01T10:00:00Z"}),
    ):
        read_again = read(data)
        assert [f"{m.timestamp:%Y-%m-%d}" for m in read_again.messages] == days
        assert read_again.notes == ()
    assert {f"{m.timestamp:%Y-%m-%d}" for m in read(data_of([found])).messages} == {"2024-05-07"}


@pytest.mark.parametrize("wrong", [-1, 1e40, "soon"])
def test_a_time_that_cannot_be_read_is_counted_and_never_now(wrong):
    said = {
        "a": (None, message("user", "1", n=1714557600)),
        "b": ("a", message("user", "2", n=wrong)),
    }
    rows = [{**row("h", "human", "1"), "created_at": "2024-05-01"},
            {**row("i", "human", "2"), "created_at": wrong}]  # fmt: skip
    plain = [{"role": "user", "content": "1", "timestamp": "2024-05-01"},
             {"role": "user", "content": "2", "timestamp": wrong}]  # fmt: skip
    for data in (tree("b", **said), chat(*rows), data_of(plain)):
        found = read(data)
        assert [f"{m.timestamp:%Y-%m-%d}" for m in found.messages] == ["2024-05-01"] * 2
        assert found.notes == ("1 time that cannot be read",)


def test_a_node_without_an_author_is_left_out_and_counted():
    nodes = {"a": (None, message("user", "1")), "b": ("a", {"content": {}}),
             "c": ("b", message("user", "3"))}  # fmt: skip
    found = read(tree("c", **nodes))
    assert [text for _, text in told(found)] == ["1", "3"]
    assert found.notes[0].startswith("1 odd row, left out: mapping.b.message: expected an author")
    found = read(chat(row("h", "human", "1"), {"content": []}, row("i", "human", "3")))
    assert [text for _, text in told(found)] == ["1", "3"]
    assert found.notes[0].startswith("1 odd row, left out: chat_messages[1].sender")


# --- ChatGPT --------------------------------------------------------------------------------------


def test_chatgpt():
    transcript = read(CHATGPT, conversation=1)
    assert told(transcript) == [
        ("system", "I keep bees.\n\nAnswer in short sentences."),
        (
            "person",
            "[image file-service://file-hive, 640×480]\nHow many bees are on this frame?\n"
            "[attached frame.csv]",
        ),
        ("assistant", "There are 211."),
        ("observation", "ToolTimeout: too slow"),
    ]
    assert results(transcript) == {
        "n5": ("python", "211\n\nA chart was made."),
        "n9": (
            "browser",
            "# Bees\n2,000 on a full frame\n\nBees\nexample.org/bees\nA full frame holds 2,000.",
        ),
    }
    calling = transcript.messages[2]
    assert calling.parts[0] == Thinking("Counting\nLoad the table.")
    assert [row["id"] for row in transcript.rows[calling.id]] == ["n4", "n5"]
    assert calling.tool_calls[0].arguments == '{"input": "print(len(rows))"}'
    assert transcript.messages[1].timestamp.isoformat() == "2026-03-01T09:00:10+00:00"
    assert (transcript.title, transcript.model) == ("Frames", "o4-mini")
    assert transcript.session_id == "c-bees"
    assert transcript.notes == (
        "2 messages of other branches",
        "2 further results of calls, kept behind the first ones",
        "1 image, of which only the name is kept",
        "1 reasoning_recap message that says nothing",
        "1 result without its call, kept as an observation",
        "1 text message that says nothing",
    )


def message(role, *parts, n=1, **more):
    content = more.pop("content", {"content_type": "text", "parts": [*parts]})
    return {"author": {"role": role}, "content": content, "create_time": n, **more}


def tree(current, **nodes):
    """A conversation of nodes, each a parent and a message."""
    mapping = {
        name: {"id": name, "parent": parent, "message": said,
               "children": [x for x, (p, _) in nodes.items() if p == name]}
        for name, (parent, said) in nodes.items()
    }  # fmt: skip
    return data_of([{"title": "t", "mapping": mapping, "current_node": current}])


FORKED = {
    "root": (None, None),
    "a": ("root", message("user", "one")),
    "left": ("a", message("assistant", "L", n=9)),
    "right": ("a", message("assistant", "R", n=2)),
}


def test_chatgpt_takes_the_branch_of_the_current_node():
    found = read(tree("right", **FORKED))
    assert told(found) == [("person", "one"), ("assistant", "R")]
    assert found.notes == ("1 message of another branch",)


@pytest.mark.parametrize("current", [None, "gone", 5, ["a"]])
def test_chatgpt_without_a_current_node_takes_the_newest_branch(current):
    assert told(read(tree(current, **FORKED)))[-1] == ("assistant", "L")


def test_chatgpt_calls_are_answered_by_their_tools():
    """Of two calls that wait, a result belongs to the one to its tool."""
    asked = {"recipient": "web.run", "id": "w"}, {"recipient": "python", "id": "p"}
    found = read(tree(
        "d",
        a=(None, message("assistant", '{"q": 1}', **asked[0])),
        b=("a", message("assistant", "1 + 1", **asked[1])),
        c=("b", {**message("tool", "2"), "author": {"role": "tool", "name": "python"}}),
        d=("c", {**message("tool", "page"), "author": {"role": "tool", "name": "web"}}),
    ))  # fmt: skip
    assert results(found) == {"w": ("web.run", "page"), "p": ("python", "2")}
    ids = [
        m.tool_calls[0].id if m.tool_calls else m.tool_results[0].call_id for m in found.messages
    ]
    assert ids == ["w", "w", "p", "p"]


def test_chatgpt_a_result_right_behind_a_call_answers_it_whatever_its_name():
    said = {**message("tool", "R"), "author": {"role": "tool", "name": "other"}}
    asked = message("assistant", "{}", recipient="tool", id="c")
    assert results(read(tree("b", a=(None, asked), b=("a", said)))) == {"c": ("tool", "R")}
    later = read(tree("c", a=(None, asked), b=("a", message("user", "x")), c=("b", said)))
    assert told(later)[-1] == ("observation", "R")


def test_chatgpt_contents_that_nobody_knows_are_kept_as_json():
    found = read(tree(
        "c",
        a=(None, message("user", content={"content_type": "moon", "phase": "full"})),
        b=("a", message("oracle", "hm")),
        c=("b", message("user", content={"content_type": "text", "parts": [{"a": 1}, 5, None]})),
    ))  # fmt: skip
    assert told(found) == [
        ("person", '{"phase":"full"}'),
        ("injected", "hm"),
        ("person", '{"a":1}\n5\nnull'),
    ]
    assert "1 message of the role 'oracle', kept as injected" in found.notes


def test_chatgpt_older_instructions_stand_beside_their_message():
    about = {"about_user_message": "I keep bees.", "about_model_message": "Be brief."}
    told_once = message("system", "", metadata={"user_context_message_data": about})
    found = read(tree("b", a=(None, told_once), b=("a", message("user", "hi"))))
    assert told(found) == [("system", "I keep bees.\n\nBe brief."), ("person", "hi")]


def test_chatgpt_thoughts_that_no_reply_followed_are_kept():
    content = {"content_type": "thoughts", "thoughts": [{"summary": "S", "content": "C"}]}
    (found,) = read(tree("a", a=(None, message("assistant", content=content)))).messages
    assert found.parts == (Thinking("S\nC"),)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ({"a": (None, 5)}, r"mapping\.a\.message: expected an author"),
        ({"a": (None, {"content": {}})}, r"mapping\.a\.message: expected an author"),
        ({"a": (None, {"author": {"role": "user"}, "content": "x"})}, r"mapping\.a\.message"),
        ({"a": ("b", None), "b": ("a", None)}, r"mapping\.\w: is its own ancestor"),
    ],
)
def test_chatgpt_names_the_node_that_is_wrong(nodes, reason):
    with pytest.raises(InvalidTranscript, match=reason):
        read(tree("a", **nodes))


def test_chatgpt_a_node_that_is_no_object_is_refused():
    with pytest.raises(InvalidTranscript, match=r"mapping\.x: expected an object"):
        read(data_of([{"mapping": {"x": 5}, "current_node": "x"}]))


# --- Claude ---------------------------------------------------------------------------------------


def test_claude():
    transcript = read(CLAUDE, conversation=2)
    assert told(transcript) == [
        ("person", "What lives in this pool?\n[file pool.jpg]"),
        ("injected", "[attached pool.txt]\nSalt: 3.5 %. Depth: 20 cm."),
        ("assistant", "Let me look."),
        ("assistant", "Sea stars do."),
        ("person", "Thanks."),
    ]
    assert results(transcript) == {
        "call-1": (
            "web_search",
            'sea stars\n{"type":"knowledge","title":"Anemones","url":"example.org/a"}',
        )
    }
    assert transcript.messages[2].parts[0] == Thinking("Shallow and salt.")
    assert transcript.messages[3].timestamp.isoformat() == "2026-03-01T09:00:03+00:00"
    assert (transcript.title, transcript.session_id) == ("Tide pools", "c1a0-de")
    assert transcript.notes == (
        "1 empty message",
        "1 file, of which only the name is kept",
        "1 token_budget block",
    )


def test_claude_an_empty_conversation_has_no_messages():
    """Exports are full of them: who asks for one is told, who reads all goes on."""
    with pytest.raises(InvalidTranscript, match="holds no messages, read as Claude's export"):
        read(CLAUDE, conversation=1)
    assert [len(found.messages) > 0 for found in every(CLAUDE)] == [False, True]
    assert titles(load(CLAUDE)) == [None, "Tide pools"]


def chat(*rows, **more):
    return data_of([{"uuid": "c", "chat_messages": [*rows], **more}])


def row(uuid, sender, text, parent=None):
    content = [{"type": "text", "text": text}]
    return {"uuid": uuid, "sender": sender, "content": content, "parent_message_uuid": parent}


BRANCHES = [
    row("h", "human", "one", "root"),
    row("l", "assistant", "left", "h"),
    row("r", "assistant", "right", "h"),
]


@pytest.mark.parametrize(("leaf", "last"), [("l", "left"), ("r", "right"), (None, "right")])
def test_claude_takes_the_branch_of_the_current_message(leaf, last):
    found = read(chat(*BRANCHES, current_leaf_message_uuid=leaf))
    assert [text for _, text in told(found)] == ["one", last]
    assert found.notes == ("1 message of another branch",)


def test_claude_parents_in_a_ring_end():
    ring = [row("a", "human", "one", "b"), row("b", "assistant", "two", "a")]
    assert [text for _, text in told(read(chat(*ring)))] == ["one", "two"]


def test_claude_senders_that_nobody_knows_are_kept():
    found = read(chat(row("h", "human", "one"), row("e", "elf", "two")))
    assert told(found) == [("person", "one"), ("injected", "two")]
    assert found.notes == ("1 message of the role 'elf', kept as injected",)


@pytest.mark.parametrize("sender", ["human", "elf"])
def test_claude_what_makes_calls_is_a_reply(sender):
    """K-4: else nobody would have called what the result answers."""
    blocks = [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]
    blocks.append({"type": "tool_result", "tool_use_id": "a", "content": "A"})
    found = read(chat({"uuid": "1", "sender": sender, "content": blocks}))
    assert [speaker_of(m) for m in found.messages] == ["assistant", "tool"]


def test_claude_calls_with_ids_are_paired_by_them():
    """And a result that comes in the next message finds its call."""
    blocks = [{"type": "tool_use", "id": x, "name": "f", "input": {"x": x}} for x in "ab"]
    back = [{"type": "tool_result", "tool_use_id": x, "content": x.upper()} for x in "ba"]
    asked = {"uuid": "1", "sender": "assistant", "content": blocks}
    found = read(chat(asked, {"uuid": "2", "sender": "human", "content": back}))
    assert results(found) == {"a": ("f", "A"), "b": ("f", "B")}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (5, r"chat_messages\[1\]\.sender: expected human or assistant, got None"),
        ({"sender": 7}, r"chat_messages\[1\]\.sender: .* got 7"),
        ({"sender": ["human"]}, r"chat_messages\[1\]\.sender"),
        ({"sender": "human", "content": 5}, r"chat_messages\[1\]\.content: expected a list"),
    ],
)
def test_claude_names_the_message_that_is_wrong(wrong, reason):
    with pytest.raises(InvalidTranscript, match=reason):
        read(chat(row("h", "human", "one"), wrong))
