"""The database schema, as a list of migration steps. A released step is never edited; a change is a
new step.

An application id marks our files. The table `migrations` lists the applied steps with their times.
The user version is their number. A file of a newer compact, or of another application, is refused
and not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import apsw

from compact.errors import StoreFailed
from compact.messages import clock_and_ids
from compact.store.sqlite.changes import take_over_notes
from compact.store.sqlite.rows import query

APPLICATION_ID = 0x636D7063
"""`cmpc` in ASCII."""

_SESSIONS = (
    """
    CREATE TABLE sessions (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id ANY NOT NULL UNIQUE,
        branch INTEGER NOT NULL, -- the one in force
        scope ANY NOT NULL,
        title ANY,
        model ANY,
        mode ANY,
        wire ANY NOT NULL,
        tokenizer ANY NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL, -- while it has no messages
        metadata TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX sessions_by_scope ON sessions (scope)",
    """
    CREATE TABLE branches (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id ANY NOT NULL UNIQUE,
        session INTEGER NOT NULL,
        parent INTEGER,
        fork INTEGER NOT NULL, -- positions below it are the parent's
        fork_tokens INTEGER NOT NULL, -- running total and chain there, so that appending
        fork_hash BLOB NOT NULL, -- need not look beyond the branch itself
        indexed INTEGER NOT NULL, -- positions below it are in the search index
        created_at TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX branches_by_session ON branches (session)",
    # Small columns come first, so that reading them skips the pages of a long text.
    """
    CREATE TABLE messages (
        key INTEGER PRIMARY KEY, -- branch << 32 | position: a branch is one range
        id ANY, -- NULL where it is 'm' and the position
        role TEXT NOT NULL,
        timestamp INTEGER NOT NULL, -- microseconds since 1970
        zone ANY, -- NULL for UTC, else seconds east of it, or 'none'
        token_count INTEGER,
        total_tokens INTEGER NOT NULL, -- up to this one, along the branch
        importance_score REAL,
        embedding_id INTEGER,
        marks INTEGER NOT NULL,
        chain_hash BLOB NOT NULL,
        payload BLOB NOT NULL,
        content TEXT
    ) STRICT
    """,
    "CREATE INDEX messages_by_id ON messages (id) WHERE id IS NOT NULL",
    "CREATE INDEX messages_fixed ON messages (key) WHERE marks & 1",
    "CREATE INDEX messages_of_persons ON messages (key) WHERE marks & 2",
    """
    CREATE TABLE checkpoints (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL,
        id TEXT NOT NULL,
        number INTEGER NOT NULL,
        level TEXT NOT NULL,
        first_seq INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        messages INTEGER NOT NULL,
        source_tokens INTEGER,
        token_count INTEGER NOT NULL,
        made_by TEXT NOT NULL,
        until TEXT NOT NULL,
        kept TEXT NOT NULL,
        released TEXT NOT NULL,
        parents TEXT NOT NULL,
        anchors TEXT NOT NULL,
        verdicts TEXT NOT NULL,
        summary ANY NOT NULL,
        digest BLOB NOT NULL, -- of the row itself, as in the tables below
        UNIQUE (session, id)
    ) STRICT
    """,
    """
    CREATE TABLE projections (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL,
        window INTEGER NOT NULL,
        number INTEGER NOT NULL,
        at INTEGER NOT NULL,
        cut INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        parent TEXT,
        made_at TEXT NOT NULL,
        kept TEXT NOT NULL,
        checkpoints TEXT NOT NULL, -- ids with their levels, oldest span first
        pieces TEXT NOT NULL, -- [first, last], a checkpoint's id, or a message
        digest BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX projections_by_session ON projections (session)",
    """
    CREATE TABLE moves (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL,
        window INTEGER NOT NULL,
        kind TEXT NOT NULL,
        branch INTEGER NOT NULL,
        at INTEGER NOT NULL,
        projection TEXT,
        before TEXT,
        made_at TEXT NOT NULL,
        digest BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX moves_by_window ON moves (session, window)",
    """
    CREATE TABLE snapshots (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        id TEXT NOT NULL,
        branch ANY NOT NULL,
        purpose TEXT NOT NULL,
        note ANY NOT NULL,
        at INTEGER NOT NULL,
        window INTEGER NOT NULL,
        projection TEXT,
        checkpoints TEXT NOT NULL,
        goals TEXT NOT NULL,
        policy TEXT NOT NULL,
        created_at TEXT NOT NULL,
        digest BLOB NOT NULL,
        UNIQUE (session, id)
    ) STRICT
    """,
    """
    CREATE TABLE notes (
        session INTEGER NOT NULL,
        name ANY NOT NULL,
        value TEXT NOT NULL,
        digest BLOB NOT NULL,
        PRIMARY KEY (session, name)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE TABLE chores (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",  # what is still to be done
    """
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = '', contentless_delete = 1, tokenize = "unicode61 remove_diacritics 1"
    )
    """,
)


_CHANGES = (
    """
    CREATE TABLE changes (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL,
        branch ANY NOT NULL, -- its id
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        what TEXT NOT NULL,
        digest BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX changes_by_session ON changes (session)",
)


_MEMORY = (
    # Words are indexed by stem: a question with "planned" also finds "plan".
    "DROP TABLE words",
    """
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = '', contentless_delete = 1,
        tokenize = "porter unicode61 remove_diacritics 1"
    )
    """,
    """
    CREATE TABLE turns (
        n INTEGER PRIMARY KEY AUTOINCREMENT, -- whoever read so far, goes on from there
        branch INTEGER NOT NULL,
        start INTEGER NOT NULL, -- the position of the first message
        speakers TEXT NOT NULL,
        packed BLOB NOT NULL -- what is noted of each message, by `core.turns.LAYOUT`
    ) STRICT
    """,
    "CREATE INDEX turns_by_branch ON turns (branch)",
    # Branches with messages that are not indexed yet.
    "CREATE TABLE unindexed (branch INTEGER PRIMARY KEY) STRICT",
    "UPDATE branches SET indexed = fork",
    "INSERT INTO unindexed SELECT key FROM branches",
    """
    CREATE INDEX messages_important ON messages (importance_score)
    WHERE importance_score IS NOT NULL
    """,
    "DROP INDEX sessions_by_scope",
    "CREATE INDEX sessions_in_scope ON sessions (scope, branch)",
)


_VECTORS = (
    """
    CREATE TABLE generations (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        model ANY NOT NULL,
        version ANY NOT NULL,
        dimensions INTEGER NOT NULL,
        state TEXT NOT NULL, -- serving, made, leaving or own (`core.embedding`)
        removed INTEGER NOT NULL, -- counts removals, for those who remember vectors
        made_at TEXT NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE embedded (
        branch INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        position INTEGER NOT NULL, -- those below it are embedded
        PRIMARY KEY (branch, generation)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE vectors (
        key INTEGER PRIMARY KEY AUTOINCREMENT, -- those that come later have higher ones
        generation INTEGER NOT NULL,
        message INTEGER NOT NULL, -- its key; below 1 << 32, that of a name
        chunk INTEGER NOT NULL,
        vector BLOB NOT NULL -- float32, little-endian, of length 1: as sqlite-vec reads it, too
    ) STRICT
    """,
    "CREATE UNIQUE INDEX vectors_by_message ON vectors (message, generation, chunk)",
    # Names of an application's own vectors, which belong to no message.
    """
    CREATE TABLE vector_names (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        name ANY NOT NULL UNIQUE
    ) STRICT
    """,
)

_DIGESTS = (
    # The digest that ageing makes of a session. A session has at most one, beside its originals.
    """
    CREATE TABLE digests (
        session INTEGER PRIMARY KEY,
        level TEXT NOT NULL,
        score REAL,
        fingerprint TEXT NOT NULL, -- of what it was made from, and by which settings
        original_tokens INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        made_by TEXT NOT NULL,
        made_at TEXT NOT NULL,
        survival TEXT NOT NULL,
        verdicts TEXT NOT NULL,
        about TEXT NOT NULL,
        text ANY NOT NULL,
        digest BLOB NOT NULL
    ) STRICT
    """,
    # A lease names the process that does a job which several processes might do at once.
    """
    CREATE TABLE leases (
        name ANY PRIMARY KEY,
        holder TEXT NOT NULL,
        until INTEGER NOT NULL -- microseconds since 1970
    ) STRICT, WITHOUT ROWID
    """,
)

_ARCHIVED = (
    """
    CREATE TABLE archived (
        session INTEGER PRIMARY KEY,
        folder ANY NOT NULL, -- of archives: relative to the database's where it lies within that
        name ANY NOT NULL, -- of its files: YYYY/MM/ and what they are called, without an ending
        originals BLOB NOT NULL, -- SHA-256 of each file
        description BLOB NOT NULL,
        archived_at TEXT NOT NULL,
        messages INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        bytes INTEGER NOT NULL, -- of the originals
        digest ANY
    ) STRICT
    """,
    # The ends of archived sessions' branches, so that the sessions can be continued.
    """
    CREATE TABLE archived_branches (
        branch INTEGER PRIMARY KEY,
        last INTEGER NOT NULL, -- its key
        total_tokens INTEGER NOT NULL,
        chain_hash BLOB NOT NULL,
        timestamp INTEGER NOT NULL,
        zone ANY
    ) STRICT
    """,
    # The words of archived sessions' digests, by session key.
    """
    CREATE VIRTUAL TABLE archived_words USING fts5 (
        text, content = '', contentless_delete = 1,
        tokenize = "porter unicode61 remove_diacritics 1"
    )
    """,
)


_ORIGINALS = (
    # Messages keep their rows, without texts. A branch of an archived session has only its last
    # message until the archive is read (`archiving`).
    """
    INSERT OR IGNORE INTO messages (key, role, timestamp, zone, total_tokens, marks, chain_hash,
        payload)
    SELECT last, 'assistant', timestamp, zone, total_tokens, 0, chain_hash, x''
    FROM archived_branches
    """,
    "DROP TABLE archived_branches",
    "DROP TABLE archived_words",
    "ALTER TABLE archived DROP COLUMN description",
    "ALTER TABLE archived DROP COLUMN digest",
    # Files of sessions that are packed in the database. Such a session has an empty folder in
    # `archived`. The key is the session's key << 32 plus the number of the part.
    "CREATE TABLE packed (key INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT",
    # The index holds other forms of words from here on (`text.terms`), so it is built again.
    "DROP TABLE words",
    """
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = '', contentless_delete = 1,
        tokenize = "porter unicode61 remove_diacritics 1"
    )
    """,
)

# Everything is indexed again, because the traits of messages changed (`text.turns`).
_TRAITS = (
    "DELETE FROM words",
    "DELETE FROM turns",
    "UPDATE branches SET indexed = fork",
    "INSERT OR IGNORE INTO unindexed SELECT key FROM branches",
)

# A list that is resent whole finds its session by a hash (`CompactManager.recognize`).
_CHAINS = ("CREATE INDEX messages_by_chain ON messages (chain_hash)",)


class Migration(NamedTuple):
    """A step of the schema."""

    name: str
    statements: tuple[str, ...]
    then: Callable[[apsw.Connection], None] | None = None
    """Converts rows after the statements have run."""


MIGRATIONS: tuple[Migration, ...] = (
    Migration("0001_sessions", _SESSIONS),
    Migration("0002_changes", _CHANGES, take_over_notes),
    Migration("0003_memory", (*_MEMORY, *_VECTORS, *_DIGESTS, *_ARCHIVED)),
    Migration("0004_originals", _ORIGINALS),
    Migration("0005_traits", _TRAITS),
    Migration("0006_chains", _CHAINS),
)

_STEPS = "CREATE TABLE migrations (name TEXT PRIMARY KEY, applied_at TEXT NOT NULL) STRICT"


def check(db: apsw.Connection, file: str) -> bool:
    """Return whether the file is new and empty. Changes nothing.

    All reads are in one transaction. Otherwise another process could set up the new file between
    two reads.

    Raises:
        StoreFailed: the file belongs to another application, or to a newer compact.
    """
    if db.in_transaction:
        return _check(db, file)
    db.execute("BEGIN")
    try:
        return _check(db, file)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _check(db: apsw.Connection, file: str) -> bool:
    application = db.pragma("application_id")
    if application != APPLICATION_ID:
        if application or db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
            raise StoreFailed(
                f"{file} is a database of another application, and was left as it is. "
                "Give the name of another file"
            )
        return True
    applied = [row[0] for row in query(db, "SELECT name FROM migrations ORDER BY name")]
    unknown = [name for name in applied if name not in [m.name for m in MIGRATIONS]]
    if unknown or db.pragma("user_version") > len(MIGRATIONS):
        raise StoreFailed(
            f"{file} was written by a newer version of compact (it knows "
            f"{', '.join(unknown) or 'more than this one'}), and was left as it is. Update compact"
        )
    if db.readonly("main") and len(applied) < len(MIGRATIONS):
        raise StoreFailed(
            f"{file} was written by an older version of compact and has to be brought up to date, "
            "but it is read-only. Open it once where it can be written"
        )
    return False


def migrate(db: apsw.Connection, file: str) -> None:
    """Apply each missing step in a transaction of its own."""
    for number, migration in enumerate(MIGRATIONS, 1):
        if db.pragma("user_version") >= number:
            continue
        db.execute("BEGIN IMMEDIATE")
        try:
            check(db, file)  # another process may have applied the step
            if db.pragma("user_version") < number:
                _take(db, migration, number)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _take(db: apsw.Connection, migration: Migration, number: int) -> None:
    if number == 1:
        db.pragma("application_id", APPLICATION_ID)
        db.execute(_STEPS)
    for statement in migration.statements:
        db.execute(statement)
    if migration.then is not None:
        migration.then(db)
    row = (migration.name, clock_and_ids.now().isoformat())
    db.execute("INSERT INTO migrations VALUES (?, ?)", row)
    db.pragma("user_version", number)
