"""What a file of a whole session has beside its open branch, as JSON values and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compact.messages.changes import Change
from compact.messages.checkpoints import Checkpoint
from compact.messages.codec import encode_whole
from compact.messages.levels import at_level
from compact.messages.messages import Message
from compact.messages.sessions import (
    FIXED,
    PERSON,
    Branch,
    CheckpointRef,
    Entry,
    Move,
    Piece,
    Projection,
    Run,
    Session,
    Shown,
    Snapshot,
)
from compact.store.whole_session import OwnPart, WholeSession

BRANCHES = "branches"
"""The key that a file of a whole session has."""
_MARKS = range((FIXED | PERSON) + 1)
Decoded = Callable[[object], Message]


def parts(whole: WholeSession) -> dict[str, Any]:
    """What stands in the file, by its keys. Of each branch those messages that are not along the
    open one.
    """
    open_id = whole.session.branch.id
    return {
        BRANCHES: [
            {
                "id": part.branch.id,
                "parent": part.branch.parent,
                "fork": part.branch.fork,
                "created_at": part.branch.created_at.isoformat(),
                "messages": [row_of(e) for e in part.entries[whole.reach(open_id, part) :]],
            }
            for part in whole.parts
        ],
        "changes": [change.model_dump(mode="json", exclude={"number"}) for change in whole.changes],
        "notes": dict(whole.notes or {}),
        "projections": [_row_of_projection(each) for each in whole.projections],
        "moves": [move.model_dump(mode="json", exclude={"number"}) for move in whole.moves],
        "snapshots": [
            each.model_dump(mode="json", exclude={"session_id"}) for each in whole.snapshots
        ],
    }


def row_of(entry: Entry) -> dict[str, Any]:
    """A message as a store keeps it, with its tokens and marks."""
    return {**encode_whole(entry.message), "tokens": entry.tokens, "marks": entry.marks}


def _row_of_projection(projection: Projection) -> dict[str, Any]:
    plain = projection.model_dump(mode="json", exclude={"pieces", "checkpoints"})
    levels = {each.id: each.level for each in projection.checkpoints}
    return {**plain, "checkpoints": levels, "pieces": list(map(_value_of, projection.pieces))}


def _value_of(piece: Piece) -> object:
    match piece:
        case Run():
            return [piece.first, piece.last]
        case CheckpointRef():
            return piece.checkpoint_id
        case Shown():
            return {**encode_whole(piece.message), "position": piece.position}


# --- reading --------------------------------------------------------------------------------------


def read(
    value: Mapping[str, Any], session: Session, messages: Sequence[Message], decoded: Decoded
) -> WholeSession:
    """The whole session of a file, whose open branch was read already.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: something is missing or of another kind.
    """
    rows = value["messages"]
    line = [_entry(row, message) for row, message in zip(rows, messages, strict=True)]
    branches = [_branch(row, session.id) for row in value[BRANCHES]]
    open_id = value["branch"]["id"]
    own = {
        branch.id: [_entry(each, decoded(each)) for each in row["messages"]]
        for branch, row in zip(branches, value[BRANCHES], strict=True)
    }
    spans = _spans(branches, open_id, len(line))
    all_parts = []
    for branch in branches:
        first, last = spans.get(branch.id, (0, 0))
        all_parts.append(OwnPart(branch, (*line[first:last], *own[branch.id])))
    opened = next(part for part in all_parts if part.branch.id == open_id)
    checkpoints = [Checkpoint.model_validate(row) for row in value["checkpoints"]]
    by_id = {checkpoint.id: checkpoint for checkpoint in checkpoints}
    return WholeSession(
        session.model_copy(update={"branch": opened.branch}),
        all_parts,
        changes=[Change.model_validate({**row, "number": 0}) for row in value["changes"]],
        notes={str(name): _note(note) for name, note in value["notes"].items()},
        checkpoints=checkpoints,
        projections=[_projection(row, by_id, decoded) for row in value["projections"]],
        moves=[
            Move.model_validate({**row, "number": n}) for n, row in enumerate(value["moves"], 1)
        ],
        snapshots=[
            Snapshot.model_validate({**row, "session_id": session.id}) for row in value["snapshots"]
        ],
    )


def _entry(row: Mapping[str, Any], message: Message) -> Entry:
    tokens, marks = row["tokens"], row["marks"]
    if not (tokens is None or (type(tokens) is int and tokens >= 0)) or marks not in _MARKS:
        raise ValueError("tokens or marks of a message are none")
    return Entry(message, tokens, marks)


def _branch(row: Mapping[str, Any], session_id: str) -> Branch:
    about = {name: row[name] for name in ("id", "parent", "fork", "created_at")}
    branch = Branch.model_validate({**about, "session_id": session_id})
    if branch.fork < 0 or not branch.id:
        raise ValueError("a branch begins before the first message")
    return branch


def _spans(branches: Sequence[Branch], open_id: str, length: int) -> dict[str, tuple[int, int]]:
    """Of each branch along the open one, which messages of its line are the branch's own."""
    known = {branch.id: branch for branch in branches}
    spans: dict[str, tuple[int, int]] = {}
    branch: Branch | None = known[open_id]
    end = length
    while branch is not None and branch.id not in spans:
        spans[branch.id] = (min(branch.fork, end), end)
        end = min(end, branch.fork)
        branch = known[branch.parent] if branch.parent is not None else None
    return spans


def _note(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a note is no object")  # noqa: TRY004 - what is wrong with a file
    return value


def _projection(
    row: Mapping[str, Any], checkpoints: Mapping[str, Checkpoint], decoded: Decoded
) -> Projection:
    live = tuple(at_level(checkpoints[name], level) for name, level in row["checkpoints"].items())
    pieces = tuple(_piece(each, decoded) for each in row["pieces"])
    return Projection.model_validate({**row, "checkpoints": live, "pieces": pieces})


def _piece(value: object, decoded: Decoded) -> Piece:
    match value:
        case [int(first), int(last)]:
            return Run(first, last)
        case str():
            return CheckpointRef(value)
        case {"position": int() | None as position}:
            return Shown(decoded(value), position)
    raise ValueError("a piece of a projection is of another kind")
