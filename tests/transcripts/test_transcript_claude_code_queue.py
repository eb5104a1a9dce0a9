"""Claude Code sessions: prompts typed while the model worked, answers to its questions, and replies
that go on after a result (C-1, C-3, C-8)."""

import json

from compact.messages.boundaries import ANTHROPIC, violations
from compact.messages.messages import PersonWords
from compact.text.said_within import words_within
from compact.text.speakers import person_text, speaker_of
from compact.transcripts.reading import read
from compact.transcripts.writing import write


class File:
    """Rows of a session, each a second after the one before."""

    def __init__(self):
        self.rows = []

    def add(self, kind, **fields):
        second = len(self.rows)
        row = {"type": kind, "timestamp": f"2026-03-01T10:{second // 60:02}:{second % 60:02}.000Z"}
        self.rows.append({**row, "sessionId": "5e55", **fields})
        return self

    def talk(self, role, content, **fields):
        message = {"role": role, "content": content}
        message |= {"id": fields.pop("reply")} if "reply" in fields else {}
        fields |= {"uuid": f"row-{len(self.rows)}", "cwd": "/garden", "version": "2.1.0"}
        return self.add(role, message=message, isSidechain=False, **fields)

    def says(self, text, **fields):
        return self.talk("user", text, **fields)

    def calls(self, call_id, reply="r", name="Bash"):
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        return self.talk("assistant", [block], reply=reply)

    def answers(self, call_id, text="fine", **fields):
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        return self.talk("user", [block], **fields)

    def ends(self, reply="end"):
        return self.talk("assistant", [{"type": "text", "text": "Done."}], reply=reply)

    def queue(self, operation, content=None):
        fields = {} if content is None else {"content": content}
        return self.add("queue-operation", operation=operation, **fields)

    def attach(self, prompt, mode="prompt"):
        attachment = {"type": "queued_command", "prompt": prompt, "commandMode": mode}
        return self.add("attachment", attachment=attachment, uuid=f"row-{len(self.rows)}")

    def read(self):
        return read("".join(json.dumps(row) + "\n" for row in self.rows).encode())

    def shape(self):
        """The messages, a person's as their words, others as who speaks."""
        speakers = [(speaker_of(m), person_text(m)) for m in self.read().messages]
        return [words if speaker == "person" else speaker for speaker, words in speakers]


def test_a_prompt_typed_while_a_tool_ran_stands_after_its_result():
    file = File().says("Water all.").calls("a").queue("enqueue", "and the roses").queue("remove")
    file.answers("a").ends()
    assert file.shape() == ["Water all.", "assistant", "tool", "and the roses", "assistant"]
    transcript = file.read()
    assert transcript.messages[3].metadata.source == "person"
    assert transcript.messages[3].timestamp.second == 2
    assert transcript.notes == ("2 queue-operation rows",), "no message was left out"
    assert violations(transcript.messages, ANTHROPIC) == []


def test_it_stands_outside_a_reply_that_goes_on():
    file = File().says("Go.").calls("a").answers("a").queue("enqueue", "wait").queue("remove")
    file.calls("b").answers("b").ends()
    assert file.shape() == ["Go.", "assistant", "tool", "assistant", "tool", "wait", "assistant"]


def test_several_keep_their_order_and_one_nobody_took_is_last():
    file = File().says("Go.").calls("a").queue("enqueue", "one").queue("enqueue", "two")
    file.queue("enqueue", "three").queue("remove").queue("remove").answers("a").ends()
    assert file.shape() == ["Go.", "assistant", "tool", "one", "two", "assistant", "three"]


def test_a_prompt_that_begins_a_turn_is_its_user_row():
    file = File().says("Go.").ends().queue("enqueue", "more [Image #1]").queue("dequeue")
    file.says("more").ends("next")
    assert file.shape() == ["Go.", "assistant", "more", "assistant"]


def test_a_prompt_that_its_user_row_repeats_is_there_once():
    """Also where the queue holds something else first, of which no row says that it left."""
    note = "<task-notification>\nx</task-notification>"
    file = File().says("Go.").ends().queue("enqueue", note).queue("enqueue", "more, please")
    file.queue("dequeue").says("more, please").ends("next").queue("dequeue").says("on").ends("last")
    assert file.shape() == ["Go.", "assistant", "more, please", "assistant", "on", "assistant"]
    joined = File().says("Go.").calls("a").queue("enqueue", "one").queue("enqueue", "two")
    joined.queue("remove").queue("remove").answers("a").says("one\ntwo").ends()
    assert joined.shape() == ["Go.", "assistant", "tool", "one\ntwo", "assistant"]


def test_the_same_words_said_again_later_are_said_twice():
    file = File().says("Go.").calls("a").queue("enqueue", "yes").queue("remove").answers("a").ends()
    file.says("yes")
    assert file.shape() == ["Go.", "assistant", "tool", "yes", "assistant", "yes"]


def test_what_a_person_took_back_was_not_said():
    file = File().says("Go.").calls("a").queue("enqueue", "no").queue("popAll", "no")
    file.queue("enqueue", "no, wait").queue("remove").answers("a").ends()
    assert file.shape() == ["Go.", "assistant", "tool", "no, wait", "assistant"]


def test_what_is_no_persons_is_no_message():
    """A task's end and a command without words were not said."""
    file = File().says("Go.").calls("a")
    for text in ("<task-notification>\nx</task-notification>", "/clear", "  "):
        file.queue("enqueue", text).queue("remove")
    assert file.answers("a").ends().shape() == ["Go.", "assistant", "tool", "assistant"]


def test_an_attachment_says_where_a_prompt_was_given_to_the_model():
    file = File().says("Go.").calls("a").queue("enqueue", "and the roses").answers("a")
    file.attach("and the roses").queue("remove", "and the roses").calls("b", "s").answers("b")
    shape = ["Go.", "assistant", "tool", "and the roses", "assistant", "tool"]
    assert file.shape() == shape
    assert file.read().messages[3].id == "row-4"
    alone = File().says("Go.").calls("a").answers("a")
    alone.attach([{"type": "text", "text": "and the roses"}]).attach("[x]", "task-notification")
    assert alone.calls("b", "s").answers("b").shape() == shape


def test_prompts_of_the_queue_are_written_as_user_rows_and_read_again():
    """C-3: whoever reads the new file finds the same messages under the same ids."""
    file = File().says("Go.").calls("a").queue("enqueue", "and the roses").queue("remove")
    transcript = file.answers("a").ends().read()
    assert write(transcript, transcript.messages).encode() == transcript.container.original
    kept = transcript.messages[1:]
    text = write(transcript, kept)
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["type"] for row in rows] == ["assistant", "user", "user", "assistant"]
    assert rows[2]["message"] == {"role": "user", "content": "and the roses"}
    assert (rows[2]["cwd"], rows[2]["sessionId"]) == ("/garden", "5e55")
    assert [row["parentUuid"] for row in rows[1:]] == [row["uuid"] for row in rows[:-1]]
    again = read(text.encode()).messages
    assert [(m.id, m.content) for m in again] == [(m.id, m.content) for m in kept]
    assert read(text.encode()).messages[2].timestamp == kept[2].timestamp


def test_recorded_answers_are_kept_as_a_persons_words():
    """C-8: no pattern is needed where the file has a field."""
    recorded = {
        "questions": [],
        "answers": {"Which?": 'the "old" bed", "When?"="now'},
        "annotations": {"Which?": {"notes": "gently"}},
    }
    file = File().says("Go.").calls("a", name="AskUserQuestion")
    file.answers("a", 'User has answered your questions: "Which?"="…".', toolUseResult=recorded)
    message = file.read().messages[-1]
    assert speaker_of(message) == "tool"
    assert words_within(message) == (
        PersonWords("answer", 'the "old" bed", "When?"="now', "Which?", "a"),
        PersonWords("note", "gently", "Which?", "a"),
    )
    other = File().says("Go.").calls("a").answers("a", toolUseResult={"answers": ["x"]})
    assert words_within(other.read().messages[-1]) == ()


def test_parallel_calls_whose_reply_goes_on_after_a_result_are_one_message():
    """C-3: their results follow them all, as a provider wants it; every row is kept."""
    file = File().says("Go.").calls("a").calls("b").answers("a").calls("c").answers("b")
    file.answers("c").calls("d").answers("d").ends()
    transcript = file.read()
    calls = [[c.id for c in m.tool_calls] for m in transcript.messages]
    assert calls == [[], ["a", "b", "c"], [], [], [], ["d"], [], []]
    assert violations(transcript.messages, ANTHROPIC) == []
    assert [r["uuid"] for r in transcript.rows["row-1"]] == ["row-1", "row-2", "row-4"]
    again = read(write(transcript, transcript.messages[1:]).encode())
    assert [m.content for m in again.messages] == [m.content for m in transcript.messages[1:]]
