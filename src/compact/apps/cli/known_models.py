"""What is known about models: which one a name means, and what follows from it, as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compact.apps.cli.errors import Stop
from compact.config import CompactConfig, did_you_mean
from compact.core.profiles import ModelBook, Profile, Sizing
from compact.core.reliability import reliability_of, writing_of


def known_of(settings: CompactConfig, name: str | None) -> dict[str, Any]:
    """The model that a name means, in full; else, under `models`, those whose names have it.

    Raises:
        Stop: none has.
    """
    book = settings.book()
    if (known := _meant(book, name)) is not None:
        return _in_full(settings, name or "", known)
    return {"models": [_entry(each) for each in _found(book, name)]}


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
