"""`compactctl recall`: finds messages of one session by words."""

from __future__ import annotations

from typing import Annotated

from compact.cli.options import FOUND, Most, argument, command
from compact.cli.render import Report, Styled
from compact.cli.stores import OpenOptions, to_read
from compact.cli.words import whole


@command
def recall(
    options: OpenOptions,
    *,
    query: Annotated[list[str], argument("QUERY...", "The words to look for.")],
    most: Most = FOUND,
) -> Report:
    """Search a session's whole history by words, the best match first.

    SESSION may also be a file with a conversation, such as a transcript of Claude Code.

    Examples:
      compactctl recall harbour winter berths
      compactctl recall harbour "E_TIMEOUT" --most 3 --json
    """
    with to_read(options) as ctx:
        words = " ".join(query)
        matches = ctx.recall(words, limit=most)
    rows = [
        {"number": match.position, **match.model_dump(mode="json", exclude={"position"})}
        for match in matches
    ]
    yield {"session": ctx.id, "query": words, "messages": rows}
    if not matches:
        yield f"nothing in session {ctx.id!r} shares words with {words!r}"
    for match in matches:
        head = f"{match.position:,} · {whole(match.id)} · {match.role}"
        yield Styled(head, "bold")
        yield Styled(f"{match.text}\n")
