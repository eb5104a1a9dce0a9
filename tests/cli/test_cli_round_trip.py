"""A session goes into a file and comes back as the same session (US-8, MIG): every branch,
checkpoint, goal, pin, mode and snapshot, and the same bytes for a model.
"""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compact import ContextManager
from compact.cli.main import main
from compact.errors import CompactError
from compact.exchange.exporting import without_secrets
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Projection, Session, Shown
from compact.secrets.redactor import Redactor
from compact.store.session_file import SessionFile
from compact.store.sqlite.store import SQLiteManager
from compact.store.whole_session import OwnPart, WholeSession
from tests.sizes import size

ROOT = Path(__file__).resolve().parents[2]
VERSION_1 = ROOT / "tests/fixtures/exports/version_1.json"
WINDOW = 1_500


def told(number):
    return f"Beam {number} is {number * 7} cm thick, and it stands at the north wall. " * 6


def lived(file):
    """A session in which everything has happened that can, beside another one."""
    with ContextManager(window=WINDOW, store=file, session_id="beside") as ctx:
        ctx.goals.set(["Something else"])
        ctx.add_message(role="user", content="Hello")
    with ContextManager(window=WINDOW, store=file, session_id="roof", title="The roof") as ctx:
        ctx.add_message(role="system", content="Answer like a carpenter.")
        for number in range(40):
            role = "user" if number % 2 == 0 else "assistant"
            ctx.add_message(role=role, content=told(number))
            if number == 8:
                ctx.goals.set(["Mend the roof before winter", "Ask the neighbour"])
                ctx.pin(ctx.history[3])
            if number == 14:
                ctx.add_message(role="assistant", content="[CHECKPOINT] Order slates - COMPLETED")
                ctx.set_mode("developer")
                ctx.put_aside(ctx.history[5])
            if number in (20, 30):
                ctx.time.snapshot(f"at {number}")
            ctx.get_context_for_model()
        with ContextManager(window=3_000, store=file, session_id="roof") as wider:
            wider.get_context_for_model()
        ctx.time.undo()
        ctx.time.branch(at=12)
        ctx.add_message(role="user", content="Let us try larch instead.")
        ctx.time.branch(at=5)
        ctx.time.restore(ctx.time.snapshots()[1].id)
        for number in range(50, 60):
            ctx.add_message(role="user", content=told(number))
            ctx.get_context_for_model()


def seen(file, name="roof"):
    """What models of some windows see of a session, and what a person sees."""
    found = []
    for window in (WINDOW, 3_000, 16_000):
        with ContextManager(window=window, store=file, session_id=name) as ctx:
            goals = [goal.model_dump() for goal in ctx.goals]
            shown = [message.model_dump() for message in ctx.time.context_at(20).messages]
            found += [ctx.get_context_for_model(), shown, goals, ctx.mode, list(ctx.history.fixed)]
    return json.dumps(found, default=str)


def there_and_back(run, file, folder, *more):
    """The bytes of an export, and of the export of its import."""
    first, second, other = folder / "1.json", folder / "2.json", folder / "other.db"
    assert run("sessions", "export", "roof", "--store", file, "-o", first, *more).code == 0
    assert run("sessions", "import", first, "--store", other).code == 0
    assert run("sessions", "export", "roof", "--store", other, "-o", second, *more).code == 0
    return first.read_bytes(), second.read_bytes()


def test_a_session_comes_back_to_the_last_byte(run, tmp_path):
    """Of the file, and of what a model sees."""
    file = tmp_path / "chat.db"
    lived(file)
    first, second = there_and_back(run, file, tmp_path)
    assert first == second
    value = json.loads(first)
    counts = {name: len(value[name]) for name in ("branches", "checkpoints", "snapshots", "moves")}
    assert all(count > 1 for count in counts.values()), counts
    assert {change["what"]["kind"] for change in value["changes"]} >= {
        *("goals", "tracked", "mode", "pin", "aside"),
    }
    kinds = [change["what"]["kind"] for change in value["changes"]]
    tracked = value["changes"][kinds.index("tracked")]
    assert tracked["what"]["since"] == kinds.index("goals") + 1, "by its place in the file"
    other = tmp_path / "other.db"
    with SQLiteManager(other) as store:
        assert store.integrity_check() == []
    assert seen(other) == seen(file)


def test_a_copy_under_another_id_is_the_same_to_a_model_and_its_own(run, tmp_path):
    file = tmp_path / "chat.db"
    lived(file)
    run("sessions", "export", "roof", "--store", file, "-o", "r.json")
    assert run("sessions", "import", "r.json", "--store", file, "--as", "copy").out == "copy\n"
    before = seen(file)
    assert seen(file, "copy") == before
    run("sessions", "import", "r.json", "--store", "other.db")
    undone = []
    for store, name in ((file, "copy"), ("other.db", "roof")):
        with ContextManager(window=WINDOW, store=store, session_id=name) as ctx:
            ctx.time.undo()
            undone.append(json.dumps(ctx.get_context_for_model()))
            ctx.time.undo()
            undone.append(json.dumps(ctx.get_context_for_model()))
    assert undone[:2] == undone[2:]
    with ContextManager(window=WINDOW, store=file, session_id="copy") as ctx:
        ctx.time.restore(ctx.time.snapshots()[0].id)
        ctx.add_message(role="user", content="Mine alone.")
    assert seen(file) == before
    with SQLiteManager(file) as store:
        assert store.integrity_check() == []
        moves = store.moves("copy", most=1_000)
        theirs = {move.projection_id for move in store.moves("roof", most=1_000)}
        assert not {each for move in moves for each in (move.before, move.projection_id)} & (
            theirs - {None}
        )
        named = {branch.id for branch in store.branches("copy")}
        assert all(name.startswith("copy") for name in named)
        assert not named & {branch.id for branch in store.branches("roof")}


KINDS = (
    *("say", "say", "say", "ask", "ask", "undo", "redo", "branch", "snapshot", "restore", "pin"),
    *("goals", "mode", "aside", "compress"),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 30),
    ),
    max_size=40,
)


def live(file, steps):
    """Do with a session what the steps say, as far as it can be done."""
    with ContextManager(window=900, store=file, session_id="roof") as ctx:
        ctx.add_message(role="user", content="Let us begin.")
        for kind, number in steps:
            try:
                step(ctx, kind, number)
            except (CompactError, ZeroDivisionError):  # there is no snapshot yet
                continue


def step(ctx, kind, number):
    message = ctx.history[number % len(ctx.history)]
    done = {
        "say": lambda: ctx.add_message(
            role=("assistant", "user")[number % 2],
            content=f"{number}: " + told(number)[: number * 20],
        ),
        "ask": ctx.get_context_for_model,
        "undo": ctx.time.undo,
        "redo": ctx.time.redo,
        "branch": lambda: ctx.time.branch(at=number % (len(ctx.history) + 1)),
        "snapshot": lambda: ctx.time.snapshot(f"n{number}"),
        "restore": lambda: ctx.time.restore(
            ctx.time.snapshots()[number % len(ctx.time.snapshots())].id
        ),
        "pin": lambda: ctx.pin(message),
        "goals": lambda: ctx.goals.set([f"Goal {number}"]),
        "mode": lambda: ctx.set_mode(("developer", "planning")[number % 2]),
        "aside": lambda: ctx.put_aside(message),
        "compress": ctx.compress_conversation,
    }
    done[kind]()


@pytest.mark.slow
@settings(
    max_examples=size(25, 150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(STEPS)
def test_whatever_was_done_with_a_session_it_comes_back(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("there")
    file = folder / "chat.db"
    live(file, steps)

    class Done:
        code = 0

    def run(*arguments):
        done = Done()
        done.code = main([str(each) for each in arguments])
        return done

    first, second = there_and_back(run, file, folder, "--verbatim")
    assert first == second
    with (
        ContextManager(window=900, store=file, session_id="roof") as one,
        ContextManager(window=900, store=folder / "other.db", session_id="roof") as other,
    ):
        assert one.get_context_for_model() == other.get_context_for_model()
        assert one.goals == other.goals
        assert one.mode == other.mode


def test_a_redacted_export_says_so_and_comes_in_as_what_it_is(run, tmp_path):
    file, secret = tmp_path / "chat.db", "hunter2horse"
    with ContextManager(window=900, store=file, session_id="roof") as ctx:
        ctx.add_message(role="system", content=f"The gate: password: {secret}")
        for number in range(12):
            ctx.add_message(role="user", content=told(number) + f" password: {secret}")
            ctx.get_context_for_model()
        ctx.goals.set([f"Change the password: {secret}"])
        ctx.time.snapshot(f"password: {secret}")
        ctx.time.branch(at=4)
        ctx.add_message(role="user", content=f"Here too: password: {secret}")
    first, second = there_and_back(run, file, tmp_path)
    assert secret.encode() not in first
    assert b"key:" not in first, "by its key others could write what it takes for its own"
    value = json.loads(first)
    assert value["redacted"] is True
    assert value["session"]["metadata"]["redacted"] is True
    assert first == second
    with ContextManager(window=900, store="other.db", session_id="roof") as ctx:
        sent = json.dumps(ctx.get_context_for_model())
        assert "<REDACTED:password>" in sent
        assert secret not in sent
        assert len(ctx.history) == 5
    with SQLiteManager("other.db") as store:
        assert store.integrity_check() == []
        assert store.session("roof").metadata["redacted"] is True
    done = run("sessions", "export", "roof", "--store", file, "-o", "n.json", "--json")
    report = json.loads(done.out)
    assert (report["redacted"], report["redacted_messages"]) == (True, 14), "of all branches"
    verbatim = run("sessions", "export", "roof", "--store", file, "--verbatim").out
    assert "redacted" not in json.loads(verbatim)
    assert secret in verbatim


def test_a_heading_of_our_own_is_no_secret():
    """Its digest may look like the number of a card; what stands below it is looked through."""
    branch = Branch(id="s", session_id="s")
    heading = "[Record · as of message 10 · digest 378282246310005]\n"

    def redacted(words):
        record = Message(role="user", content=heading + words)
        projection = Projection(
            id="p", window=900, number=1, at=0, cut=0, tokens=9, pieces=(Shown(record),)
        )
        session = Session(id="s", branch=branch)
        whole = WholeSession(session, [OwnPart(branch, ())], projections=[projection])
        file = SessionFile(session, (), whole=whole)
        return file, without_secrets(file, Redactor())

    file, same = redacted("For reference only.")
    assert same is file
    _, other = redacted("password: hunter2horse")
    assert other.is_redacted
    (shown,) = other.whole.projections[0].pieces
    assert shown.message.content == heading + "password: <REDACTED:password>"


def test_another_system_prompt_is_still_shown_where_secrets_were_replaced(run, tmp_path):
    """It is known by the hash of the one that it stands for, which is another one by then."""
    file, secret = tmp_path / "chat.db", "hunter2horse"
    said = [{"role": "user", "content": "Is the gate shut?"}]
    with ContextManager(window=2_000, store=file, session_id="roof") as ctx:
        ctx.sync([{"role": "system", "content": f"password: {secret}"}, *said])
        ctx.sync([{"role": "system", "content": f"Be brief. password: {secret}"}, *said])
        assert ctx.get_context_for_model()[0]["content"].startswith("Be brief.")
    first, second = there_and_back(run, file, tmp_path)
    assert first == second
    assert secret.encode() not in first
    with ContextManager(window=2_000, store="other.db", session_id="roof") as ctx:
        shown = ctx.get_context_for_model()[0]["content"]
    assert shown == "Be brief. password: <REDACTED:password>"


def test_exports_of_version_1_are_still_read(run):
    """One branch with goals and pins; its checkpoints are made anew."""
    done = run("sessions", "import", VERSION_1, "--store", "s.db")
    assert done.out == "roof\n"
    assert "checkpoints: the next compression makes new ones" in done.err
    with ContextManager(window=700, store="s.db", session_id="roof") as ctx:
        assert [message.id for message in ctx.history] == [f"m{n}" for n in range(14)]
        assert [goal.text for goal in ctx.goals] == ["Mend the roof before winter"]
        assert list(ctx.history.fixed) == [2]
        assert ctx.get_context_for_model()


def test_an_export_can_be_migrated(run, tmp_path):
    """With everything in it; and once only."""
    file = tmp_path / "chat.db"
    lived(file)
    (tmp_path / "old").mkdir()
    run("sessions", "export", "roof", "--store", file, "-o", "old/roof.json")
    for outcome in ("new", "there"):
        done = run("migrate", "old", "--store", "new.db", "--json")
        (row,) = json.loads(done.out)["conversations"]
        assert (row["outcome"], row["format"]) == (outcome, "compact_session")
    assert seen("new.db") == seen(file)
    done = json.loads(run("migrate", "old", "--store", file, "--json").out)
    assert done["outcomes"] == {"there": 1}
