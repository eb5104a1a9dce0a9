"""`compactctl chat`: the chat program."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

from compact.apps import cli
from compact.apps.cli.options import (
    StoreOptions,
    argument,
    command,
    flag,
    number_option,
    text_option,
)
from compact.apps.cli.told import Aside, Telling
from compact.apps.cli.words import whole


@dataclass(frozen=True, kw_only=True)
class ChatOptions(StoreOptions):
    """Options of `chat`."""

    model: Annotated[
        str | None,
        text_option(
            "KEY",
            "The model to talk to, such as ollama:qwen3:8b; echo:4k answers offline. Default: the "
            "session's last one, else from the settings, else Ollama's on this machine.",
        ),
    ] = None
    window: Annotated[
        int | None, number_option("The window in tokens. Default: the model's own.")
    ] = None
    tokenizer: Annotated[
        str | None, text_option("NAME", "The tokenizer. Default: the model's.")
    ] = None
    summarizer: Annotated[
        str | None,
        text_option(
            "KEY",
            "Who writes summaries: a model, extractive (needs none), or off. Default: from the "
            "settings.",
        ),
    ] = None


@command
def chat(
    options: ChatOptions,
    *,
    session: Annotated[
        str | None,
        argument("[SESSION]", "Continue this session, or begin one of that name. Default: new."),
    ] = None,
    last: Annotated[bool, flag("--last", "Continue the session that changed last.")] = False,
    light: Annotated[bool, flag("--light", "Begin with the light theme.")] = False,
) -> Telling:
    """Talk to a model in a conversation that never overflows.

    Everything that is said is kept in the store, and continues there. F1 lists keys and commands.
    Needs the extra `chat`.

    Examples:
      compactctl chat
      compactctl chat garden --model ollama:qwen3:8b
      compactctl chat --model echo:4k
      compactctl chat --last
    """
    if find_spec("textual") is None:
        raise cli.errors.Stop(
            f"chat needs the package textual: {cli.wiring.how_to_install('chat')}"
        )
    if session is not None and last:
        raise cli.errors.Stop("--last continues the newest session: leave SESSION out")
    if options.json:
        raise cli.errors.Stop("--json: chat is for people; `sessions export` prints a session")
    with cli.stores.opened(options, create=True) as catalog:
        kept = cli.chats.run(catalog, session, last=last, light=light)
    yield {"session": kept}
    if kept is not None:
        yield Aside(f"kept; it continues with: compactctl chat {whole(kept)}")
