"""`compactctl models`: the known models, or one of them in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from compact.apps import cli
from compact.apps.cli.options import SettingsOptions, argument, command
from compact.apps.cli.told import Part, Table, Telling
from compact.apps.cli.words import one_line

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
) -> Telling:
    """Show what is known about models.

    Without NAME it lists all models, local ones first; with part of a name, those that match. A
    model's key shows that model in full: for each size the num_ctx for its server, the tier and the
    tokens kept free for an answer; how far its context can be trusted, and how it writes
    checkpoints. Your own entries come from the setting models_file.

    Examples:
      compactctl models
      compactctl models qwen
      compactctl models ollama:llama3.2:3b
    """
    settings = cli.settings.settings_of(options)
    told = cli.known_models.known_of(settings, name)
    yield told
    yield from _list(told["models"]) if "models" in told else _one(told)
    if passed_over := settings.book().passed_over:
        fields = ", ".join(f"{times} × {one_line(name)}" for name, times in passed_over.items())
        yield f"Passed over in {settings.models_file}, as not known: {fields}."


def _list(models: list[dict[str, Any]]) -> Iterator[Part]:
    rows = [
        (
            one_line(each["model"]),
            one_line(each["vendor"]),
            one_line(each["parameters"] or ""),
            each["window"],
            each["max_context_window"],
            "" if each["tool_support"] is None else _said(each["tool_support"]),
        )
        for each in models
    ]
    names = ("model", "from", "size", "window", "at most", "tools")
    yield Table(names, rows, right=("window", "at most"), whole=("from", "size", "tools"))
    yield (
        "The window of a local model is the num_ctx that its server gets by default. "
        "`models NAME` tells all that is known of one, its tokenizer included."
    )


def _one(told: dict[str, Any]) -> Iterator[Part]:
    yield from _lines(told)
    if sizes := told["context_profiles"]:
        columns = ("size", "num_ctx", "tier", "system prompt", "kept free", "memory")
        yield Table(columns, [tuple(each.values()) for each in sizes], right=columns[:-1])


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
