"""Moves a host application from its own context manager to compact's, part by part (MIG).

    adapter = LegacyContextAdapter(manager)
    adapter.migrate_session(json.loads(old_file.read_text()))
    sent = adapter.prompt("roof", messages, old=host.build_prompt)

Three environment variables switch parts to compact. Each is off by default:

- `COMPACT_NEW_CONTEXT`: compact stores the session with its whole history.
- `COMPACT_NEW_COMPRESSION`: compact makes the messages fit the window.
- `COMPACT_NEW_CHECKPOINTS`: compact makes summaries and recovery points.

If one is not set, `OLLM_NEW_CONTEXT`, `OLLM_NEW_COMPRESSION` or `OLLM_NEW_CHECKPOINTS` counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from compact.errors import InvalidArgument, InvalidConfig, InvalidTranscript
from compact.exchange.manifest import MigratedConversation
from compact.exchange.migrating import LEGACY_SNAPSHOT, migrate_data
from compact.models.effective_settings import DEFAULT_WINDOW
from compact.models.profiles import ModelBook
from compact.session.compact_manager import CompactManager
from compact.session.one_call import acompress, compress

PREFIXES = ("COMPACT_NEW_", "OLLM_NEW_")
"""Prefixes of the environment variables. A variable with the second prefix is read only if the one
with the first prefix is not set."""
_ON = frozenset(("1", "true", "yes", "on"))
_OFF = frozenset(("0", "false", "no", "off", ""))
T = TypeVar("T")
Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class NewParts:
    """Says which parts of a host's context handling compact does."""

    context: bool = False
    compression: bool = False
    checkpoints: bool = False

    @classmethod
    def of(cls, environment: Mapping[str, str] | None = None) -> NewParts:
        """Read the variables of `environment`, by default of the process.

        Raises:
            InvalidConfig: a variable says neither yes nor no. The error names it.
        """
        variables = os.environ if environment is None else environment
        return cls(
            context=_flag(variables, "CONTEXT"),
            compression=_flag(variables, "COMPRESSION"),
            checkpoints=_flag(variables, "CHECKPOINTS"),
        )


def _flag(environment: Mapping[str, str], part: str) -> bool:
    for prefix in PREFIXES:
        value = environment.get(prefix + part)
        if value is None:
            continue
        if value.strip().lower() in _ON:
            return True
        if value.strip().lower() in _OFF:
            return False
        raise InvalidConfig(prefix + part, f"should be true or false, got {value!r}")
    return False


class LegacyContextAdapter:
    """Replaces a host's own context manager, part by part.

    `manager` holds the settings and the store. `parts` are the parts that compact does; by default
    the environment decides. Each method takes the host's own function as `old`, and calls it if
    compact does not do that part.
    """

    def __init__(self, manager: CompactManager, *, parts: NewParts | None = None) -> None:
        self.manager = manager
        self.parts = NewParts.of() if parts is None else parts

    # --- what is called at every turn -------------------------------------------------------------

    def prompt(
        self, session_id: str, messages: Messages, *, old: Callable[[list[Any]], list[Any]]
    ) -> list[Any]:
        """Return the messages to send for a session. `messages` are all of its messages.

        With `context`, they are stored in the session. With `compression`, they are made to fit:
        with summaries if `checkpoints` is on, else without, since the host's own summaries stand
        among the messages.

        Raises:
            CannotFit: messages that may not be shortened exceed the window.
        """
        whole = list(messages)
        if self._is_all_ours:
            return self.manager.preflight(session_id, whole)
        if self.parts.context:
            self.manager.session(session_id).sync(whole)
        if not self.parts.compression:
            return old(whole)
        return compress(whole, **self._limits())

    async def aprompt(
        self,
        session_id: str,
        messages: Messages,
        *,
        old: Callable[[list[Any]], list[Any] | Awaitable[list[Any]]],
    ) -> list[Any]:
        """`prompt` for async callers. `old` may be sync or async."""
        whole = list(messages)
        if self._is_all_ours:
            return await self.manager.apreflight(session_id, whole)
        if self.parts.context:
            await self.manager.session(session_id).a_sync(whole)
        if not self.parts.compression:
            sent = old(whole)
            return await sent if isinstance(sent, Awaitable) else sent
        return await acompress(whole, **self._limits())

    @property
    def _is_all_ours(self) -> bool:
        return self.parts.context and self.parts.compression and self.parts.checkpoints

    def _limits(self) -> dict[str, Any]:
        config = self.manager.config
        policy, window = config.policy(), config.window()
        if not self.parts.checkpoints:
            policy = policy.model_copy(update={"strategy": "off"})
        limit = window.usable if window is not None else DEFAULT_WINDOW
        return {"max_tokens": limit, "model": config.model, "policy": policy}

    def snapshot(self, session_id: str, *, old: Callable[[], str], note: str = "") -> str:
        """Take a recovery point and return its id. It needs `context` and `checkpoints`.

        Raises:
            StoreFailed: it cannot be stored.
        """
        if not self._keeps_points:
            return old()
        return self.manager.session(session_id).time.snapshot(note).id

    def restore(self, session_id: str, snapshot_id: str, *, old: Callable[[str], T]) -> T | None:
        """Go back to a recovery point. If the host took it, `old` goes back.

        Raises:
            StoreFailed: it cannot be stored.
        """
        if self._keeps_points:
            ctx = self.manager.session(session_id)
            if any(snapshot.id == snapshot_id for snapshot in ctx.time.snapshots()):
                ctx.time.restore(snapshot_id)
                return None
        return old(snapshot_id)

    @property
    def _keeps_points(self) -> bool:
        return self.parts.context and self.parts.checkpoints

    # --- what is there already --------------------------------------------------------------------

    def migrate_session(self, data: Mapping[str, Any] | str | bytes) -> MigratedConversation:
        """Import a session of the host from its JSON, as text or as a value.

        Messages that are already stored stay, new ones are added. The result holds the session's
        id.

        Raises:
            InvalidTranscript: it cannot be read. Nothing was stored.
            StoreFailed: it cannot be stored. Nothing was stored.
        """
        return self._migrated(data)

    def migrate_snapshot(self, data: Mapping[str, Any] | str | bytes) -> MigratedConversation:
        """Import a snapshot of the host. Import its session first.

        It becomes a snapshot of its session if that has the same messages, else a session of its
        own.

        Raises:
            InvalidTranscript: it cannot be read, or is no snapshot. Nothing was stored.
            StoreFailed: it cannot be stored. Nothing was stored.
        """
        return self._migrated(data, only=LEGACY_SNAPSHOT)

    def migrate_profile(self, data: Mapping[str, Any] | Sequence[Any] | str | bytes) -> ModelBook:
        """Return the model book, overlaid with the host's file of profiles (`LLM_profiles.json`).

        Pass it as `models=` to `ContextManager`, or name the file in the setting `models_file`.
        Unknown fields are counted in `passed_over`.

        Raises:
            InvalidConfig: it lists no models, or an entry is wrong. The error names the entry.
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
        migrated = migrate_data(
            body, store=manager.store, scope=manager.scope, settings=manager.config, only=only
        )
        if migrated.outcome in ("broken", "unknown", "differs"):
            raise InvalidTranscript(migrated.path, migrated.reason)
        return migrated
