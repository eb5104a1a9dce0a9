"""`compactctl recall`: messages of one session, found by words."""

from __future__ import annotations

from typing import Annotated

from compact.cli.options import FOUND, Most, argument, command
from compact.cli.parts import Styled, Telling
from compact.cli.stores import OpenOptions, entered
from compact.cli.words import whole


@command
def recall(
    options: OpenOptions,
    *,
    query: Annotated[list[str], argument("QUERY...", "The words to look for.")],
    most: Most = FOUND,
) -> Telling:
    """Search a session's whole history by words, the best match first.

    Examples:
      compactctl recall harbour winter berths
      compactctl recall harbour "E_TIMEOUT" --most 3 --json
    """
    with entered(options) as (_, ctx):
        wanted = " ".join(query)
        found = ctx.recall(wanted, limit=most)
    listed = [
        {"number": each.position, **each.model_dump(mode="json", exclude={"position"})}
        for each in found
    ]
    yield {"session": ctx.id, "query": wanted, "messages": listed}
    if not found:
        yield f"nothing in session {ctx.id!r} shares words with {wanted!r}"
    for each in found:
        head = f"{each.position:,} · {whole(each.id)} · {each.role}"
        yield Styled(head, "bold")
        yield Styled(f"{each.text}\n")
