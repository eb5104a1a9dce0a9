"""Prompts for models, compressed where they must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.engine.plan import Plan
from compact.errors import InvalidArgument
from compact.messages.context import ActiveContext
from compact.session.methods.looking import Looking
from compact.session.running import blocking
from compact.session.running.off_loop import off_loop
from compact.session.views import review
from compact.session.views.manual_compression import wanted_of
from compact.session.views.review import CompressionProposal


class Prompts(Looking):
    """The methods that make prompts, and compress for them."""

    def get_context_for_model(self, model_key: str | None = None) -> list[dict[str, Any]]:
        """The prompt for the model, as provider dictionaries; they are the caller's own copies.

        If the format has a field for the system prompt, the text from `system=` or `prompt=` is in
        `active_context().system`, with the goals. System messages that were added stay in the list,
        where `sync` recognizes them; `send` moves them into the field. If you send the list
        yourself, move them too.

        Compresses if the trigger was passed. With a model key, the prompt is for that model's
        window and counted by its tokenizer.

        Raises:
            CannotFit: the floor, which may not be shortened, exceeds the usable window.
            UnknownModel: the model key is not known.
            BlockingCallInLoop: the summarizer waits, in a running event loop.
        """
        return self._run(self._prompt(model_key), "aget_context_for_model()")

    async def aget_context_for_model(self, model_key: str | None = None) -> list[dict[str, Any]]:
        """`get_context_for_model` for async callers."""
        return await self._prompt(model_key)

    async def _prompt(self, model_key: str | None) -> list[dict[str, Any]]:
        session = self._session

        async def made() -> list[dict[str, Any]]:
            view = session.view if model_key is None else session.view_for(model_key)
            return await session.sender.fitted(view, view.rendered)

        return await off_loop(made())

    def active_context(self) -> ActiveContext:
        """The typed value behind `get_context_for_model`: the only type that may be sent to a
        model.

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        return self._run(self.aactive_context(), "aactive_context()")

    async def aactive_context(self) -> ActiveContext:
        """`active_context` for async callers."""
        view = self._session.view
        return await off_loop(self._session.sender.fitted(view, view.context))

    def compress_conversation(
        self, target_ratio: float | None = None, *, guidance: str = ""
    ) -> Plan:
        """Compress now; the plan says what was done and why.

        `target_ratio` is the share to keep of the tokens above the floor (system prompt, pins, a
        person's newest message), 0 to 1. The default is the policy's target, and at most 60 %. If
        nothing can be freed, nothing changes; if less is freed than requested, the plan says why.
        `guidance` says what else a summarizing model should keep: "keep the API discussion".

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        work = self.acompress_conversation(target_ratio, guidance=guidance)
        return self._run(work, "acompress_conversation()")

    async def acompress_conversation(
        self, target_ratio: float | None = None, *, guidance: str = ""
    ) -> Plan:
        """`compress_conversation` for async callers."""
        view, ratio = self._session.view, _checked_ratio(target_ratio)
        return await off_loop(
            view.compress(
                lambda was_due: wanted_of(view, ratio, was_due=was_due), guidance=guidance
            )
        )

    def propose_compression(
        self, *, target_ratio: float | None = None, guidance: str = ""
    ) -> CompressionProposal:
        """What `compress_conversation` would do now: the messages that summaries would stand in
        for, the tokens before and after, and each new checkpoint with its text. Nothing of it
        counts before `accept`; to refuse it, drop it. Where nothing can be freed, it has no
        checkpoints, and its `why` says so.

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        work = self.apropose_compression(target_ratio=target_ratio, guidance=guidance)
        return self._run(work, "apropose_compression()")

    async def apropose_compression(
        self, *, target_ratio: float | None = None, guidance: str = ""
    ) -> CompressionProposal:
        """`propose_compression` for async callers."""
        ratio = _checked_ratio(target_ratio)
        return await off_loop(review.proposed(self._session.view, ratio, guidance))

    def accept(
        self, proposal: CompressionProposal, *, summaries: Mapping[str, str] | None = None
    ) -> Plan:
        """Put a proposed compression in force, whole or not at all. Messages that were added since
        stay in view. `summaries` are texts of a person in the place of those proposed, by the ids
        of the checkpoints. They are kept as a person's: also when they age they are made shorter
        from these words, not from the messages. `undo` takes the compression back.

        Raises:
            SummaryRejected: a text holds a secret, a heading of ours or a picture, or it is too
                long; the error says which. The proposal can be accepted with another one.
            Superseded: the session was compressed, or its goals, pins or branch changed since the
                proposal was made; nothing was stored.
            NotFound: the proposal has no such checkpoint.
            InvalidArgument: a text is empty, or the proposal is of another session.
        """
        return review.accepted(self._session.view, proposal, summaries or {})

    async def aaccept(
        self, proposal: CompressionProposal, *, summaries: Mapping[str, str] | None = None
    ) -> Plan:
        """`accept` for async callers."""

        async def done() -> Plan:
            return self.accept(proposal, summaries=summaries)

        return await off_loop(done())

    def get_conversation_summary(self) -> str:
        """The texts of the checkpoints in view; before the first one, a summary of the whole
        history.

        Raises:
            BlockingCallInLoop: the summarizer waits, in a running event loop.
        """
        work = self.aget_conversation_summary()
        waits = self._session.state.writer_waits
        return blocking.run(work, waits=waits, instead="aget_conversation_summary()")

    async def aget_conversation_summary(self) -> str:
        """`get_conversation_summary` for async callers."""
        if self.checkpoints:
            return "\n\n".join(c.summary for c in self.checkpoints)
        if not len(self.history):
            return ""
        session = self._session
        from compact.session.views.session_summary import summary_of

        return await off_loop(summary_of(session.state, session.breaker))


def _checked_ratio(ratio: float | None) -> float | None:
    """The share to keep.

    Raises:
        InvalidArgument: it is none.
    """
    if ratio is not None and not 0 < ratio <= 1:
        reason = f"target_ratio must lie above 0 and be at most 1, got {ratio!r}"
        raise InvalidArgument("target_ratio", reason)
    return ratio
