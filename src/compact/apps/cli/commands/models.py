"""`compactctl models`: the known models, one of them in full, or the models of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from compact import wiring
from compact.apps.cli import output, render
from compact.apps.cli.errors import Stop
from compact.apps.cli.options import SettingsOptions, argument, command, text_option
from compact.apps.cli.settings import settings_of
from compact.apps.cli.words import one_line
from compact.config import CompactConfig, did_you_mean
from compact.core.profiles import ModelBook, Profile, Sizing
from compact.core.reliability import reliability_of, writing_of
from compact.errors import ModelFailed

ASSUMED = {
    "profile": "from its entry",
    "name": "from its name",
    "provider": "assumed large, like other providers' models",
    "assumed": "assumed, as no source gives it",
}


@command
def models(
    options: SettingsOptions,
    *,
    name: Annotated[
        str | None, argument("NAME", "A model's key, or part of a name to look for.")
    ] = None,
    server: Annotated[
        str | None,
        text_option("URL|ollama", "List the models of this server instead."),
    ] = None,
) -> None:
    """Show what is known about models.

    Without NAME it lists all models, local ones first; with part of a name, those that match. A
    model's key shows that model in full: for each size the num_ctx for its server, the tier and the
    tokens kept free for an answer; how far its context can be trusted, and how it writes
    checkpoints. Your own entries come from the setting models_file.

    Examples:
      compactctl models
      compactctl models qwen
      compactctl models ollama:llama3.2:3b
      compactctl models --server ollama --json
    """
    settings = settings_of(options)
    book = settings.book()
    if server is not None:
        told, show = _offered(server, name, book), _show_offered
    elif (known := _meant(book, name)) is not None:
        told, show = _in_full(settings, name or "", known), _show_one
    else:
        told, show = {"models": [_entry(each) for each in _found(book, name)]}, _show_list
    if options.json:
        output.print_json(told)
    else:
        show(told)


# --- which ----------------------------------------------------------------------------------------


def _meant(book: ModelBook, name: str | None) -> Profile | None:
    """The one model that a name means: a key that says more than names hold, a whole name, or the
    only name of its kind.
    """
    known = book.profile_of(name) if name else None
    if known is None or name is None:
        return None
    wanted = name.lower()
    near = [each for each in (*book.models, *book.families) if _has(each, wanted)]
    is_whole = wanted in (known.id.lower(), known.name.lower())
    return known if is_whole or len(near) <= 1 else None


def _found(book: ModelBook, part: str | None) -> list[Profile]:
    """The models whose names have the part.

    Raises:
        Stop: none has.
    """
    known = [*book.models, *book.families]
    found = [each for each in known if _has(each, (part or "").lower())]
    if not found:
        hint = did_you_mean(part or "", [_called(each) for each in known])
        raise Stop(f"no known model matches {part!r}{hint}; compactctl models lists all")
    return found


def _has(profile: Profile, part: str) -> bool:
    return any(part in each.lower() for each in (profile.id, profile.name, profile.vendor))


def _called(profile: Profile) -> str:
    return profile.id or profile.name


# --- as data --------------------------------------------------------------------------------------


def _entry(profile: Profile) -> dict[str, Any]:
    """What the list says of a model."""
    return {
        "model": _called(profile),
        "name": profile.name,
        "vendor": profile.vendor or "local",
        "parameters": profile.parameters or None,
        "window": profile.window,
        "max_context_window": profile.max_context_window,
        "sizes": [row.size for row in profile.context_profiles],
        "output_limit": profile.output_limit,
        "reasoning": profile.reasoning,
        "tool_support": profile.tool_support,
        "tool_support_source": profile.tool_support_source,
        "tokenizer": profile.tokenizer,
    }


def _in_full(settings: CompactConfig, key: str, profile: Profile) -> dict[str, Any]:
    """Everything that follows from what is known of a model."""
    parameters = settings.book().parameters_of(key)
    fresh, writing = reliability_of(parameters.billions, 0), writing_of(parameters.billions)
    worn = reliability_of(parameters.billions, fresh.warn_after)
    wanted: Sequence[int | None] = [row.size for row in profile.context_profiles] or [None]
    sizings = {each.num_ctx: each for each in map(profile.sizing, wanted) if each is not None}
    return {
        "key": key,
        **_entry(profile),
        "billions": parameters.billions,
        "billions_from": parameters.source,
        "input_limit": profile.input_limit,
        "context_profiles": [_size(settings, profile, each) for each in sizings.values()],
        "reliability": {
            "score": fresh.score,
            "grade": fresh.grade,
            "warn_after": fresh.warn_after,
            "warning": worn.warning,
        },
        "checkpoint": {"level": writing.level, "share": writing.share},
    }


def _size(settings: CompactConfig, profile: Profile, sizing: Sizing) -> dict[str, Any]:
    tier = settings.tier(sizing.size)
    return {
        "size": sizing.size,
        "num_ctx": sizing.num_ctx if sizing.row else None,
        "tier": tier.number,
        "prompt_tokens": tier.prompt_tokens,
        "output_reserve": profile.output_reserve(sizing.num_ctx),
        "vram_estimate": sizing.row.vram_estimate if sizing.row else None,
    }


def _offered(server: str, part: str | None, book: ModelBook) -> dict[str, Any]:
    """What a server has, and what is known of it.

    Raises:
        InvalidInput: the text names no server.
        Stop: it does not answer as it should, or has nothing of that name.
    """
    try:
        found = asyncio.run(wiring.offered_by(server))
    except ModelFailed as error:
        raise Stop(f"--server {server}: {error}") from None
    listed = []
    for each in found:
        if (part or "").lower() in each.name.lower():
            key = wiring.offered_key(server, each.name)
            known = book.profile_of(key)
            window = known.window if known else None
            tools = known.tool_support if known else None
            listed.append(asdict(each) | {"key": key, "window": window, "tool_support": tools})
    if part and not listed:
        names = [each.name for each in found]
        raise Stop(f"{server} has no model {part!r}{did_you_mean(part, names)}")
    return {"server": server, "models": listed}


# --- for people -----------------------------------------------------------------------------------


def _show_list(told: dict[str, Any]) -> None:
    rows = [
        (
            one_line(each["model"]),
            one_line(each["vendor"]),
            one_line(each["parameters"] or ""),
            each["window"],
            each["max_context_window"],
            _said(each["tool_support"]),
            one_line(each["tokenizer"]),
        )
        for each in told["models"]
    ]
    names = ("model", "from", "parameters", "window", "at most", "tools", "tokenizer")
    out = render.console()
    render.show_table(out, names, rows, right=("window", "at most"))
    out.print("The window of a local model is the num_ctx that its server gets by default.")


def _show_one(told: dict[str, Any]) -> None:
    out = render.console()
    for line in _lines(told):
        render.show(out, line)
    if told["context_profiles"]:
        rows = [
            (
                each["size"],
                each["num_ctx"],
                each["tier"],
                each["prompt_tokens"],
                each["output_reserve"],
                each["vram_estimate"],
            )
            for each in told["context_profiles"]
        ]
        columns = ("size", "num_ctx", "tier", "system prompt", "kept free", "memory")
        render.show_table(out, columns, rows, right=columns[:-1])


def _show_offered(told: dict[str, Any]) -> None:
    out = render.console()
    if not told["models"]:
        render.show_line(out, f"{told['server']} has no models")
        return
    rows = [
        (
            one_line(each["key"], 200),
            one_line(each["parameters"]),
            each["size"],
            each["window"],
            _said(each["tool_support"]),
        )
        for each in told["models"]
    ]
    names = ("key", "parameters", "bytes", "window", "tools")
    render.show_table(out, names, rows, right=("bytes", "window"))


def _lines(told: dict[str, Any]) -> list[str]:
    """What is said of one model in words."""
    window, trust, written = told["window"], told["reliability"], told["checkpoint"]
    tools = _said(told["tool_support"])
    if told["tool_support"] is not None:
        tools += f" ({told['tool_support_source'].replace('_', ' ')})"
    known = "decided by its server" if window is None else f"{window:,} tokens"
    most = told["max_context_window"]
    limits = {"prompts": told["input_limit"], "answers": told["output_limit"]}
    bounds = "".join(f", {what} up to {n:,}" for what, n in limits.items() if n is not None)
    return [
        f"{told['key']}: {told['name'] or told['model']}, {told['vendor']}",
        f"window       {known}{f' of {most:,} at most' if most and most != window else ''}{bounds}",
        f"parameters   {told['billions']:g} billion, {ASSUMED[told['billions_from']]}",
        f"tools        {tools}; thinks first: {_said(told['reasoning'])}",
        f"tokenizer    {told['tokenizer']}",
        f"reliability  {trust['score']:.2f} ({trust['grade']}), times 0.9 for each compression; a "
        f"warning after {trust['warn_after']}",
        f"checkpoints  {written['level']}, {written['share']:.0%} of that level's cap",
    ]


def _said(value: bool | None) -> str:
    return "not known" if value is None else "yes" if value else "no"
