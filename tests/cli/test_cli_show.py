"""What was said, what a model sees of it, and going back: show, recall, expand, undo (US-2, US-8,
FR-10).
"""

import json

import pytest

from compact import ContextManager, wiring
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from tests.cli import conftest
from tests.cli.conftest import branched, snapped


@pytest.fixture
def told(run, chat):
    """Run a command about the session, as JSON."""

    def _told(command, *arguments):
        done = run(command, "harbour", *arguments, "--store", chat, "--json")
        assert (done.code, done.err) == (0, ""), done
        return json.loads(done.out)

    return _told


@pytest.fixture
def refused(run, chat):
    """Run a command that is refused; its line."""
    return lambda command, *arguments: conftest.refused(
        run(command, "harbour", *arguments, "--store", chat)
    )


# --- history --------------------------------------------------------------------------------------


def test_the_whole_history_can_be_read_whatever_was_compressed(told, sample):
    """US-2, US-8: page by page, in order, with numbers that count from 0."""
    wanted = wiring.read_transcript(sample).messages[:120]
    rows = [row for n in (0, 50, 100) for row in told("show", "history", "--from", n)["messages"]]
    assert [row["number"] for row in rows] == list(range(120))
    assert [row["id"] for row in rows] == [message.id for message in wanted]
    assert rows[1]["text"] == wanted[1].content


def test_the_newest_page_is_shown_last_unless_another_is_asked_for(run, chat):
    done = run("show", "harb", "history", "--store", chat, "--most", "5")
    lines = done.out.splitlines()
    assert "messages 115 to 119 of 120" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["115", "116", "117", "118", "119"]
    one = run(
        "show", "harb", "history", "--store", chat, "--from", "5", "--most", "1", "--full"
    ).out
    assert "one rule that stands above the others: never write to the production database" in one
    assert "none of 120" in run("show", "harb", "history", "--store", chat, "--from", "999").out


def test_another_branch_can_be_read(told, refused, chat):
    branched(chat, 30)
    assert told("show", "history")["total"] == 30
    assert told("show", "history", "--branch", "harbour")["total"] == 120
    assert told("show", "history", "--branch", "harbour~2")["branch"] == "harbour~2"
    assert "no branch 'x'" in refused("show", "history", "--branch", "x")


def test_nothing_a_session_holds_steers_the_terminal(run, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[2J[bold red]hi[/] \u202e"
    with ContextManager(store=tmp_path / "s.db", session_id="a", title=evil) as ctx:
        ctx.add_message(role="user", content=evil)
        ctx.goals.set([evil])
        ctx.time.snapshot(evil)
    for command in (
        ["sessions", "list"],
        ["show", "a"],
        ["show", "a", "goals"],
        ["show", "a", "history"],
        ["show", "a", "history", "--full"],
        ["show", "a", "context"],
        ["recall", "a", "owned"],
        ["expand", "a", "0"],
        ["sessions", "export", "a", "--format", "md"],
    ):
        done = run(*command, "--store", "s.db")
        assert done.code == 0
        assert "[bold red]hi[/]" in done.out, command
        assert not {"\x1b", "\x07"} & set(done.out), command


def test_a_system_field_is_shown_too(run, tmp_path):
    """FR-7: goals stand there in Anthropic's format."""
    with ContextManager(store=tmp_path / "s.db", session_id="a", format="anthropic") as ctx:
        ctx.add_message(role="user", content="Good morning.")
        ctx.goals.set(["Mend the roof\x1b[2J."])
    at = ("show", "a", "context", "--store", "s.db")
    assert json.loads(run(*at, "--json").out)["system"].endswith("- Mend the roof\x1b[2J.")
    assert "- Mend the roof" in run(*at, "--text").out
    done = run(*at).out
    assert "Goals · digest" in done
    assert "\x1b" not in done


def test_no_id_steers_the_terminal(run, tmp_path):
    """An application may call its sessions whatever it likes."""
    evil = "\x1b[2J\nFAKE a\u202e"
    store = wiring.session_store(tmp_path / "s.db")
    branch = Branch(id=evil, session_id=evil)
    store.session(evil, create=Session(id=evil, scope=evil, model=evil, branch=branch))
    store.append(evil, [Entry(Message(role="user", content="hi", id=evil), 5)])
    store.close()
    for command in (
        ["sessions", "list"],
        ["show", evil],
        ["show", evil, "history"],
        ["show", evil, "history", "--full"],
        ["show", evil, "context"],
        ["recall", evil, "hi"],
        ["recall", evil, "nothing"],
        ["expand", evil, "0"],
        ["show", evil, "checkpoints"],
        ["mark", evil, "--pin", "0", "--goal", evil],
        ["show", evil],
        ["sessions", "export", evil],
        ["sessions", "export", evil, "--format", "md"],
        ["memory", "forget", evil, "--yes"],
    ):
        scope = [] if command == ["sessions", "list"] else ["--scope", evil]
        done = run(*command, *scope, "--store", "s.db")
        assert done.code == 0, done
        assert not {"\x1b", "\u202e"} & set(done.out + done.err) or "export" in command, command
        assert "\nFAKE" not in done.out + done.err, command


# --- context --------------------------------------------------------------------------------------


def test_context_shows_what_a_model_sees_and_changes_nothing(told, chat):
    """Looking never compresses."""
    seen = told("show", "context")
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        assert seen["messages"] == ctx.get_context_for_model()
        assert seen["tokens"] == ctx.active_context().tokens
        assert seen["checkpoints"] == [checkpoint.id for checkpoint in ctx.checkpoints]
        moves = len(ctx.store.moves("harbour", most=999))
    told("show", "context", "--window", "1000")
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        assert len(ctx.store.moves("harbour", most=999)) == moves


def test_context_shows_what_a_model_saw_then(told, chat, refused):
    seen = told("show", "context", "--at", "60")
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        then = ctx.time.context_at(60)
    assert seen["at"] == 60
    assert seen["tokens"] == then.tokens
    assert len(seen["messages"]) == len(then.sent)
    assert "120 messages, not 500" in refused("show", "context", "--at", "500")


def test_context_as_text_is_exactly_what_a_model_sees(run, chat):
    """K-11."""
    text = run("show", "harb", "context", "--store", chat, "--text").out
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        assert text == ctx.time.context_at(120).render_text() + "\n"
    table = run("show", "harb", "context", "--store", chat).out
    assert "now, with 120 messages" in table
    assert "[Checkpoint ck-" in table
    assert "[Checkpoint ck-" in run("show", "harb", "context", "--store", chat, "--full").out


def test_context_says_where_the_next_prompt_will_be_smaller(run, chat):
    assert (
        "compressed first"
        in run("show", "harb", "context", "--store", chat, "--window", "1500").out
    )
    assert "compressed first" not in run("show", "harb", "context", "--store", chat).out


@pytest.mark.slow
def test_a_context_is_shown_by_pages(run, told, tmp_path):
    """A session that was never compressed may have any number of messages; whatever is data is
    whole.
    """
    store = wiring.session_store(tmp_path / "long.db")
    store.session("a", create=Session(id="a", branch=Branch(id="a", session_id="a")))
    messages = [Message(role="user", content=f"word {n}", id=f"m{n}") for n in range(2_001)]
    store.append("a", [Entry(message, 5) for message in messages])
    store.close()
    at = ("--store", "long.db")
    done = run("show", "a", "context", *at).out
    assert "1,801 older messages are not shown: --most 2001 shows all" in done
    rows = [line.split() for line in done.splitlines() if line.endswith(tuple("0123456789"))]
    numbers = [int(row[0].replace(",", "")) for row in rows if row[-2:-1] == ["word"]]
    assert numbers == list(range(1_801, 2_001))
    assert "not shown" not in run("show", "a", "context", *at, "--most", "2001").out
    assert "1 older message is not shown" in run("show", "a", "context", *at, "--most", "2000").out
    assert run("show", "a", "context", *at, "--most", "3", "--full").out.count("word ") == 3
    assert run("show", "a", "context", *at, "--text").out.count("word ") == 2_001
    assert len(json.loads(run("show", "a", "context", *at, "--json").out)["messages"]) == 2_001


def test_a_view_that_is_too_large_says_what_will_become_of_it(run, chat):
    """After going back there may be more than fits: that is no damage."""
    later = "it will be compressed before the next prompt"
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        ctx.compress_conversation()
        trigger = ctx.window.trigger
    assert later not in run("show", "harbour", "--store", chat).out
    while later not in (done := run("undo", "harbour", "--store", chat)).out:
        assert done.code == 0, done
    tokens = json.loads(run("show", "harbour", "context", "--store", chat, "--json").out)
    assert tokens["tokens"] > trigger


# --- recall and expand ----------------------------------------------------------------------------


def test_recall_finds_by_words_in_the_whole_history(run, told, chat):
    """C-8: what left the view comes back."""
    found = told("recall", "production", "database", "--most", "3")
    assert len(found["messages"]) <= 3
    assert any("never write to the production database" in row["text"] for row in found["messages"])
    number = found["messages"][0]["number"]
    assert (
        told("show", "history", "--from", number, "--most", "1")["messages"][0]["id"]
        == (found["messages"][0]["id"])
    )
    none = run("recall", "harb", "xyzzyplugh", "--store", chat)
    assert (none.code, "nothing in session" in none.out) == (0, True)


def test_expand_gives_the_originals_of_a_checkpoint_a_message_or_a_call(told, refused):
    """US-2: each checkpoint can be expanded to its original messages."""
    checkpoint = told("show", "checkpoints")["checkpoints"][0]
    expanded = told("expand", checkpoint["id"])
    assert expanded["whole"]
    assert expanded["total"] == checkpoint["messages"] == len(expanded["messages"])
    assert all(
        checkpoint["first"] <= row["number"] <= checkpoint["last"] for row in expanded["messages"]
    )
    assert told("expand", checkpoint["id"][:8])["messages"] == expanded["messages"]
    by_number, by_id = told("expand", "5"), told("expand", "m5")
    assert by_number["messages"] == by_id["messages"]
    some = told("expand", checkpoint["id"], "--max-tokens", "300")
    assert some["tokens"] <= 300
    assert not some["whole"]
    assert "'nonsense'" in refused("expand", "nonsense")
    assert "no checkpoint 'ck-zz'" in refused("expand", "ck-zz")
    assert "'121'" in refused("expand", "121")


def test_a_long_message_is_read_part_by_part(run, tmp_path):
    """US-2: each part says how to go on; together they are all of it."""
    lines = "\n".join(f"line {i}: value {i * 37 % 1001}" for i in range(900))
    with ContextManager(window=8_192, store=tmp_path / "s.db", session_id="a") as ctx:
        ctx.add_message(role="user", content=lines)
    at, read, start = ("a", "0", "--store", "s.db", "--max-tokens", "2000"), "", 0
    while start is not None:
        told = json.loads(run("expand", *at, "--start", str(start), "--json").out)
        assert (told["unit"], told["total"], told["start"]) == ("characters", len(lines), start)
        read, before, start = read + told["messages"][0]["text"], start, told["next"]
    assert read == lines
    assert "continue with --start" in run("expand", *at).out
    last = run("expand", *at, "--start", str(before)).out
    assert f"characters {before + 1:,} to {len(lines):,} of {len(lines):,} characters" in last
    assert "go on" not in last


# --- checkpoints ----------------------------------------------------------------------------------


def test_checkpoints_are_a_tree_with_levels_spans_and_tokens(run, told, chat, sample):
    """US-2, FR-4: the live ones on top, below each those it was made of."""
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        for message in wiring.read_transcript(sample).messages[120:]:
            ctx.add_message(message)
            ctx.get_context_for_model()
            if any(checkpoint.parents for checkpoint in ctx.checkpoints):
                break
    told_of = told("show", "checkpoints")
    rows = {row["id"]: row for row in told_of["checkpoints"]}
    live = [row for row in rows.values() if row["live"]]
    aged = [row for row in live if row["parents"]]
    assert aged, "some have aged"
    lines = run("show", "harb", "checkpoints", "--store", chat).out.splitlines()
    for row in live:
        line = next(line for line in lines if row["id"] in line)
        assert row["level"] in line
        assert f"messages {row['first']} to {row['last']}" in line
        assert line.endswith(f"> {row['tokens']:,}")
    for row in aged:
        above = next(i for i, line in enumerate(lines) if row["id"] in line)
        below = next(i for i, line in enumerate(lines) if row["parents"][0] in line)
        depth = [lines[i].index("ck-") for i in (above, below)]
        assert above < below
        assert depth[0] < depth[1]


def test_a_checkpoint_can_be_read(run, told, chat, refused):
    """US-2."""
    row = told("show", "checkpoints")["checkpoints"][-1]
    whole = told("show", row["id"])
    assert whole["summary"]
    done = run("show", "harb", row["id"][:9], "--store", chat)
    assert whole["summary"].splitlines()[0] in done.out
    assert "no checkpoint 'ck-q'" in refused("show", "ck-q")


def test_all_checkpoints_are_those_of_other_windows_too(run, chat, told):
    run("sessions", "compress", "harb", "--store", chat, "--window", "6000")
    every = {row["id"] for row in told("show", "checkpoints")["checkpoints"]}
    out = run("show", "harb", "checkpoints", "--store", chat, "--all", "--window", "4000").out
    assert "not in this context" in out
    assert all(name in out for name in every)


# --- going back -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_undo_goes_back_step_by_step(told, refused):
    """FR-10: to what was in force before."""
    places = [told("show", "context")["checkpoints"]]
    while True:
        try:
            places.append(told("undo")["checkpoints"])
        except AssertionError:
            break
    assert len(places) > 2
    assert places[-1] == [], "the bare history"
    assert "nothing to undo" in refused("undo")


def test_a_snapshot_is_restored_and_what_came_after_is_kept(told, chat, refused):
    """FR-10: nothing is lost by going back."""
    name, before = snapped(chat, "before"), told("show", "context")
    with ContextManager(window=4_000, store=chat, session_id="harbour") as ctx:
        ctx.add_message(role="user", content="And now for something else.")
    assert told("show", "history")["total"] == 121
    told("undo", "--to", name[:7])
    after = told("show", "context")
    assert (after["at"], after["messages"]) == (120, before["messages"])
    assert told("show", "history", "--branch", "harbour")["total"] == 121
    assert "no snapshot 'sn-q'" in refused("undo", "--to", "sn-q")


def test_a_snapshot_is_restored_for_its_own_window(told, chat):
    name = snapped(chat)
    with ContextManager(window=8_000, store=chat, session_id="harbour") as ctx:
        ctx.compress_conversation()
    assert told("show", "context")["window"] == 8_000, "the one it was used with last"
    assert told("undo", "--to", name)["window"] == 4_000


def test_undo_leaves_a_branch(told, chat):
    branched(chat, 40)
    assert told("show")["branch"] == "harbour~2"
    assert told("undo")["branch"] == "harbour"
    assert told("show", "history")["total"] == 120


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["histry"], "did you mean 'history'"),
        (["history", "--at", "9"], "--at is for: show SESSION context"),
        (["context", "--from", "9"], "--from is for: show SESSION history"),
        (["--full"], "--full is for: show SESSION context or history"),
        (["ck-1", "--most", "1"], "--most is for"),
    ],
)
def test_an_option_of_another_part_is_not_passed_over(refused, given, reason):
    assert reason in refused("show", *given)


# --- pipes and poor terminals ---------------------------------------------------------------------


def test_context_counts_messages_as_history_does(run, chat):
    """From 0, like all that names a message by its number."""
    at = ("--store", chat)
    rows = run("show", "harbour", "context", *at).out.splitlines()[-2:]
    assert rows == run("show", "harbour", "history", *at, "--most", "2").out.splitlines()[-2:]
    full = run("show", "harbour", "context", *at, "--full", "--most", "1").out
    assert "\n119 · m119 · " in full


def test_one_number_for_what_a_model_sees(run, sample):
    """A call that nobody answered is answered by a note, which counts."""
    assert run("sessions", "import", sample).code == 0
    seen = json.loads(run("show", "harbour", "context", "--json").out)
    shown = json.loads(run("show", "harbour", "--json").out)
    assert seen["tokens"] == shown["now"]["tokens"]


def test_of_a_file_with_several_conversations_one_must_be_made_a_session(run, fixtures):
    export = str(fixtures / "chatgpt_export.json")
    for command in ("recall", "expand"):
        conftest.refused(run(command, export, "1"), "holds 2 conversations", "sessions import")
