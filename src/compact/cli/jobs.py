"""Reads a conversation from a file, plans its compression, and keeps the key of its checkpoints."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Annotated

from compact import wiring
from compact.cli.errors import Stop
from compact.cli.options import (
    CountOptions,
    Keep,
    Summarizer,
    argument,
    count,
    flag,
    number_option,
    text_option,
)
from compact.cli.progress import Progress
from compact.cli.settings import check_choice, settings_of
from compact.config import CompactConfig
from compact.engine.plan import Plan
from compact.errors import InvalidInput, InvalidTranscript
from compact.files import state_folder, write_whole
from compact.messages.messages import Message, Thinking
from compact.messages.tokens import TokenCounter
from compact.patterns import regex
from compact.session.compress import SHORTEST_KEY
from compact.session.one_call import plan
from compact.store import session_file

STDIN = "-"
_NUMBER = regex(r"[+-]?[0-9]+")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of commands that read a conversation from a file."""

    file: Annotated[
        str, argument("FILE", "A conversation in any known format; - is standard input.")
    ]
    format: Annotated[
        str | None, text_option("NAME", "The file's format. Default: detected from its content.")
    ] = None
    conversation: Annotated[
        int | None, number_option("Which conversation of a file with several, from 1.", count)
    ] = None


@dataclass(frozen=True, kw_only=True)
class FileOptions(ReadOptions, CountOptions):
    """Options of commands about one file."""

    active: Annotated[bool, flag("--active", "Only the part after the file's last compaction.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class PlanOptions(FileOptions):
    """Options of commands that plan a compression."""

    max_tokens: Annotated[
        int | None, number_option("The most tokens of the result. Default: the usable window.")
    ] = None
    pin: Annotated[
        list[str] | None,
        text_option(
            "N|TEXT",
            "Keep a message word for word: its number from 0 (negative from the end), its id, or "
            "a text in it. Can be repeated.",
        ),
    ] = None
    summarizer: Summarizer = None
    keep: Keep = None
    events: Annotated[bool, flag("--events", "Write every event to stderr as a JSON line.")] = False


@dataclass(frozen=True)
class Job:
    """A conversation with its settings and its token counter."""

    settings: CompactConfig
    transcript: wiring.Transcript
    counter: TokenCounter
    since: float = field(default_factory=monotonic)
    """When the work began, as a value of `time.monotonic`."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the conversation."""
        return self.transcript.messages


# --- reading --------------------------------------------------------------------------------------


def job_of(options: FileOptions) -> Job:
    """Read the conversation that the options name. For a plan, only messages that the output format
    can hold are read.
    """
    since, settings = monotonic(), settings_of(options)
    source, data = bytes_of(options)
    if session_file.is_session_file(data):
        raise Stop(f"{source} is an exported session; import it with: sessions import")
    transcript = transcript_of(
        options, source, data, active=options.active, writable=isinstance(options, PlanOptions)
    )
    return Job(settings, transcript, wiring.token_counter_of(settings, transcript.wire), since)


def bytes_of(options: ReadOptions) -> tuple[str, bytes]:
    """Return the file's name for messages to the user, and the file's bytes. The file is read only
    once, because a pipe can be read only once.
    """
    if options.format is not None:
        check_choice("--format", options.format, wiring.file_formats())
    if not options.file:
        raise Stop("FILE: an empty name")
    if options.file != STDIN:
        return options.file, wiring.read_file(Path(options.file), options.file)
    if sys.stdin is None:
        raise InvalidInput("standard input is closed")
    try:
        return "standard input", wiring.read_stream(sys.stdin.buffer, "standard input")
    except OSError as error:
        raise InvalidInput(f"standard input cannot be read: {error.strerror or error}") from None


def transcript_of(options: ReadOptions, source: str, data: bytes, **how: bool) -> wiring.Transcript:
    """Return the conversation in a file's bytes."""
    number = options.conversation
    transcript = wiring.read_transcript(
        source, data=data, format=options.format, conversation=number, **how
    )
    try:
        session_file.check_tools(transcript.tools)
    except ValueError as error:
        raise InvalidTranscript(source, str(error)) from None
    return transcript


# --- planning -------------------------------------------------------------------------------------


def planned(options: PlanOptions, progress: Progress) -> tuple[Job, Plan]:
    """Return the conversation that the options name, and the plan of its compression."""
    job = job_of(options)
    limit, window = options.max_tokens, job.settings.window()
    if limit is None and window is None:
        raise Stop(
            "no limit: give --max-tokens N, or --model MODEL for its window, or set "
            "max_context_tokens in a settings file"
        )
    limit = limit or (window.usable if window else 0)
    pins = positions_of(options.pin or (), job.messages)
    return job, plan_of(job, limit, pins=pins, progress=progress)


def plan_of(
    job: Job,
    limit: int,
    *,
    pins: Sequence[int] = (),
    progress: Progress | None = None,
    key: bytes | None = None,
) -> Plan:
    """Return the plan that fits the conversation into a token limit. Events go to stderr if the
    settings say so. Without `key`, the user's own key is used.
    """
    bus = wiring.event_bus(job.settings, listener=progress.on_event if progress else None)
    with closing(bus):
        return plan(
            job.messages,
            max_tokens=limit,
            pin=pins,
            tools=job.transcript.tools,
            model=job.settings.model,
            tokenizer=job.settings.known_tokenizer(),
            format=job.transcript.wire,
            policy=job.settings.policy(),
            summarizer=job.settings.summarizers(),
            models=job.settings.book(),
            key=key or own_key(),
            redactor=job.settings.redactor(),
            on_event=bus.emit,
        )


# --- pins -----------------------------------------------------------------------------------------


def positions_of(pins: Iterable[str], messages: Sequence[Message]) -> list[int]:
    """Return the positions of the pinned messages, in ascending order.

    A pin is a position as in Python (from 0, or backwards from -1), or the id of a message. Any
    other text pins the messages that contain it in their text, a tool call or a tool result.
    """
    return sorted({position for pin in pins for position in _positions(pin, messages)})


def _positions(pin: str, messages: Sequence[Message]) -> Sequence[int]:
    if not pin.strip():
        raise Stop("--pin: an empty text; give a message's number or a text it contains")
    if _NUMBER.fullmatch(pin):
        number = int(pin) if len(pin) < 20 else len(messages)  # Python refuses very long numbers
        if not -len(messages) <= number < len(messages):
            raise Stop(f"--pin {pin[:20]}: there are messages 0 to {len(messages) - 1:,}")
        return [number % len(messages)]
    matches = [i for i, message in enumerate(messages) if message.id == pin]
    matches = matches or [i for i, message in enumerate(messages) if _holds(message, pin)]
    if not matches:
        raise Stop(f"--pin {pin!r}: no message contains this text")
    return matches


def _holds(message: Message, text: str) -> bool:
    return any(
        text in (getattr(part, "text", "") or getattr(part, "arguments", ""))
        for part in message.parts
        if not isinstance(part, Thinking)
    )


def own_key() -> bytes | None:
    """Return the key by which the command line recognizes the checkpoints that it wrote to files.
    The key is in a secret file of the user, which is created on first use. Return None if no such
    file can be kept. Then a key of this process is used.
    """
    try:
        file = state_folder() / "key"
        if (key := _read_key(file)) is None:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.exists() and _read_key(file) is None:  # a crash cut the file short
                file.unlink(missing_ok=True)
            with suppress(FileExistsError):  # another process may be faster; then its key counts
                write_whole(file, secrets.token_hex(32).encode(), replaces=False)
            key = _read_key(file)
    except (OSError, RuntimeError):
        return None
    return key


def _read_key(file: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        if len(key := file.read_bytes()) >= SHORTEST_KEY:
            return key
    return None
