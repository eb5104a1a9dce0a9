"""What `compactctl look` counts in each shape of transcript (issue 28). Without real data."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from compact.look.differences import Session, compare, contrast
from compact.look.lines import NameReader, digests
from compact.look.measures import Conversation, Seen, Window
from compact.look.moments import asked_again
from compact.look.report import Looker, given_by_hooks, short_ids
from compact.look.tools import reads_only
from compact.transcripts.boundaries import Reader, find, has_compaction
from tests.look.sessions import Claude, forgetful, text_lines

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "transcripts"


def read(path, chain=""):
    """The conversation in a file."""
    (file,) = find([path])
    own = Conversation(NameReader(), len)
    for row in Reader(file).rows():
        if row.chain == chain:
            own.take(row)
    own.finish()
    return own


def report(*places, **options):
    looker = Looker(mask=None, **options)
    for file in find(list(places)):
        looker.take(file)
    return looker.report(told=lambda _: None)


def only(path, chain=""):
    (compaction,) = read(path, chain).compactions
    return compaction


class TestAgain:
    def test_a_file_that_was_read_before_and_not_since(self, tmp_path):
        session = forgetful()
        session.read("/src/harbour_ledger.py", text_lines("harbour"))  # beyond the 40 actions
        window = only(session.write(tmp_path)).window
        assert [(seen.tool, seen.subject) for seen in window.again] == [
            ("Read", "/src/harbour_ledger.py")
        ]
        assert (window.actions, window.lookups) == (40, 1)

    @pytest.mark.parametrize(("new", "count"), [(1, 1), (2, 0)])
    def test_four_of_five_lines_must_be_known(self, tmp_path, new, count):
        session = Claude()
        session.read("/a.py", text_lines("harbour", 5))
        session.compact("Go on.")
        session.read("/a.py", [*text_lines("harbour", 5 - new), *text_lines("quay", new)])
        assert len(only(session.write(tmp_path)).window.again) == count

    def test_a_second_look_after_the_compaction_is_not_counted(self, tmp_path):
        session = Claude()
        session.read("/a.py", text_lines("harbour"))
        session.compact("Go on.")
        for _ in range(3):
            session.read("/a.py", text_lines("harbour"))
        window = only(session.write(tmp_path)).window
        assert (len(window.again), window.lookups) == (1, 3)

    def test_what_the_host_gave_back_is_not_counted(self, tmp_path):
        for number, kind in enumerate(("file", "queued_command")):
            session = Claude()
            session.read("/a.py", text_lines("harbour"))
            session.compact("Go on.")
            content = {"file": {"content": "\n".join(text_lines("harbour"))}}
            session.add("attachment", attachment={"type": kind, "content": content, "prompt": "x"})
            session.read("/a.py", text_lines("harbour"))
            window = only(session.write(tmp_path, str(number))).window
            assert len(window.again) == number

    def test_what_stays_word_for_word_is_not_counted(self, tmp_path):
        session = Claude()
        row = session.read("/a.py", text_lines("harbour"))
        session.compact("Go on.", kept=[row["uuid"]])
        session.read("/a.py", text_lines("harbour"))
        assert not only(session.write(tmp_path)).window.again

    def test_what_the_agent_wrote_is_known(self, tmp_path):
        session = Claude()
        new = "\n".join(text_lines("harbour"))
        session.call("Write", {"file_path": "/a.py", "content": new}, "written")
        session.compact("Go on.")
        session.read("/a.py", text_lines("harbour"))
        assert len(only(session.write(tmp_path)).window.again) == 1

    def test_refused_edits_and_errors_made_again(self, tmp_path):
        session = Claude()
        unread = "<tool_use_error>File has not been read yet. Read it first.</tool_use_error>"
        session.call("Bash", {"command": "make"}, "Exit code 2\nno rule, line 7", is_error=True)
        session.compact("Go on.")
        session.call("Bash", {"command": "make"}, "Exit code 2\nno rule, line 9", is_error=True)
        session.call("Bash", {"command": "make"}, "Exit code 1\nanother", is_error=True)
        session.call("Edit", {"file_path": "/a.py", "new_string": "x"}, unread, is_error=True)
        window = only(session.write(tmp_path)).window
        assert (len(window.repeated), len(window.refused)) == (1, 1)

    @pytest.mark.parametrize(
        ("command", "reads"),
        [
            ("git -C /a log --oneline | head -3 2>/dev/null", True),
            ("cd /a && sed -n '1,20p' b.py", True),
            ("git commit -m x", False),
            ("sed -i s/a/b/ c.py", False),
            ("cat a > b", False),
            ("find . -name x -delete", False),
            ("make test", False),
            ("", False),
        ],
    )
    def test_a_look_up_in_a_shell_writes_nothing(self, command, reads):
        assert reads_only(command) == reads


class TestWhatIsCountedOnce:
    @pytest.mark.parametrize(("longer", "shorter"), [("b", "a"), ("a", "b")])
    def test_a_resumed_session_repeats_the_rows_of_another(self, tmp_path, longer, shorter):
        session = forgetful()
        cut = len(session.rows) - 60
        (tmp_path / f"{longer}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in session.rows), encoding="utf-8"
        )
        (tmp_path / f"{shorter}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in session.rows[:cut]), encoding="utf-8"
        )
        told = report(tmp_path)
        assert (told["sessions"], told["compactions"], told["compacted_sessions"]) == (2, 1, 1)
        (one,) = told["each"]
        assert (one["session"], one["actions_after"]) == (longer, 40)

    def test_a_row_that_is_written_twice(self, tmp_path):
        session = forgetful()
        session.rows = [row for row in session.rows for _ in range(2)]
        window = only(session.write(tmp_path)).window
        assert (len(window.again), window.lookups) == (1, 1)

    def test_sub_agents_are_apart(self, tmp_path):
        session = Claude()
        side = {"isSidechain": True, "agentId": "helper"}
        session.person("a task for the helper, word for word", **side)
        session.read("/a.py", text_lines("harbour"), **side)
        session.compact("The main one goes on.")
        session.read("/a.py", text_lines("harbour"))
        session.compact("The helper goes on.", **side)
        session.read("/a.py", text_lines("harbour"), **side)
        file = session.write(tmp_path)
        assert not only(file).window.again
        helper = only(file, "helper")
        assert len(helper.window.again) == 1
        assert not helper.messages  # the agent spoke to it, and no person
        told = report(tmp_path)
        assert (told["compactions"], told["in_subagents"]) == (2, 1)

    def test_a_sub_agents_file_is_no_session(self, tmp_path):
        forgetful().write(tmp_path)
        forgetful("agent-7").write(tmp_path)
        assert report(tmp_path)["sessions"] == 1


class TestSaid:
    def test_the_first_fifty_letters_count(self, tmp_path):
        session = Claude()
        session.person("Never touch the generated files, they are made by the build of the quay")
        session.person("Use two spaces, and never a tab, in every file")
        session.person("yes")
        session.compact(
            'They said "never touch the generated files; they are made by the BUILD of"'
        )
        session.person("And now the second part of this work, please")
        session.compact("Use two spaces, and never a tab, in every file.")
        first, second = read(session.write(tmp_path)).compactions
        assert [(m.in_summary, m.in_next) for m in first.messages] == [(True, False), (False, True)]
        assert [(m.in_summary, m.in_next) for m in second.messages] == [(False, None)]

    def test_a_prompt_typed_while_the_agent_worked_counts_once(self, tmp_path):
        session = Claude()
        text = "Please look at the second file of the harbour too"
        session.add("queue-operation", operation="enqueue", content=text)
        session.add("queue-operation", operation="remove")
        session.add("attachment", attachment={"type": "queued_command", "prompt": text})
        session.compact("Go on.")
        assert [m.spoken.text for m in only(session.write(tmp_path)).messages] == [text]

    def test_a_person_asks_again_for_what_the_summary_lost(self, tmp_path):
        session = Claude()
        session.agent("### P2 findings\n1. The ledger is never closed")
        session.agent("All tests pass")
        session.compact("Found 7 findings.")
        session.person("run the tests again")
        session.person("can you show me the P2 findings again?")
        own = read(session.write(tmp_path))
        asked = asked_again(own, own.compactions[0])
        assert asked is not None
        assert asked.prompt.text == "can you show me the P2 findings again?"
        assert asked.message.text.startswith("### P2 findings")

    def test_the_pause_of_a_manual_one_is_not_known(self, tmp_path):
        session = Claude()
        session.work(1)
        session.compact("Go on.", trigger="manual")
        session.work(1)
        session.compact("Go on.", seconds=65)
        assert [c.seconds for c in read(session.write(tmp_path)).compactions] == [None, 65]


class TestOtherPrograms:
    def test_codex(self, tmp_path):
        def row(kind, **payload):
            return {"timestamp": "2026-03-01T09:00:00Z", "type": kind, "payload": payload}

        def looked(number):
            arguments = json.dumps({"command": ["bash", "-lc", "cat a.py"]})
            output = json.dumps({"output": "\n".join(text_lines("harbour"))})
            call = {"name": "shell", "arguments": arguments, "call_id": number}
            return [
                row("response_item", type="function_call", **call),
                row("response_item", type="function_call_output", call_id=number, output=output),
            ]

        words = "Please keep the harbour ledger in one file"
        kept = [{"type": "message", "role": "user", "content": [{"text": words}]}]
        rows = [
            row("session_meta", id="x"),
            row("event_msg", type="user_message", message=words),
            row("event_msg", type="token_count", info={"last_token_usage": {"total_tokens": 9}}),
            *looked("1"),
            row("compacted", message="", replacement_history=kept),
            *looked("2"),
        ]
        file = tmp_path / "rollout.jsonl"
        file.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows))
        compaction = only(file)
        assert (compaction.boundary.tokens, compaction.boundary.is_readable) == (9, False)
        assert [m.in_summary for m in compaction.messages] == [True]
        assert len(compaction.window.again) == 1

    def test_pi_keeps_rows_from_one_on(self, tmp_path):
        rows: list[dict[str, Any]] = [{"type": "session", "id": "x", "cwd": "/"}]
        for number in range(3):
            call = {"type": "toolCall", "id": str(number), "name": "read", "arguments": {}}
            lines = "\n".join(text_lines("quay" if number == 1 else "harbour"))
            content = [{"type": "text", "text": lines}]
            if number == 2:
                rows.append(
                    {
                        "type": "compaction",
                        "summary": "s",
                        "tokensBefore": 9,
                        "firstKeptEntryIndex": 3,
                    }
                )
            rows.append({"type": "message", "message": {"role": "assistant", "content": [call]}})
            result = {"role": "toolResult", "toolCallId": str(number), "content": content}
            rows.append({"type": "message", "message": result})
        file = tmp_path / "pi.jsonl"
        file.write_text("".join(json.dumps(r) + "\n" for r in rows))
        compaction = only(file)
        assert (compaction.boundary.tokens, compaction.summary) == (9, "s")
        assert len(compaction.window.again) == 1
        rows[5]["firstKeptEntryIndex"] = 1
        file.write_text("".join(json.dumps(r) + "\n" for r in rows))
        assert not only(file).window.again

    def test_opencode(self, tmp_path):
        def message(role, *parts, **info):
            return {"info": {"id": f"m{len(messages)}", "role": role, **info}, "parts": parts}

        def looked(number):
            state = {"status": "completed", "input": {}, "output": "\n".join(text_lines("quay"))}
            return {"type": "tool", "callID": number, "tool": "read", "state": state}

        messages = []
        messages.append(message("user", {"type": "text", "text": "Please read the quay's file"}))
        messages.append(message("assistant", looked("1")))
        summary = {"type": "text", "text": "Please read the quay's file. Done."}
        messages.append(message("assistant", summary, summary=True))
        messages.append(message("assistant", looked("2")))
        file = tmp_path / "export.json"
        file.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": messages}, indent=2))
        compaction = only(file)
        assert [m.in_summary for m in compaction.messages] == [True]
        assert len(compaction.window.again) == 1

    def test_other_files_are_no_sessions(self, tmp_path):
        (tmp_path / "package.json").write_text('{"name": "x", "type": "module"}')
        (tmp_path / "list.json").write_text("[1]")
        (tmp_path / "notes.txt").write_text('{"parentUuid": null}')
        assert list(find([tmp_path])) == []


class TestDamage:
    def test_two_hundred_damaged_files_are_told_and_nothing_else(self, tmp_path):
        session = Claude()
        session.person("please use the british spelling in all of the documents")
        for _ in range(2):
            session.read("/a.py", text_lines("harbour"))
            session.compact("Go on.")
            session.work(3)
        good = session.write(tmp_path).read_bytes()
        draw = random.Random(5)
        for number in range(200):
            (tmp_path / f"{number:03}.jsonl").write_bytes(damaged(good, draw, number))
        told = report(tmp_path)
        assert told["unreadable"]["lines"] > 100
        assert told["compactions"] >= 2

    @pytest.mark.parametrize("name", ["codex_cli.jsonl", "pi.jsonl", "opencode.jsonl"])
    def test_damaged_files_of_other_programs(self, tmp_path, name):
        good = (FIXTURES / name).read_text(encoding="utf-8")
        rows = json.loads(good)["messages"] if name.startswith("open") else good.splitlines()
        rows = [json.loads(row) if isinstance(row, str) else row for row in rows]
        draw = random.Random(6)
        file = tmp_path / name
        for _ in range(60):
            wrong = json.loads(json.dumps(rows))
            for place in draw.sample(list(places_in(wrong[1:])), 8):
                place[0][place[1]] = draw.choice([None, 7, "text", [1], {"a": 1}, True])
            text = "".join(json.dumps(row) + "\n" for row in wrong)
            if name.startswith("open"):
                text = json.dumps({"info": {"id": "ses_1"}, "messages": wrong})
            file.write_text(text, encoding="utf-8")
            read(file)

    def test_a_huge_line_is_left_out(self, tmp_path, monkeypatch):
        monkeypatch.setattr("compact.transcripts.boundaries.LONGEST_LINE", 4_000)
        session = Claude()
        session.person("x" * 9_000)
        session.compact("Go on.")
        (file,) = find([session.write(tmp_path)])
        reader = Reader(file)
        assert [row.kind for row in reader.rows()] == ["boundary", "user"]
        assert reader.broken == 1

    def test_text_about_a_boundary_is_none(self, tmp_path):
        session = Claude()
        session.person('how do I find {"subtype":"compact_boundary"} in a file?')
        (file,) = find([session.write(tmp_path)])
        assert not has_compaction(file)

    def test_lone_surrogates_are_read(self, tmp_path):
        session = Claude()
        session.compact("half an emoji \ud83d")
        assert only(session.write(tmp_path)).summary.startswith("half an emoji")


def places_in(value):
    """Each place in a JSON value, as what holds it and its key."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(inner):
        yield value, key
        if isinstance(each, dict | list):
            yield from places_in(each)


def damaged(good, draw, number):
    """The file's bytes with one kind of damage."""
    lines = good.split(b"\n")
    kind = number % 8
    if kind == 0:
        return good[: draw.randrange(len(good))]
    if kind == 1:
        return bytes(draw.randrange(256) for _ in range(5_000))
    if kind == 2:
        at = draw.randrange(1, len(lines) - 2)
        return b"\n".join([*lines[:at], b"\xff\xfe\x00" + lines[at][3:], *lines[at + 1 :]])
    if kind == 3:
        return b""
    rows = [json.loads(line) for line in lines if line]
    for _ in range(20):
        row = draw.choice(rows[1:])
        wrong = draw.choice([None, 7, "text", [1], {"a": 1}, [[]], True, 1.5])
        if kind == 4:
            row[draw.choice(list(row))] = wrong
        elif kind == 5 and isinstance(row.get("message"), dict):
            row["message"][draw.choice(["content", "role", "usage"])] = wrong
        elif kind == 6:
            rows[draw.randrange(1, len(rows))] = wrong
            rows = [rows[0], *(r for r in rows[1:] if isinstance(r, dict)), wrong]
            break
        elif isinstance(row.get("compactMetadata"), dict):
            row["compactMetadata"][draw.choice(["trigger", "preTokens", "preservedMessages"])] = (
                wrong
            )
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def window(again):
    made = Window("key", set(), set(), {}, 0)
    made.actions, made.again = 40, [Seen("", "", 0, 0)] * again
    return made


def sessions(count, here, without, spread=0):
    return [
        Session([window(here + spread * (n % 2))], [window(without + spread * (n % 3))] * 2)
        for n in range(count)
    ]


class TestDifferences:
    def measure(self, each):
        return float(len(each.again))

    def test_below_ten_compactions_nothing_is_told(self):
        row = compare(sessions(9, 3, 1), self.measure)
        assert row is not None
        assert (row.due, row.low, row.high, row.is_told) == (2, 2, 2, False)
        ten = compare(sessions(10, 3, 1), self.measure)
        assert ten is not None
        assert ten.is_told

    def test_an_interval_that_holds_zero_is_not_told(self):
        row = compare(sessions(12, 2, 1, spread=4), self.measure)
        assert row is not None
        assert row.low < 0 < row.high
        assert not row.is_told

    def test_a_session_is_compared_with_itself_only(self):
        alone = [Session([window(9)], []), Session([], [window(0)])]
        row = compare([*sessions(10, 3, 1), *alone], self.measure)
        assert row is not None
        assert (row.here, row.without, row.compactions, row.sessions) == (3, 1, 10, 10)
        assert compare(alone, self.measure) is None

    def test_two_groups_of_sessions(self):
        row = contrast([[window(1)]] * 10, [[window(3)]] * 12, self.measure)
        assert row is not None
        assert (row.due, row.compactions, row.is_told) == (-2, 10, True)
        assert contrast([], [[window(3)]], self.measure) is None


class TestReport:
    def test_what_the_host_deletes_within_a_week(self, tmp_path, monkeypatch):
        folder = tmp_path / "projects" / "harbour"
        folder.mkdir(parents=True)
        file = forgetful().write(folder)
        assert report(tmp_path)["expiring"] == {"sessions": 0, "days": 30}
        day, written = 86_400, file.stat().st_mtime
        monkeypatch.setattr("compact.look.report.time.time", lambda: written + 24 * day)
        assert report(tmp_path)["expiring"] == {"sessions": 1, "days": 30}
        (tmp_path / "settings.json").write_text('{"cleanupPeriodDays": 90}')
        assert report(tmp_path)["expiring"] == {"sessions": 0, "days": 90}
        (tmp_path / "settings.json").write_text("{")
        assert report(tmp_path)["expiring"]["days"] == 30

    def test_with_the_hook_against_without(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        notes = tmp_path / "state" / "compact" / "hooks" / "given.jsonl"
        for number in range(4):
            forgetful(f"s{number}", again=number > 1).write(tmp_path)
        assert "hook" not in report(tmp_path)
        notes.parent.mkdir(parents=True)
        boundary = next(r for r in forgetful("s0").rows if r.get("subtype"))
        near = {"session": "s0", "time": boundary["timestamp"], "uuid": None}
        before = forgetful("s1").rows[forgetful("s1").rows.index(boundary_of("s1")) - 1]["uuid"]
        known = {"session": "s1", "time": "2020-01-01T00:00:00+00:00", "uuid": before}
        late = {"session": "s2", "time": "2020-01-01T00:00:00+00:00", "uuid": "other"}
        lines = [json.dumps(note) for note in (near, known, late)]
        notes.write_text("\n".join(["no JSON", "[]", *lines]))
        hook = report(tmp_path)["hook"]
        assert hook["given"] == 2
        again = hook["compared"]["again"]
        assert (again["here"], again["without"], again["due_to_it"]) == (0, 1, False)
        assert given_by_hooks().keys() == {"s0", "s1", "s2"}

    def test_the_shortest_ids(self):
        ids = short_ids(["abcdefgh-1", "abcdefgh-2", "zyxwvutsr"])
        assert ids == {
            "abcdefgh-1": "abcdefgh-1",
            "abcdefgh-2": "abcdefgh-2",
            "zyxwvutsr": "zyxwvut",
        }


def boundary_of(name):
    return next(row for row in forgetful(name).rows if row.get("subtype"))


def test_lines_are_known_without_their_numbers():
    numbered, plain = "    12→def harbour_ledger(quay):", "def harbour_ledger(quay):"
    assert digests([numbered]) == digests([plain]) == digests([f"src/a.py:12:{plain}"])
    assert digests(["return x", "}", "  12→  1234567890 + 12"]) == set()
