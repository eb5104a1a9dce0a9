"""The tables, and how they are made.

Each key begins with the scope, and each statement names it: no statement reads two scopes. Ids are
bytes, since PostgreSQL's `text` holds neither NUL nor half a surrogate pair. Rows of messages and
of the log are inserted and deleted, never changed.
"""

from urllib.parse import quote

NAME = "compact"
"""The PostgreSQL schema that holds the tables."""
_SHOWN = ("user", "host", "port", "dbname")
_FIRST = f"""
CREATE SCHEMA IF NOT EXISTS {NAME};
CREATE TABLE {NAME}.version (number integer NOT NULL);
INSERT INTO {NAME}.version VALUES (1);
CREATE TABLE {NAME}.sessions (
    scope text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    branch bytea NOT NULL, -- the active one
    last bigint NOT NULL DEFAULT 0, -- the newest number in `log`
    updated bigint NOT NULL, -- microseconds since 1970; of a session without messages
    body bytea NOT NULL,
    PRIMARY KEY (scope, id)
);
CREATE TABLE {NAME}.branches (
    scope text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    session bytea NOT NULL,
    parent bytea,
    number integer NOT NULL, -- how many branches the session had before it
    fork integer NOT NULL, -- positions below belong to the parent
    messages integer NOT NULL, -- with the ancestors'
    tokens bigint NOT NULL, -- with the ancestors'
    hash bytea NOT NULL, -- the chain's, after the last message
    updated bigint, -- the last own message's time
    created text NOT NULL,
    PRIMARY KEY (scope, id)
) WITH (fillfactor = 70); -- an append changes counts: room for that beside the row
CREATE INDEX branches_of_session ON {NAME}.branches (scope, session, number);
CREATE TABLE {NAME}.messages (
    scope text COLLATE "C" NOT NULL,
    branch bytea NOT NULL,
    position integer NOT NULL,
    id bytea NOT NULL,
    role text NOT NULL,
    time text NOT NULL,
    tokens integer,
    score double precision,
    marks smallint NOT NULL,
    content bytea,
    payload bytea NOT NULL,
    hash bytea NOT NULL, -- the chain's, after this message
    PRIMARY KEY (scope, branch, position)
);
CREATE INDEX messages_by_id ON {NAME}.messages (scope, branch, id, position);
CREATE INDEX messages_by_chain ON {NAME}.messages (scope, hash);
CREATE INDEX messages_marked ON {NAME}.messages (scope, branch, position) WHERE marks <> 0;
CREATE TABLE {NAME}.words ( -- of messages that a search has looked at
    scope text COLLATE "C" NOT NULL,
    branch bytea NOT NULL,
    position integer NOT NULL,
    words integer[] NOT NULL, -- hashes
    PRIMARY KEY (scope, branch, position)
);
CREATE TABLE {NAME}.log ( -- everything of a session that is no message
    scope text COLLATE "C" NOT NULL,
    session bytea NOT NULL,
    kind text NOT NULL,
    number bigint NOT NULL, -- grows within a session
    id bytea NOT NULL,
    frame integer, -- a move's window
    body bytea NOT NULL,
    PRIMARY KEY (scope, session, kind, number),
    UNIQUE (scope, session, kind, id)
);
CREATE INDEX log_by_id ON {NAME}.log (scope, kind, id);
"""


_MEMORY = f"""
DROP TABLE {NAME}.words; -- held no stems; a search makes it anew
CREATE TABLE {NAME}.words (
    scope text COLLATE "C" NOT NULL,
    branch bytea NOT NULL,
    position integer NOT NULL,
    words integer[] NOT NULL, -- hashes of stems
    facts bytea NOT NULL, -- `text.turns.LAYOUT`
    speaker bytea,
    PRIMARY KEY (scope, branch, position)
);
ALTER TABLE {NAME}.branches
    ADD COLUMN indexed integer NOT NULL DEFAULT 0, -- positions from here on have no words yet
    ADD COLUMN appends bigint NOT NULL DEFAULT 0, -- how many there were
    ADD COLUMN made uuid NOT NULL DEFAULT gen_random_uuid(); -- another one if it is made again
UPDATE {NAME}.branches SET indexed = fork;
ALTER TABLE {NAME}.sessions ADD COLUMN entered timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE {NAME}.log
    ADD COLUMN refers bytea[]; -- a move's projection; a projection's checkpoints
CREATE TABLE {NAME}.leases (
    scope text COLLATE "C" NOT NULL,
    name bytea NOT NULL,
    holder text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (scope, name)
);
CREATE TABLE {NAME}.embedded ( -- how far a branch has vectors
    scope text COLLATE "C" NOT NULL,
    branch bytea NOT NULL,
    generation integer NOT NULL, -- hash of the embedder's name, version and dimensions
    position integer NOT NULL,
    PRIMARY KEY (scope, branch, generation)
);
"""
STEPS = (_FIRST, _MEMORY)
"""Each step makes the next version of the tables. A step never changes once it is released."""
VERSION = len(STEPS)
"""The version of the tables."""
VECTORS = f"""
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS {NAME}.vectors (
    scope text COLLATE "C" NOT NULL,
    branch bytea NOT NULL,
    generation integer NOT NULL,
    position integer NOT NULL,
    piece integer NOT NULL,
    vector vector NOT NULL, -- of length 1
    PRIMARY KEY (scope, branch, generation, position, piece)
);
"""
"""The table of vectors, made when the first one is stored: it needs pgvector."""


def without_password(address: str) -> str:
    """Return a connection URI to show, read as libpq reads it: user, host, port, database only."""
    try:
        from psycopg.conninfo import conninfo_to_dict

        known = conninfo_to_dict(address)
    except Exception:  # noqa: BLE001 - no psycopg, or no address: nothing of it is shown
        return "postgresql://…"
    shown = {name: quote(str(known.get(name) or ""), safe="/,[]:") for name in _SHOWN}
    if any("@" in str(known.get(name) or "") for name in ("host", "port", "dbname")):
        return "postgresql://…"  # a password with a slash
    user = f"{shown['user']}@" if shown["user"] else ""
    port = f":{shown['port']}" if shown["port"] else ""
    place = shown["host"]
    if place.startswith("/"):
        return f"postgresql://{user}{port}/{shown['dbname']}?host={place}"
    return f"postgresql://{user}{place}{port}/{shown['dbname']}"
