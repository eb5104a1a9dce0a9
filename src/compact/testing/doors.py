"""The conformance suite for adapters of agent frameworks, called doors here.

A door makes agents of a framework, with compact in front of their model or without it. The model is
a `Judge`: it plays a script, counts each prompt with its own rules, refuses one that does not fit
and notes each broken sequence of calls and results. From the command line:

    pytest -p compact.testing.doors --compact-door=my_package.my_door:MyDoor

The name stands for something that returns a `Door` when it is called. In tests of your own, call
each of `PROMISES` with a `Suite` of the door.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib import import_module
from itertools import pairwise, takewhile
from typing import Any, Literal, NamedTuple, Protocol, Unpack

import pytest

from compact import CompactConfig, CompactManager, TiktokenEstimator
from compact.errors import CompactError, StoreFailed
from compact.messages.events import Committed, Event
from compact.messages.sessions import Entry
from compact.session.compact_manager import ManagerOptions
from compact.store.inmemory import InMemoryStore

Dict = dict[str, Any]
How = Literal["sync", "async", "stream"]
WINDOW, TURNS = 4_096, 100
"""The judge's window in tokens, and the number of turns of a conversation."""
HUGE = (19, 44, 69, 94)
"""Turns in which the tool returns more than the whole window."""
NEEDS = {
    3: "From now on always write dates as 2031-05-17.",
    17: "Never touch the file ledger-41.csv.",
    31: "Please remember that the harbour master listens on channel 73.",
    52: "Always deploy from the branch green-lantern.",
}
"""Turn → what a person says in it, and what the last prompt must still contain."""
LEAST_STABLE, LEAST_BETWEEN = 0.85, 0.99
"""The share of a prompt with which the next prompt must begin: over all prompts, and over those
without a compression between them. Providers charge less for that share."""
PER_MESSAGE = 4
"""Tokens of a message besides its texts."""


class Tool(NamedTuple):
    """A tool that is offered to the agent's model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON schema of the tool's arguments."""
    call: Callable[[str], str]
    """The tool's function. Its one argument is named `item`."""


class Agent(Protocol):
    """One conversation of a framework's agent."""

    def turn(self, text: str, how: How = "sync") -> object:
        """Send that text to the agent, and run it until it answers. The framework's own store of
        messages must continue from the previous turn.
        """

    def state(self) -> Sequence[Mapping[str, Any]]:
        """Return the messages that the framework keeps, as JSON with their ids and metadata."""


class Door(Protocol):
    """An adapter for a framework."""

    hows: Sequence[How]
    """The ways in which the framework can run an agent."""

    def agent(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> Agent:
        """Make an agent for the conversation `thread`. Its model sends each prompt to
        `judge.answer` as messages of Chat Completions. It lets `Refused` pass as it lets its
        client's errors pass. Without a manager the agent has no adapter.
        """


class Edits(Protocol):
    """An agent whose framework can edit past messages. Others skip the test of edits."""

    def edit(self, turns: int, text: str) -> object:
        """Go back to before the turn of that number, and send this text instead."""


class Refused(Exception):
    """The judge refuses a prompt as too large, in the words of an OpenAI server."""


# --- the model ------------------------------------------------------------------------------------


class Judge:
    """The scripted model of one conversation. `window` is its limit; None accepts every prompt."""

    def __init__(self, window: int | None = WINDOW) -> None:
        self.window = window
        self.turn = -1
        self.prompts: list[list[Dict]] = []
        """The accepted prompts, in order."""
        self.turn_of: list[int] = []
        """The turn of each accepted prompt."""
        self.tokens = 0
        """Tokens of the last prompt. `sent` is the sum over all accepted prompts."""
        self.sent = 0
        self.refusals = 0
        self.faults: list[str] = []

    def answer(self, messages: Sequence[Mapping[str, Any]], tools: object = ()) -> Dict:
        """Return the answer as a message of Chat Completions. In each turn it first calls a tool.
        In some turns it calls two at once.

        Raises:
            Refused: the prompt is larger than the window.
        """
        prompt: list[Dict] = json.loads(json.dumps(list(messages)))
        self.tokens = sum(map(_tokens, prompt)) + _count(json.dumps(tools))
        if self.window is not None and self.tokens > self.window:
            self.refusals += 1
            raise Refused(
                f"This model's maximum context length is {self.window} tokens. However, your "
                f"messages resulted in {self.tokens} tokens."
            )
        self.sent += self.tokens
        is_new = self.turn not in self.turn_of
        self.faults += (f"turn {self.turn}: {fault}" for fault in _broken(prompt))
        self.prompts.append(prompt)
        self.turn_of.append(self.turn)
        if not is_new:
            said = f"Beam {self.turn} holds, as the register says. " * 3
            return {"role": "assistant", "content": said}
        calls = range(2 if self.turn % 10 == 5 else 1)
        return {"role": "assistant", "content": "", "tool_calls": [self._call(n) for n in calls]}

    def _call(self, number: int) -> Dict:
        arguments = json.dumps({"item": f"beam-{self.turn}-{number}"})
        function = {"name": "lookup", "arguments": arguments}
        return {"id": f"call_{self.turn}_{number}", "type": "function", "function": function}


@cache
def _vocabulary() -> TiktokenEstimator:
    return TiktokenEstimator("o200k")


@lru_cache(maxsize=20_000)
def _count(text: str) -> int:
    return _vocabulary().count(text)


def _tokens(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls") or ()
    texts = [text for call in calls for text in call["function"].values()]
    return PER_MESSAGE + sum(map(_count, (words_of(message), *texts)))


def words_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message of Chat Completions."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content)


def _broken(prompt: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a provider refuses in a prompt, such as a result without its call."""
    due: set[str] = set()
    for message in prompt:
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in due:
                yield f"a result without a call: {message.get('tool_call_id')}"
            due.discard(str(message.get("tool_call_id")))
            continue
        if due:
            yield f"calls without results: {sorted(due)}"
        due = {call["id"] for call in message.get("tool_calls") or ()}
    if due:
        yield f"calls without results at the end: {sorted(due)}"
    if prompt and prompt[-1].get("role") == "assistant":
        yield "the prompt ends with an answer"


def lookup(item: str) -> str:
    """Return the tool's answer for an item."""
    turn = int(item.split("-")[1])
    if turn % 10 == 7:
        return f"Error: {item} cannot be reached, the ladder is missing"
    lines = 400 if turn in HUGE else 6
    return "\n".join(f"{item} line {i}: length {i * 37 % 991} mm, sound" for i in range(lines))


TOOL = Tool(
    "lookup",
    "Look an item up in the register.",
    {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    lookup,
)


def said_in(turn: int, thread: str) -> str:
    """Return what the person says in a turn."""
    return NEEDS.get(turn) or f"Please check beam {turn} of the {thread}."


# --- runs -----------------------------------------------------------------------------------------


class Run:
    """Turns of one agent, and the states of the framework after every tenth turn."""

    def __init__(
        self,
        door: Door,
        *,
        how: How = "sync",
        manager: CompactManager | None = None,
        judge: Judge | None = None,
        thread: str = "harbour",
    ) -> None:
        self.judge, self.how, self.thread = judge or Judge(), how, thread
        self.states: list[list[Any]] = []
        self.agent = door.agent(self.judge, [TOOL], manager, thread)

    def turns(self, first: int, stop: int) -> Run:
        """Run these turns. A turn with a refused prompt ends, and the refusal is counted."""
        for number in range(first, stop):
            self.judge.turn = number
            refusals = self.judge.refusals
            try:
                self.agent.turn(said_in(number, self.thread), self.how)
            except Exception:
                if self.judge.refusals == refusals:
                    raise
            if number % 10 == 9:
                self.states.append(json.loads(json.dumps(list(self.agent.state()))))
        return self

    def stable(self, is_counted: Callable[[int], bool] = lambda _: True) -> float:
        """Return the share of the prompts' characters with which the next prompt begins."""
        same = all_of = 0
        for at, (one, other) in enumerate(pairwise(self.judge.prompts), 1):
            if is_counted(at):
                before, after = ([json.dumps(m, sort_keys=True) for m in p] for p in (one, other))
                all_of += sum(map(len, before))
                pairs = zip(before, after, strict=False)
                same += sum(len(a) for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return same / max(1, all_of)


def manager_of(window: int = WINDOW, **options: Unpack[ManagerOptions]) -> CompactManager:
    """Return a manager for the suite's model."""
    config = CompactConfig(max_context_tokens=window, tokenizer="o200k", summarizer="extractive")
    return CompactManager(config, **options)


class Suite:
    """The runs of a door. Each is made once."""

    def __init__(self, door: Door) -> None:
        self.door = door

    @cached_property
    def long(self) -> tuple[Run, set[int]]:
        """The run of a hundred turns, and the numbers of the prompts that follow a compression."""
        compressed: set[int] = set()
        run: list[Run] = []

        def hear(event: Event) -> None:
            if isinstance(event, Committed):
                compressed.add(len(run[0].judge.prompts))

        with manager_of(on_event=hear) as manager:
            run.append(Run(self.door, manager=manager))
            return run[0].turns(0, TURNS), compressed


# --- promises -------------------------------------------------------------------------------------


def no_overflow(suite: Suite) -> None:
    """No prompt of a hundred turns is too large, though four results exceed the window."""
    judge = suite.long[0].judge
    assert judge.refusals == 0, f"{judge.refusals} prompts did not fit"
    assert len(judge.prompts) == 2 * TURNS
    assert suite.long[1], "nothing was compressed: the adapter does nothing"


def no_broken_sequence(suite: Suite) -> None:
    """No call is without its result, and no result is without its call."""
    faults = suite.long[0].judge.faults
    assert not faults, f"{len(faults)} broken sequences: {faults[:3]}"


def state_is_the_hosts_own(suite: Suite) -> None:
    """The framework has as many messages as in a run without compact, with the same texts. The
    messages of a turn never change later, nor do their ids and metadata.
    """
    run, alone = suite.long[0], Run(suite.door, judge=Judge(window=None)).turns(0, 30)
    for number, (before, after) in enumerate(pairwise(run.states), 1):
        assert after[: len(before)] == before, f"what was said before turn {10 * number} changed"
    ours, theirs = run.states[2], alone.states[2]
    assert len(ours) == len(theirs), f"{len(ours)} messages with compact, {len(theirs)} without"
    for one, other in zip(ours, theirs, strict=True):
        assert [*_words(one)] == [*_words(other)], f"{one} with compact, {other} without"


def prefix_is_stable(suite: Suite) -> None:
    """Each prompt begins like the one before, so that a provider's cache is used."""
    run, compressed = suite.long
    share, between = run.stable(), run.stable(lambda at: at not in compressed)
    assert share >= LEAST_STABLE, f"{share:.3f} of a prompt is in the next one"
    assert between >= LEAST_BETWEEN, f"{between:.3f} between compressions"


def needs_are_kept(suite: Suite) -> None:
    """The last prompt contains what a person asked for long ago."""
    last = "\n".join(map(words_of, suite.long[0].judge.prompts[-1]))
    missing = [need for turn, need in NEEDS.items() if turn < TURNS and need not in last]
    assert not missing, f"the last prompt lacks {missing}"


def ways_agree(suite: Suite) -> None:
    """An agent sends the same prompts whether it is run, awaited or streamed."""
    runs: dict[str, list[list[str]]] = {}
    for how in suite.door.hows:
        with manager_of() as manager:
            run = Run(suite.door, how=how, manager=manager).turns(0, 25)
        runs[how] = [[_without_keys(words_of(m)) for m in p] for p in run.judge.prompts]
    first, *others = runs.items()
    for other, prompts in others:
        assert prompts == first[1], f"{other} sends other prompts than {first[0]}"


def an_edit_is_taken(suite: Suite) -> None:
    """After an edit of the past the model reads the new text and not the old one."""
    with manager_of() as manager:
        run = Run(suite.door, manager=manager).turns(0, 30)
        edit = getattr(run.agent, "edit", None)
        if edit is None:
            pytest.skip("the door's agents have no edit()")
        run.judge.turn = 130
        edit(27, "Please look at the gutter, beam 130.")
        last = "\n".join(map(words_of, run.judge.prompts[-1]))
        assert "look at the gutter" in last, "the new words are not sent"
        assert "beam 28" not in last, "the old words are still sent"
        assert not run.judge.faults, run.judge.faults[:3]
        assert not run.judge.refusals, f"{run.judge.refusals} prompts did not fit"


def threads_are_apart(suite: Suite) -> None:
    """Two conversations run at the same time in two threads. Neither reads the other's messages."""
    failed: list[BaseException] = []
    turn = threading.Barrier(2)

    def talk(run: Run) -> None:
        try:
            for number in range(25):
                turn.wait()
                run.turns(number, number + 1)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            failed.append(error)
            turn.abort()

    with manager_of() as manager:
        runs = [Run(suite.door, manager=manager, thread=name) for name in ("harbour", "castle")]
        threads = [threading.Thread(target=talk, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed, failed[0]
    for run, other in (runs, runs[::-1]):
        words = "\n".join(words_of(m) for prompt in run.judge.prompts for m in prompt)
        assert f"of the {other.thread}" not in words, f"{run.thread} reads what {other.thread} said"
        assert not run.judge.refusals, f"{run.judge.refusals} prompts of {run.thread} did not fit"
        assert not run.judge.faults, run.judge.faults[:3]


class _Away(InMemoryStore):
    is_away = False

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        if self.is_away:
            raise StoreFailed("no space left on the device")
        return super().append(branch_id, entries, expected=expected)


def the_store_may_be_away(suite: Suite) -> None:
    """A store that fails does not stop the agent, and prompts still fit."""
    store = _Away()
    with manager_of(store=store) as manager:
        run = Run(suite.door, manager=manager).turns(0, 20)
        store.is_away = True
        run.turns(20, 25)
        store.is_away = False
        run.turns(25, 30)
    assert run.judge.refusals == 0, f"{run.judge.refusals} prompts did not fit"
    assert not run.judge.faults, run.judge.faults[:3]


def wrong_settings_fail_at_start(suite: Suite) -> None:
    """A tokenizer that does not exist is reported when the agent is made, not later."""
    config = CompactConfig(max_context_tokens=WINDOW, tokenizer="no-such-tokenizer")
    with CompactManager(config) as manager:
        try:
            Run(suite.door, manager=manager)
        except CompactError:
            return
    raise AssertionError("the agent was made with a tokenizer that does not exist: call check()")


def what_fits_is_not_touched(suite: Suite) -> None:
    """In a window with room for all, the model gets the same bytes as without compact."""
    with manager_of(window=1_000_000) as manager:
        run = Run(suite.door, manager=manager, judge=Judge(window=None)).turns(0, 25)
    alone = Run(suite.door, judge=Judge(window=None)).turns(0, 25)
    ours, theirs = (list(map(json.dumps, r.judge.prompts)) for r in (run, alone))
    assert ours == theirs, "prompts are changed that need no change"


PROMISES: tuple[Callable[[Suite], None], ...] = (
    no_overflow,
    no_broken_sequence,
    state_is_the_hosts_own,
    prefix_is_stable,
    needs_are_kept,
    ways_agree,
    an_edit_is_taken,
    threads_are_apart,
    the_store_may_be_away,
    wrong_settings_fail_at_start,
    what_fits_is_not_touched,
)


def _words(value: object) -> Iterator[str]:
    """Yield the texts in a framework's message that the suite wrote, without ids and times."""
    if isinstance(value, str) and ("beam" in value.lower() or value in NEEDS.values()):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _words(each)
    elif isinstance(value, list):
        for each in value:
            yield from _words(each)


def _without_keys(text: str) -> str:
    """Return the text without a checkpoint's heading, which depends on the session's key."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("["))


# --- the plugin of pytest -------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--compact-door`."""
    parser.addoption("--compact-door", help="MODULE:NAME of what makes the door to test")


def pytest_configure(config: pytest.Config) -> None:
    """If a door is given, run only this file."""
    if config.getoption("--compact-door"):
        config.args[:] = [__file__]


@cache
def _suite(name: str) -> Suite:
    module, _, made = name.partition(":")
    return Suite(getattr(import_module(module), made)())


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_door(promise: Callable[[Suite], None], pytestconfig: pytest.Config) -> None:
    """Test the door given on the command line against one promise."""
    promise(_suite(pytestconfig.getoption("--compact-door")))
