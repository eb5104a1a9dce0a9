"""The slash commands. Each is a function that returns an outcome. None of them draws."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from compact import wiring
from compact.errors import InvalidArgument, NotFound
from compact.messages.goals import GoalStatus
from compact.messages.sessions import CHAT_NOTE
from compact.telemetry.plain_words import counted
from compact.text.recalls import PAGE
from compact.tui import choices, looks, slash
from compact.tui.dialogue import Dialogue
from compact.tui.following import covered_by
from compact.tui.opening import window_for

ON_A_PAGE = 40
"""How many messages a page of the history shows."""
EXPANDED = 20_000
"""The most tokens of a checkpoint's messages that are shown."""


@dataclass(frozen=True)
class ActionOutcome:
    """What a command did: a text for the transcript, or a page to open."""

    words: str = ""
    page: looks.ReadingPage | None = None
    """A page to open. None: no page."""


Action = Callable[[Dialogue, str], Awaitable[ActionOutcome]]


async def undo(talk: Dialogue, _: str) -> ActionOutcome:
    """Undo the last compression, restore or branch."""
    return await _moved(talk, talk.ctx.time.undo, "Undone")


async def redo(talk: Dialogue, _: str) -> ActionOutcome:
    """Reverse the last undo."""
    return await _moved(talk, talk.ctx.time.redo, "Done again")


async def _moved(talk: Dialogue, go: Callable[[], None], done: str) -> ActionOutcome:
    ctx = talk.ctx
    branch, covered = ctx.branch_id, covered_by(ctx)
    await asyncio.to_thread(go)
    if ctx.branch_id != branch:
        what = f"the step to another branch; this one has {counted(len(ctx.history), 'message')}"
    elif messages := abs(covered_by(ctx) - covered):
        what = f"the compression of {counted(messages, 'message')}"
    else:
        what = "a compression that shortened what is in view"
    made = counted(len(ctx.checkpoints), "checkpoint")
    return ActionOutcome(f"{done}: {what}. In view: {made}. /undo and /redo go on.")


async def checkpoints(talk: Dialogue, argument: str) -> ActionOutcome:
    """Show the checkpoints. With a number, show the messages that this checkpoint replaces."""
    live = talk.ctx.checkpoints
    if not argument:
        return ActionOutcome(page=looks.checkpoints_page(live))
    chosen = live[_number(argument, "checkpoint", 1, len(live)) - 1]
    page = await asyncio.to_thread(talk.ctx.expand, chosen.id, max_tokens=EXPANDED)
    left = page.total - len(page.messages)
    blocks = [(m.role, looks.words_of(m)) for m in page.messages]
    more = [(f"{counted(left, 'message')} more: /history", "")] if left and page.next else []
    return ActionOutcome(page=looks.ReadingPage(f"Behind checkpoint {argument}", [*blocks, *more]))


async def goal(talk: Dialogue, argument: str) -> ActionOutcome:
    """List the goals, add one, or end one."""
    goals = list(talk.ctx.goals)
    word, _, rest = argument.partition(" ")
    ends: Mapping[str, GoalStatus] = {"done": "done", "drop": "dropped"}
    if word in ends and rest.strip().isdecimal():
        place = _number(rest, "goal", 1, len(goals)) - 1
        goals[place] = goals[place].model_copy(update={"status": ends[word]})
        await asyncio.to_thread(talk.ctx.goals.set, goals)
        return ActionOutcome(f"{ends[word].capitalize()}: {goals[place].text}")
    if argument:
        await asyncio.to_thread(talk.ctx.goals.set, [*goals, argument])
        return ActionOutcome(f"A goal from now on, in every prompt: {argument}")
    rows = [f"{number}. {each.text} ({each.status})" for number, each in enumerate(goals, 1)]
    return ActionOutcome("\n".join(rows) or "There are no goals; /goal TEXT adds one.")


async def mode(talk: Dialogue, argument: str) -> ActionOutcome:
    """Show or set the mode."""
    if argument:
        await asyncio.to_thread(talk.ctx.set_mode, argument.lower())
        return ActionOutcome(f"The mode is {talk.ctx.mode} from now on.")
    rows = [f"{name} – {keeps}" for name, keeps in slash.KEEPS.items()]
    return ActionOutcome("\n".join([f"The mode is {talk.ctx.mode}. Summaries keep first:", *rows]))


async def model(talk: Dialogue, argument: str) -> ActionOutcome:
    """List the models, or continue with another model."""
    if not argument:
        rows = [f"{each.key} – {each.about}" for each in await choices.choices()]
        return ActionOutcome("\n".join([f"You talk to {talk.model}. There are:", *rows]))
    wiring.chat_model(argument)  # refuse an invalid key before anything changes
    window = await window_for(talk.setup.settings, argument)
    await asyncio.to_thread(talk.ctx.set_model, argument, window)
    await asyncio.to_thread(talk.ctx.store.note, talk.ctx.id, CHAT_NOTE, {"model": argument})
    talk.model = argument
    size = counted(talk.ctx.window.size, "token")
    return ActionOutcome(f"You talk to {argument} from now on; its window has {size}.")


async def pin(talk: Dialogue, argument: str) -> ActionOutcome:
    """Pin a message, unpin it, or list the pinned messages."""
    word, _, rest = argument.partition(" ")
    if word == "list":
        return ActionOutcome("\n".join(_pin_lines(talk)) or "Nothing is pinned; /pin N does it.")
    is_off = word == "off"
    number = (rest if is_off else argument).removeprefix("#").strip()
    history = talk.ctx.history
    last = len(history) - 1
    place = _number(number, "message", 0, last) if number else last
    if place < 0:
        raise NotFound("there is no message yet")
    was_pinned = place in history.fixed
    if is_off:
        await asyncio.to_thread(talk.ctx.unpin, place)
    else:
        await asyncio.to_thread(talk.ctx.pin, history[place])
    state = _unpinned(talk, place, was_pinned) if is_off else _pinned(talk, place)
    return ActionOutcome(f"Message #{place} {state}: {looks.one_line(history[place].text)}")


def _pin_lines(talk: Dialogue) -> list[str]:
    history, roles = talk.ctx.history, talk.ctx.policy.roles_never_pruned
    pinned = (place for place in history.fixed if history[place].role not in roles)
    return [f"#{place} {looks.one_line(history[place].text)}" for place in pinned]


def _unpinned(talk: Dialogue, place: int, was_pinned: bool) -> str:
    if place in talk.ctx.history.fixed:
        return "came with a mark of its own and stays word for word"
    return "is no longer pinned" if was_pinned else "was not pinned"


def _pinned(talk: Dialogue, place: int) -> str:
    if any(place in checkpoint.covered() for checkpoint in talk.ctx.checkpoints):
        return "is pinned, and comes back word for word with the next compression (/compact)"
    return "stays word for word"


async def remember(talk: Dialogue, argument: str) -> ActionOutcome:
    """Pin a text, or the user's last message."""
    ctx = talk.ctx
    if argument:
        await talk.remember(argument)
        return ActionOutcome(f"It stays in every prompt, word for word: {looks.one_line(argument)}")
    place = next((i for i in reversed(range(len(ctx.history))) if _is_said(talk, i)), None)
    if place is None:
        raise NotFound("you have said nothing yet; /remember TEXT keeps a text")
    return await pin(talk, str(place))


def _is_said(talk: Dialogue, place: int) -> bool:
    message = talk.ctx.history[place]
    return message.role == "user" and looks.REMEMBERED not in message.metadata.tags


async def history(talk: Dialogue, argument: str) -> ActionOutcome:
    """Show messages of the history."""
    messages = talk.ctx.history
    start = max(0, len(messages) - ON_A_PAGE)
    if argument:
        start = _number(argument.removeprefix("#"), "message", 0, len(messages) - 1)
    return ActionOutcome(
        page=await asyncio.to_thread(looks.history_page, messages, start, ON_A_PAGE)
    )


async def search(talk: Dialogue, argument: str) -> ActionOutcome:
    """Find messages by words."""
    if not argument:
        raise InvalidArgument("words", "say what to look for: /search WORDS")
    matches = await asyncio.to_thread(talk.ctx.recall, argument, limit=PAGE)
    return ActionOutcome(page=looks.found_page(argument, matches))


async def snapshot(talk: Dialogue, argument: str) -> ActionOutcome:
    """Save the state of the session."""
    await asyncio.to_thread(talk.ctx.time.snapshot, argument)
    return ActionOutcome(f"Saved{f': {argument}' if argument else ''}. /restore goes back to it.")


async def restore(talk: Dialogue, argument: str) -> ActionOutcome:
    """List the snapshots, or go back to one."""
    snapshots = await asyncio.to_thread(talk.ctx.time.snapshots)
    if not argument:
        rows = [
            f"{number}. {looks.time_of(saved.created_at)}, {counted(saved.at, 'message')}, "
            f"{saved.note or saved.purpose}"
            for number, saved in enumerate(snapshots, 1)
        ]
        return ActionOutcome("\n".join(rows) or "There are none; /snapshot saves one.")
    chosen = snapshots[_number(argument, "snapshot", 1, len(snapshots)) - 1]
    await asyncio.to_thread(talk.ctx.time.restore, chosen)
    size = counted(len(talk.ctx.history), "message")
    return ActionOutcome(f"Back at {size}. What came later is kept; /undo goes there.")


async def export(talk: Dialogue, argument: str) -> ActionOutcome:
    """Write the session to a file."""
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in talk.ctx.id)[:80]
    return ActionOutcome(
        await asyncio.to_thread(talk.setup.write, talk.ctx.id, argument or f"{name}.md")
    )


ACTIONS: Mapping[str, Action] = {
    each.__name__: each
    for each in (
        *(undo, redo, checkpoints, goal, mode, model, pin, remember),
        *(history, search, snapshot, restore, export),
    )
}
"""Command → its function. The chat screen runs the commands that are not listed here."""


def _number(text: str, what: str, first: int, last: int) -> int:
    with suppress(ValueError):
        if first <= (number := int(text)) <= last:
            return number
    there = f"there are {first} to {last}" if last >= first else "there is none"
    raise NotFound(f"no {what} {looks.one_line(text)!r}: {there}")
