"""Read a conversation from a file and plan its compression; keep the key for its checkpoints."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkstemp
from time import monotonic
from typing import Annotated

from compact import wiring
from compact.cli.errors import Stop
from compact.cli.options import (
    CountOptions,
    Keep,
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
from compact.messages.messages import Message, Thinking
from compact.messages.tokens import TokenCounter
from compact.patterns import regex
from compact.session.compress import SHORTEST_KEY
from compact.session.one_call import plan
from compact.store import session_file

STDIN = "-"
_NUMBER = regex(r"[+-]?[0-9]+")
_LONGEST_NUMBER = 20
"""Most digits of a position. Longer ones name no message, and Python refuses to parse thousands of
digits.
"""


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
        int | None,
        number_option("Which conversation in a file that holds several, from 1.", count),
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
        int | None,
        number_option(
            "The most tokens the result may have. Default: the usable window from the settings."
        ),
    ] = None
    pin: Annotated[
        list[str] | None,
        text_option(
            "N|TEXT",
            "Keep a message word for word: its number from 0 (negative from the end), "
            "its id, or a text it contains. Can be repeated.",
        ),
    ] = None
    summarizer: Annotated[
        str | None,
        text_option(
            "KEY",
            "The summarizer that writes the checkpoint: a model such as ollama:qwen3:8b, "
            "extractive (needs no model), or off (a line says how much is not shown). "
            "Default: from the settings.",
        ),
    ] = None
    keep: Keep = None
    events: Annotated[bool, flag("--events", "Write every event to stderr as a JSON line.")] = False


@dataclass(frozen=True)
class Job:
    """A conversation with its settings and token counter."""

    settings: CompactConfig
    transcript: wiring.Transcript
    counter: TokenCounter
    since: float = field(default_factory=monotonic)
    """When the work began, as a time of `monotonic`."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the conversation."""
        return self.transcript.messages


# --- reading --------------------------------------------------------------------------------------


def job_of(options: FileOptions) -> Job:
    """Read the conversation that the options name. For a plan, only messages that the output format
    can hold are read.

    Raises:
        InvalidTranscript: the file is unknown or broken.
        InvalidConfig, Stop: an option or a setting is wrong.
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
    """Return the file's name for messages to the user, and its bytes. The file is read only once,
    because a pipe can be read only once.

    Raises:
        Stop: an option is wrong.
        InvalidInput: the file cannot be read.
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


def transcript_of(
    options: ReadOptions, source: str, data: bytes, *, active: bool = False, writable: bool = False
) -> wiring.Transcript:
    """Parse the conversation in a file's bytes.

    Raises:
        InvalidTranscript: the file is unknown or broken, or holds an invalid tool schema.
    """
    transcript = wiring.read_transcript(
        source,
        data=data,
        format=options.format,
        conversation=options.conversation,
        active=active,
        writable=writable,
    )
    try:
        session_file.check_tools(transcript.tools)
    except ValueError as error:
        raise InvalidTranscript(source, str(error)) from None
    return transcript


# --- planning -------------------------------------------------------------------------------------


def planned(options: PlanOptions, progress: Progress) -> tuple[Job, Plan]:
    """Return the conversation that the options name, and the plan for its compression.

    Raises:
        CannotFit: the content that cannot be shortened exceeds the limit.
        Stop: there is no limit, or a pin matches no message.
    """
    job = job_of(options)
    limit = _limit_of(job.settings, options.max_tokens)
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
    """Plan the job within a token limit. Events go to stderr if the settings say so. Without `key`,
    the user's own key is used.
    """
    bus = wiring.event_bus(job.settings, listener=progress.on_event if progress else None)
    try:
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
    finally:
        bus.close()


def _limit_of(settings: CompactConfig, asked: int | None) -> int:
    if asked is not None:
        return asked
    window = settings.window()
    if window is None:
        raise Stop(
            "no limit: give --max-tokens N, or --model MODEL for its window, or set "
            "max_context_tokens in a settings file"
        )
    return window.usable


# --- pins -----------------------------------------------------------------------------------------


def positions_of(pins: Iterable[str], messages: Sequence[Message]) -> list[int]:
    """Return the positions of the pinned messages, ascending.

    A pin is a position as in Python (from 0, or back from -1), or the id of a message. Any other
    text selects the messages that contain it in their words, a tool call or a tool result.

    Raises:
        Stop: there is no such message, or no message contains the text.
    """
    return sorted({position for pin in pins for position in _positions(pin, messages)})


def _positions(pin: str, messages: Sequence[Message]) -> Iterator[int]:
    if _NUMBER.fullmatch(pin):
        yield _position(pin, len(messages))
        return
    if not pin.strip():
        raise Stop("--pin: an empty text; give a message's number or a text it contains")
    matches = [i for i, message in enumerate(messages) if message.id == pin]
    matches = matches or [i for i, message in enumerate(messages) if _holds(message, pin)]
    if not matches:
        raise Stop(f"--pin {pin!r}: no message contains this text")
    yield from matches


def _position(pin: str, count: int) -> int:
    number = int(pin) if len(pin) <= _LONGEST_NUMBER else count
    position = number if number >= 0 else count + number
    if not 0 <= position < count:
        name = pin if len(pin) <= _LONGEST_NUMBER else "(a long number)"
        raise Stop(f"--pin {name}: there are messages 0 to {count - 1:,}")
    return position


def _holds(message: Message, text: str) -> bool:
    return any(
        text in (getattr(part, "text", "") or getattr(part, "arguments", ""))
        for part in message.parts
        if not isinstance(part, Thinking)
    )


def own_key() -> bytes | None:
    """Return the key by which the command line recognizes the checkpoints that it wrote to files.
    The key is in a secret file of the user, made on first use. Return None if no such file can be
    kept; then this process's key is used.
    """
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        file = state / "compact" / "key"
        return _read_key(file) or _new_key(file)
    except (OSError, RuntimeError):
        return None


def _read_key(file: Path) -> bytes | None:
    """Read the key from the file; None if there is no file, or a crash cut the key short."""
    with suppress(FileNotFoundError):
        if len(key := file.read_bytes()) >= SHORTEST_KEY:
            return key
    return None


def _new_key(file: Path) -> bytes | None:
    """Write a new key, whole or not at all. If another process was faster, return its key."""
    file.parent.mkdir(parents=True, exist_ok=True)
    made, name = mkstemp(dir=file.parent, prefix=".key-")
    try:
        with os.fdopen(made, "wb") as out:
            out.write(secrets.token_hex(32).encode())
        if file.exists() and _read_key(file) is None:
            file.unlink(missing_ok=True)
        with suppress(FileExistsError):
            os.link(name, file)
        return _read_key(file)
    finally:
        os.unlink(name)
