"""Marking what must stay word for word in every call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.messages.messages import Message, metadata_in


def mark_protected(
    item: str | Mapping[str, Any] | Message, label: str | None = None, **meta: object
) -> Any:  # noqa: ANN401 - a message, or a dictionary that a client has a type of
    """The message, marked to stay word for word in every call. A text becomes a developer message.
    `label` and `meta` are kept with the mark.

    Compact removes its mark before a call. A list that is sent without compact carries the mark.
    """
    marks = {**meta, **({} if label is None else {"label": label}), "protected": True}
    if isinstance(item, Message):
        own = item.metadata
        changed = type(own).model_validate({**own.model_dump(), **marks})
        return item.model_copy(update={"metadata": changed})
    made: dict[str, Any] = {"role": "developer", "content": item}
    if not isinstance(item, str):
        made = dict(item)
    known = metadata_in(made)
    made.pop("meta", None)
    made["metadata"] = {**(known if isinstance(known, Mapping) else {}), **marks}
    return made
