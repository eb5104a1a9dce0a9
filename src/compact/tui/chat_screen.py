"""The chat screen: the transcript, the window bar and the input.

Only one job runs at a time. Esc stops it. During a compression the input is blocked. An error
becomes a line in the transcript, and the conversation continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer
from textual.worker import Worker, WorkerError

from compact.config import did_you_mean
from compact.errors import SummaryRejected
from compact.messages.events import Event
from compact.tui import slash
from compact.tui.actions import ACTIONS
from compact.tui.dialogue import Dialogue
from compact.tui.following import Ahead, Notice, ProgressStep
from compact.tui.looks import heading
from compact.tui.message_list import MessageList, MessageRow
from compact.tui.problems import in_words
from compact.tui.prompt_input import Completions, PromptInput
from compact.tui.screens import HELP, PageScreen, ReviewScreen, refused_because
from compact.tui.status_lines import Compressing, HeadLine, WindowBar

SOON = 0.05
"""Seconds between an answer and the next queued text. In this time the answer's job ends."""


class ChatScreen(Screen[None]):
    """Shows one conversation and its input."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "stop", "Stop"),
        ("f1", "help", "Help"),
        ("f2", "left_out", "Left out"),
        Binding("pageup", "scroll(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Down", show=False, priority=True),
    ]

    @dataclass
    class Heard(Message):
        """Tells the screen's thread how to show an event of the session."""

        shown: ProgressStep | Notice | Ahead

    def __init__(self, conversation: Dialogue) -> None:
        super().__init__()
        self.talk = conversation
        self._job: Worker[None] | None = None
        self._stopped: Worker[None] | None = None
        """The job that was stopped last. None: no job was stopped."""
        self._waiting: list[str] = []
        """Texts that are sent in order when the running job has ended."""
        self._taken_back = frozenset[str]()
        """Commands that Esc put back into the input. If sent again, they are still commands."""

    def compose(self) -> ComposeResult:
        """Yield the widgets, from top to bottom."""
        yield HeadLine()
        yield MessageList()
        yield Compressing()
        yield Completions()
        yield PromptInput()
        yield WindowBar()
        yield Footer()

    async def on_mount(self) -> None:
        """Show the session, and tell if its last answer is missing."""
        recovered = await self.talk.recovered()
        await self.query_one(MessageList).show(self.talk.ctx.history)
        if recovered:
            kept = "The program ended in the last answer; what had come of it is kept."
            await self._tell(f"{kept} /retry asks again.")
        elif self.talk.is_unanswered:
            await self._tell("Your last message has no answer yet: /retry asks for it.")
        elif self.talk.cut_off is not None:
            await self._tell("The last answer was cut off: /retry asks again.")
        elif not self.talk.had_messages:
            await self._tell(f"You talk to {self.talk.model}. F1 or /help lists keys and commands.")
        await self._redraw()
        self.query_one(PromptInput).focus()

    def hear(self, event: Event) -> None:
        """Receive an event of the session. It may be called from any thread."""
        if (shown := self.talk.following.take(event)) is not None:
            self.post_message(self.Heard(shown))

    # --- what the user does -----------------------------------------------------------------------

    @on(PromptInput.Changed)
    def offer(self, event: PromptInput.Changed) -> None:
        """Offer the commands that begin with the text."""
        commands = slash.completions(event.text_area.text)
        self.query_one(Completions).offer(commands)
        self.query_one(PromptInput).is_offered = bool(commands)

    @on(PromptInput.Moved)
    def mark(self, event: PromptInput.Moved) -> None:
        """Mark another command in the list."""
        self.query_one(Completions).move(event.rows)

    @on(PromptInput.Completed)
    def complete(self) -> None:
        """Put the marked command into the input."""
        if (name := self.query_one(Completions).chosen) is not None:
            self._write(f"/{name} ")

    @on(PromptInput.Submitted)
    def send(self, event: PromptInput.Submitted) -> None:
        """Send the text. If a job is running, queue the text until the job has ended."""
        if not event.text.strip():
            return
        name = self.query_one(Completions).chosen
        texts = [f"/{name}"] if name else self._split(event.text)
        self._write("")
        if not self._is_busy and not self._waiting:
            self._start(self._run(texts.pop(0)))
        if texts:
            self._wait_with([*self._waiting, *texts])

    def _split(self, text: str) -> list[str]:
        """Split the text into the commands that Esc put back, and the texts between them."""
        parts = [""]
        for line in text.split("\n"):
            if line in self._taken_back:
                parts += [line, ""]
            else:
                parts[-1] = f"{parts[-1]}\n{line}" if parts[-1] else line
        self._taken_back = frozenset()
        return [part for part in parts if part.strip()]

    def action_stop(self) -> None:
        """Stop the running job. If none is running, close the list of commands."""
        if self._is_busy:
            self._take_back()
            self._cancel()
        else:
            self.query_one(Completions).offer(())
            self.query_one(PromptInput).is_offered = False

    def action_help(self) -> None:
        """Show the keys and the commands."""
        self.app.push_screen(PageScreen(HELP))

    async def action_left_out(self) -> None:
        """Show the messages that the newest checkpoint replaces."""
        number = len(self.talk.ctx.checkpoints)
        if not number:
            await self._tell("Nothing was left out: every message is in the prompt.")
            return
        outcome = await ACTIONS["checkpoints"](self.talk, str(number))
        if outcome.page is not None:
            self.app.push_screen(PageScreen(outcome.page))

    def action_scroll(self, pages: int) -> None:
        """Scroll the transcript by pages. Negative is up."""
        transcript = self.query_one(MessageList)
        transcript.release_anchor()
        transcript.scroll_relative(y=pages * (transcript.size.height - 1), animate=False)
        if transcript.scroll_offset.y >= transcript.max_scroll_y:
            transcript.anchor()

    def _take_back(self) -> None:
        if self._waiting:
            written = self.query_one(PromptInput).text
            self._write("\n".join([*self._waiting, written] if written else self._waiting))
            self._taken_back = frozenset(
                x for x in self._waiting if slash.command_in(x) is not None
            )
            self._wait_with([])

    def _wait_with(self, texts: list[str]) -> None:
        self._waiting = texts
        self.query_one(PromptInput).wait_with(texts)

    def _write(self, text: str) -> None:
        box = self.query_one(PromptInput)
        box.text = text
        box.move_cursor(box.document.end)

    # --- one thing at a time ----------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        return self._job is not None and not self._job.is_finished

    def _cancel(self) -> None:
        if self._job is not None and self._job is not self._stopped:
            self._stopped = self._job
            self._job.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._job = self.run_worker(self._guard(work), group="talk", exit_on_error=False)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            await self._tell("Stopped. Nothing that was said is lost; /retry asks again.")
        except Exception as error:  # noqa: BLE001 - the top of the program: it goes on
            await self._tell(in_words(error, self.talk.setup.settings.redactor()), "error")
        finally:
            await self._settle()

    async def _settle(self) -> None:
        await asyncio.to_thread(self.talk.following.end, self.talk.ctx)
        self._unblock()
        await self._redraw()
        self.refresh(layout=True)  # drawing while Markdown is being added may be lost
        if self._waiting:
            self.set_timer(SOON, self._send_next)

    def _send_next(self) -> None:
        if self._waiting and self._is_busy:
            self.set_timer(SOON, self._send_next)
        elif self._waiting:
            text, *others = self._waiting
            self._wait_with(others)
            self._start(self._run(text))

    async def stop(self) -> None:
        """Stop the job, wait until it has stored its answer, and close the session."""
        if self._is_busy and self._job is not None:
            self._cancel()
            with suppress(WorkerError):
                await self._job.wait()
        await self.talk.close()

    async def _run(self, text: str) -> None:
        command = slash.command_in(text)
        if command is None:
            await self._talk(slash.text_to_model(text.strip()))
            return
        name, argument = command
        match name:
            case "quit" | "exit":
                self.app.call_later(self.app.action_quit)
            case "help":
                self.action_help()
            case "compact":
                await self._compress(argument)
            case "review":
                await self._review(argument)
            case "retry":
                await self._retry()
            case _ if name in ACTIONS:
                await self._act(name, argument)
            case _:
                meant = did_you_mean(name, slash.NAMES)
                await self._tell(f"There is no command /{name}{meant}; /help lists them.", "error")

    async def _act(self, name: str, argument: str) -> None:
        ctx, transcript = self.talk.ctx, self.query_one(MessageList)
        branch, before = ctx.branch_id, len(ctx.history)
        outcome = await ACTIONS[name](self.talk, argument)
        if ctx.branch_id != branch or len(ctx.history) < before:
            await transcript.show(ctx.history)
            before = len(ctx.history)
        for position in range(before, len(ctx.history)):
            await transcript.add(ctx.history[position], position)
        if outcome.words:
            await self._tell(outcome.words, "done")
        if outcome.page is not None:
            self.app.push_screen(PageScreen(outcome.page))

    # --- talking ----------------------------------------------------------------------------------

    async def _talk(self, text: str) -> None:
        message = await self.talk.say(text)
        await self.query_one(MessageList).add(message, len(self.talk.ctx.history) - 1)
        await self._answer()

    async def _retry(self) -> None:
        if (position := self.talk.cut_off) is not None:
            await self.talk.leave_out(position)
            await self.query_one(MessageList).show(self.talk.ctx.history)
            await self._tell("Asked again, without the answer that was cut off; /undo shows that.")
        elif not self.talk.is_unanswered:
            await self._tell("Your last message was answered.")
            return
        await self._answer()

    async def _answer(self) -> None:
        transcript, position = self.query_one(MessageList), len(self.talk.ctx.history)
        shown: MessageRow | None = None
        self.query_one(HeadLine).show_work("waiting for the model")
        try:
            async with aclosing(self.talk.answer()) as pieces:  # type: ignore[type-var]  # it is one
                async for piece in pieces:
                    if shown is None:
                        await self._show_compression()
                        self.query_one(HeadLine).show_work("answering")
                        shown = await transcript.begin_answer(position)
                    await shown.grow(piece)
        finally:
            self.query_one(HeadLine).show_work("")
            if shown is not None:
                await shown.end(self._heading_at(position))

    def _heading_at(self, position: int) -> str:
        history = self.talk.ctx.history
        return heading(history[position], position) if position < len(history) else "Assistant"

    async def _compress(self, guidance: str) -> None:
        await self._block_for(guidance)
        words = await self.talk.compress(guidance)
        await self._tell(words, "done")

    async def _review(self, guidance: str) -> None:
        await self._block_for(guidance)
        proposal = await self.talk.propose(guidance)
        self._unblock()
        if not proposal.checkpoints:
            await self._tell(f"There is nothing to review: {proposal.why or 'everything fits'}.")
            return
        texts: Mapping[str, str] | None = {}
        problem = ""
        while texts is not None:
            texts = await self.app.push_screen_wait(ReviewScreen(proposal, texts, problem))
            if texts is None:
                await self._tell("Refused; nothing was compressed.")
                return
            try:
                await self._tell(await self.talk.accept(proposal, texts), "done")
                return
            except SummaryRejected as error:
                problem = refused_because(error)

    async def _block_for(self, guidance: str) -> None:
        if guidance and not self.talk.ctx.summarizes_by_model:
            await self._tell("The guidance has no effect: no model writes the summaries here.")
        self.query_one(Compressing).show(ProgressStep("", 0.0))
        self.query_one(PromptInput).block(is_blocked=True)

    async def _show_compression(self) -> None:
        self._unblock()
        if words := await asyncio.to_thread(self.talk.following.end, self.talk.ctx):
            self.query_one(HeadLine).show_work("")  # the draft made ahead was used, or is outdated
            await self._tell(words, "done")
            await self._redraw()

    # --- events of the session --------------------------------------------------------------------

    @on(Heard)
    async def follow(self, heard: Heard) -> None:
        """Show an event of the session."""
        match heard.shown:
            case ProgressStep() as step if self._is_busy:
                self.query_one(Compressing).show(step)
                self.query_one(PromptInput).block(is_blocked=True)
            case Notice(words=words):
                await self._tell(words)
            case Ahead(words=words):
                self.query_one(HeadLine).show_work(words)

    def _unblock(self) -> None:
        self.query_one(Compressing).end()
        self.query_one(PromptInput).block(is_blocked=False)

    async def _tell(self, words: str, kind: str = "note") -> None:
        await self.query_one(MessageList).tell(words, kind)

    async def _redraw(self) -> None:
        ctx = self.talk.ctx
        use = await asyncio.to_thread(lambda: ctx.window_use)
        self.query_one(WindowBar).show(use)
        line = self.query_one(HeadLine)
        line.about(ctx.id, self.talk.model, ctx.mode)
        line.keep(ctx.checkpoints[-1].written if ctx.checkpoints else "")
