"""A host application with a context manager of its own changes over to ours, part by part (MIG).

    adapter = LegacyContextAdapter(manager)
    adapter.migrate_session(json.loads(old_file.read_text()))
    sent = adapter.prompt("roof", messages, old=host.build_prompt)

Three flags of the environment say which parts are ours; each is off where nobody sets it:

- `COMPACT_NEW_CONTEXT`: the session is kept in our store, and its history is whole there.
- `COMPACT_NEW_COMPRESSION`: what is too long for the window is made to fit by us.
- `COMPACT_NEW_CHECKPOINTS`: summaries and recovery points are ours.

`OLLM_NEW_CONTEXT`, `OLLM_NEW_COMPRESSION` and `OLLM_NEW_CHECKPOINTS` are read where these are not
set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from compact.errors import InvalidArgument, InvalidConfig, InvalidTranscript
from compact.exchange import legacy_snapshots
from compact.exchange.migrated import MigratedConversation
from compact.exchange.migrating import migrate_data
from compact.models.profiles import ModelBook
from compact.models.resolving import DEFAULT_WINDOW
from compact.session.compact_manager import CompactManager
from compact.session.one_call import acompress, compress

PREFIXES = ("COMPACT_NEW_", "OLLM_NEW_")
"""How the names of the flags begin; the first that is set counts."""
_ON = frozenset(("1", "true", "yes", "on"))
_OFF = frozenset(("0", "false", "no", "off", ""))
T = TypeVar("T")
Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class NewParts:
    """Which parts of a host's context handling are ours."""

    context: bool = False
    compression: bool = False
    checkpoints: bool = False

    @classmethod
    def of(cls, environment: Mapping[str, str] | None = None) -> NewParts:
        """As the flags say, by default those of the process's environment.

        Raises:
            InvalidConfig: one says neither yes nor no; the text names it.
        """
        given = os.environ if environment is None else environment
        return cls(
            context=_flag(given, "CONTEXT"),
            compression=_flag(given, "COMPRESSION"),
            checkpoints=_flag(given, "CHECKPOINTS"),
        )


def _flag(environment: Mapping[str, str], part: str) -> bool:
    for prefix in PREFIXES:
        said = environment.get(prefix + part)
        if said is None:
            continue
        if said.strip().lower() in _ON:
            return True
        if said.strip().lower() in _OFF:
            return False
        raise InvalidConfig(prefix + part, f"should be true or false, got {said!r}")
    return False


class LegacyContextAdapter:
    """Stands where a host calls its own context manager, and asks ours where a part is new.

    `manager` holds the settings and the store; `parts` are those that are ours, by default as the
    flags of the environment say when it is made. What a host did itself is given as a function,
    `old`, and is called where that part is not ours yet.
    """

    def __init__(self, manager: CompactManager, *, parts: NewParts | None = None) -> None:
        self.manager = manager
        self.parts = NewParts.of() if parts is None else parts

    # --- what is called at every turn -------------------------------------------------------------

    def prompt(
        self, session_id: str, messages: Messages, *, old: Callable[[list[Any]], list[Any]]
    ) -> list[Any]:
        """The messages to send for a session, of which `messages` are all.

        With the context ours they are kept in its session; with compression ours what is too long
        is made to fit, with summaries where checkpoints are ours and without any where the host's
        own stand among the messages.

        Raises:
            CannotFit: what may not be shortened exceeds the window, where compression is ours.
        """
        given = list(messages)
        if self._is_all_ours:
            return self.manager.preflight(session_id, given)
        if self.parts.context:
            self.manager.session(session_id).sync(given)
        if not self.parts.compression:
            return old(given)
        return compress(given, **self._limits())

    async def aprompt(
        self,
        session_id: str,
        messages: Messages,
        *,
        old: Callable[[list[Any]], list[Any] | Awaitable[list[Any]]],
    ) -> list[Any]:
        """`prompt` for async callers; `old` may be either."""
        given = list(messages)
        if self._is_all_ours:
            return await self.manager.apreflight(session_id, given)
        if self.parts.context:
            await self.manager.session(session_id).a_sync(given)
        if not self.parts.compression:
            sent = old(given)
            return await sent if isinstance(sent, Awaitable) else sent
        return await acompress(given, **self._limits())

    @property
    def _is_all_ours(self) -> bool:
        return self.parts.context and self.parts.compression and self.parts.checkpoints

    def _limits(self) -> dict[str, Any]:
        """What a list is made to fit by that is kept nowhere."""
        config = self.manager.config
        policy, window = config.policy(), config.window()
        if not self.parts.checkpoints:
            policy = policy.model_copy(update={"strategy": "off"})
        limit = window.usable if window is not None else DEFAULT_WINDOW
        return {"max_tokens": limit, "model": config.model, "policy": policy}

    def snapshot(self, session_id: str, *, old: Callable[[], str], note: str = "") -> str:
        """Take a recovery point; its id. It is ours where both the context and checkpoints are.

        Raises:
            StoreFailed: it cannot be stored.
        """
        if not self._keeps_points:
            return old()
        return self.manager.session(session_id).snapshot(note).id

    def restore(self, session_id: str, snapshot_id: str, *, old: Callable[[str], T]) -> T | None:
        """Go back to a recovery point. One that the host took is the host's to go back to.

        Raises:
            StoreFailed: it cannot be stored.
        """
        if self._keeps_points:
            ctx = self.manager.session(session_id)
            if any(each.id == snapshot_id for each in ctx.snapshots()):
                ctx.restore(snapshot_id)
                return None
        return old(snapshot_id)

    @property
    def _keeps_points(self) -> bool:
        return self.parts.context and self.parts.checkpoints

    # --- what is there already --------------------------------------------------------------------

    def migrate_session(self, data: Mapping[str, Any] | str | bytes) -> MigratedConversation:
        """Bring a session of the host along: its JSON, as text or as a value. What is there already
        is left alone, what it has more is added. The session's id is in what is returned.

        Raises:
            InvalidTranscript: it cannot be read; nothing was stored.
            StoreFailed: it cannot be stored; nothing was.
        """
        return self._migrated(data)

    def migrate_snapshot(self, data: Mapping[str, Any] | str | bytes) -> MigratedConversation:
        """Bring a snapshot of the host along: as one of its session where that says the same, else
        as a session of its own. Bring the session first.

        Raises:
            InvalidTranscript: it cannot be read, or is no snapshot; nothing was stored.
            StoreFailed: it cannot be stored; nothing was.
        """
        return self._migrated(data, only=legacy_snapshots.FORMAT)

    def migrate_profile(self, data: Mapping[str, Any] | Sequence[Any] | str | bytes) -> ModelBook:
        """What is known of models with the host's own file of profiles laid over it, such as
        `LLM_profiles.json`: give it as `models=` to `ContextManager`, or name the file in the
        setting `models_file`. Fields that are not known are counted in `passed_over`.

        Raises:
            InvalidConfig: it lists no models, or an entry is wrong; the text names it.
        """
        value = data
        if isinstance(value, str | bytes):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise InvalidConfig("profiles", f"broken JSON: {error}") from None
        rows = value.get("models") if isinstance(value, Mapping) else value
        if not isinstance(rows, list | tuple):
            raise InvalidConfig("profiles", "expected a list of models, or one under `models`")
        return self.manager.config.book().with_entries(rows, "profiles")

    def _migrated(
        self, data: Mapping[str, Any] | str | bytes, only: str | None = None
    ) -> MigratedConversation:
        manager = self.manager
        if not hasattr(manager.store, "put_session"):
            raise InvalidArgument("store", "name a `store` for the manager: a file that keeps it")
        if isinstance(data, Mapping):
            data = json.dumps(data)
        body = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        told = migrate_data(
            body, store=manager.store, scope=manager.scope, settings=manager.config, only=only
        )
        if told.outcome in ("broken", "unknown", "differs"):
            raise InvalidTranscript(told.path, told.reason)
        return told
