"""What is known about models: which one a name means, and what follows from it, as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compact.apps.cli.errors import Stop
from compact.config import CompactConfig, did_you_mean
from compact.core.profiles import Profile, Sizing
from compact.core.reliability import reliability_of, writing_of


def known_of(settings: CompactConfig, name: str | None) -> dict[str, Any]:
    """The one model that a name means, in full: by a key that says more than names hold, by a whole
    name, or by the only name of its kind. Else, under `models`, those with it in their names.

    Raises:
        Stop: none has it.
    """
    book, part = settings.book(), (name or "").lower()
    known = book.profile_of(name) if name else None
    every = [*book.models, *book.families]
    near = [p for p in every if any(part in each.lower() for each in (p.id, p.name, p.vendor))]
    if known and (part in (known.id.lower(), known.name.lower()) or len(near) <= 1):
        return _in_full(settings, name or "", known)
    if not near:
        hint = did_you_mean(part, [_called(each) for each in every])
        raise Stop(f"no known model matches {name!r}{hint}; compactctl models lists all")
    return {"models": [_entry(each) for each in near]}


def _called(profile: Profile) -> str:
    return profile.id or profile.name


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
