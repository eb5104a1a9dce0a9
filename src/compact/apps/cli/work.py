"""From options to work: the settings, the conversation, its counter, and the plan."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compact import wiring
from compact.apps.cli import options as given
from compact.apps.cli.ending import Stop, say
from compact.apps.cli.env_file import NAME, is_from_env_file, with_env_file
from compact.apps.cli.pins import positions_of
from compact.apps.cli.progress import Progress
from compact.config import CompactConfig, did_you_mean
from compact.core.messages import Message
from compact.core.model_keys import parse_key
from compact.core.plan import Plan
from compact.core.tokens import TokenCounter
from compact.errors import InvalidConfig, InvalidInput, InvalidTranscript, UnknownModel

STDIN = "-"


@dataclass(frozen=True)
class Job:
    """A conversation, and what it is worked on with."""

    settings: CompactConfig
    transcript: wiring.Transcript
    counter: TokenCounter

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation's messages."""
        return self.transcript.messages


def settings_of(options: given.SettingsOptions) -> CompactConfig:
    """The effective settings: defaults, file, `.env`, environment, options.

    Raises:
        InvalidConfig: naming the setting and where it came from.
        Stop: an option is wrong.
    """
    environ = with_env_file(os.environ, Path())
    tokenizer = getattr(options, "tokenizer", None)
    if tokenizer is not None and not wiring.names_tokenizer(tokenizer):
        check_choice("--tokenizer", tokenizer, wiring.TOKENIZERS)
    events = getattr(options, "events", False) or None
    summarizer = getattr(options, "summarizer", None)
    strategy = {"off": "off", "extractive": "task_state"}.get(summarizer or "")
    window, store = getattr(options, "window", None), getattr(options, "store", None)
    if store == "":
        raise Stop("--store: an empty name")
    try:
        settings = CompactConfig.load(
            options.config,
            environ=environ,
            tokenizer=tokenizer,
            console_events=events,
            strategy=strategy,
            store=store,
            max_context_tokens=window,
            model=getattr(options, "model", None),
            summarizer=None if summarizer == "off" else summarizer,
            guidance=getattr(options, "keep", None),
        )
    except InvalidConfig as error:
        if error.field == "max_context_tokens" and window is not None:
            raise Stop(f"--window: {error.reason}") from None
        raise _with_file_named(error) from None
    check_summarizers(settings, summarizer)
    check_hosts(settings, said=hasattr(options, "summarizer"))
    if getattr(options, "keep", None) and {*settings.summarizers()} <= {wiring.EXTRACTIVE}:
        say("--keep changes nothing here: it asks a model that summarizes (see --summarizer)")
    if (settings.max_context_tokens or 0) > given.LARGEST:
        raise settings.wrong("max_context_tokens", f"should be at most {given.LARGEST:,}")
    return settings


def _with_file_named(error: InvalidConfig) -> InvalidConfig:
    """The error, with `.env` named where the variable that is wrong stands there."""
    if is_from_env_file(error.field, os.environ):
        return InvalidConfig(error.field, error.reason.replace("in the environment", f"in {NAME}"))
    before, place, origin = error.reason.rpartition(" (from ")
    if place and is_from_env_file(origin.rstrip(")"), os.environ):
        return InvalidConfig(error.field, f"{before}{place}{origin.rstrip(')')} in {NAME})")
    return error


def check_summarizers(settings: CompactConfig, option: str | None) -> None:
    """Refuse a summarizer that names no model, before any work is done.

    Raises:
        InvalidConfig, Stop: naming the setting or the option.
    """
    names = {"summarizer": [settings.summarizer], "summarizer_fallbacks": [*settings.summarizers()]}
    for setting, keys in names.items():
        for key in keys:
            if key == wiring.EXTRACTIVE:
                continue
            try:
                parse_key(key)
            except UnknownModel as error:
                if key == option:
                    raise Stop(f"--summarizer: {error}; or extractive, or off") from None
                raise settings.wrong(setting, str(error)) from None


def check_hosts(settings: CompactConfig, *, said: bool) -> None:
    """Refuse models on other machines that only the `.env` of this folder names: whoever made the
    folder would have the conversation. With `said`, say where summaries are asked for.

    Raises:
        InvalidConfig: naming the setting.
    """
    asked = {
        "summarizer": [settings.summarizer],
        "summarizer_fallbacks": settings.summarizers()[1:],
    }
    model = [settings.model] if settings.model and "://" in settings.model else []
    hosts: list[str] = []
    for setting, keys in {**asked, "model": model}.items():
        for key in keys:
            where = None if key == wiring.EXTRACTIVE else wiring.leads_to(key)
            if where is None:
                continue
            if is_from_env_file(settings.origin(setting), os.environ):
                reason = (
                    f"{where} is another machine, and the .env of a folder names none: "
                    "name it by an option, or in the environment itself"
                )
                raise settings.wrong(setting, reason)
            if setting in asked and parse_key(key).provider != "transformers":
                hosts.append(where)
    if said and settings.strategy != "off":
        for where in dict.fromkeys(hosts):
            say(f"summaries are asked for at {where}")


def job_of(options: given.FileOptions) -> Job:
    """Read what the options name; for a plan, what the result can hold of it.

    Raises:
        InvalidTranscript: the file is unknown or broken.
        InvalidConfig, Stop: an option or a setting is wrong.
    """
    from compact.apps.cli import session_file

    settings = settings_of(options)
    if options.format is not None:
        check_choice("--format", options.format, wiring.file_formats())
    source, data = source_of(options.file), bytes_of(options.file)
    if session_file.is_session_file(data):
        raise Stop(f"{source} is an exported session; bring it in with: sessions import")
    transcript = wiring.read_transcript(
        source,
        data=data,
        format=options.format,
        conversation=options.conversation,
        active=options.active,
        writable=isinstance(options, given.PlanOptions),
    )
    checked_tools(transcript.tools, source)
    return Job(settings, transcript, wiring.token_counter_of(settings, transcript.wire))


def plan_of(job: Job, options: given.PlanOptions, progress: Progress) -> Plan:
    """What a compression of the job does.

    Raises:
        CannotFit: what may not be shortened exceeds the limit.
        Stop: no limit is given, or a pin fits no message.
    """
    limit = limit_of(job.settings, options.max_tokens)
    pins = positions_of(options.pin or (), job.messages)
    return made_plan(job, limit, pins=pins, progress=progress)


def made_plan(
    job: Job,
    limit: int,
    *,
    pins: Sequence[int] = (),
    progress: Progress | None = None,
    key: bytes | None = None,
) -> Plan:
    """The plan for the job within a limit; events go to stderr where the settings ask for them.
    Without a key the person's own is taken.
    """
    from compact import plan
    from compact.apps.cli.keys import own_key

    bus = wiring.event_bus(console=job.settings.console_events)
    if progress is not None:
        bus.subscribe(progress.on_event)

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
            on_event=bus.emit,
        )
    finally:
        bus.close()


def limit_of(settings: CompactConfig, asked: int | None) -> int:
    """The ceiling: what was asked for, else what a prompt may use of the settings' window.

    Raises:
        Stop: neither is given.
    """
    if asked is not None:
        return asked
    window = settings.window()
    if window is None:
        raise Stop("how many tokens? give --max-tokens N, or max_context_tokens in the settings")
    return window.usable


def check_choice(option: str, name: str, known: Sequence[str] | dict[str, str]) -> None:
    """Refuse a name that is none of those known.

    Raises:
        Stop: naming the one it resembles, else all.
    """
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise Stop(f"{option}: nothing is called {name!r}{hint}")


def source_of(file: str) -> str:
    """What a file is called where something is said of it.

    Raises:
        Stop: it has no name.
    """
    if not file:
        raise Stop("FILE: an empty name")
    return "standard input" if file == STDIN else file


def bytes_of(file: str) -> bytes:
    """What a file holds; it is read once, since a pipe gives its bytes only once.

    Raises:
        InvalidInput: it cannot be read.
    """
    if file == STDIN:
        return read_stdin()
    return wiring.read_file(file)


def checked_tools(tools: Sequence[Mapping[str, Any]], source: str) -> Sequence[Mapping[str, Any]]:
    """The tool schemas, if they can be counted.

    Raises:
        InvalidTranscript: one is none.
    """
    from compact.apps.cli import session_file

    try:
        session_file.check_tools(tools)
    except ValueError as error:
        raise InvalidTranscript(source, str(error)) from None
    return tools


def read_stdin() -> bytes:
    """What is on standard input.

    Raises:
        InvalidInput: it is closed or cannot be read.
    """
    if sys.stdin is None:
        raise InvalidInput("standard input is closed")
    try:
        return wiring.read_stream(sys.stdin.buffer, "standard input")
    except OSError as error:
        raise InvalidInput(f"standard input cannot be read: {error.strerror or error}") from None
