"""Make runs of the OpenAI Agents SDK (extra `agents`) fit their model's window.

    manager = CompactManager(CompactConfig(model="gpt-5"))
    session = CompactSession("harbour", manager)
    await Runner.run(agent, "…", session=session, run_config=run_config(manager, "harbour"))

`run_config` sets a `call_model_input_filter`: before each call the manager makes the input fit. The
filter changes only the call; the SDK's items of the run stay whole. `CompactSession` keeps a run's
items in the manager's store, once for both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidArgument, ServerHeldState, UnknownModel
from compact.messages.events import (
    Committed,
    ErrorRaised,
    Event,
    PrunedMessages,
    SummaryCreated,
    TokenEstimate,
    TriggerDecision,
)
from compact.messages.formats.responses import OUTPUT_OF, refuse_server_state
from compact.messages.given import mark_protected as mark_protected
from compact.messages.given import plain
from compact.messages.protocols import SessionStore
from compact.secrets.redaction import redact
from compact.session.compact_manager import CompactManager
from compact.session.kept_list import KeptList
from compact.session.running import threaded

try:
    from agents import Agent, AgentOutputSchema, FunctionTool, Handoff, RunConfig
    from agents.agent_output import AgentOutputSchemaBase
    from agents.models.default_models import get_default_model
    from agents.models.interface import Model, ModelProvider
    from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData
    from agents.run_context import RunContextWrapper
    from agents.tracing import Span, custom_span, get_current_span, get_current_trace
    from agents.tracing.span_data import CustomSpanData
except ImportError as missing:
    raise ImportError(
        "compact.integrations.openai_agents needs the OpenAI Agents SDK: "
        + wiring.how_to_install("agents")
    ) from missing

if TYPE_CHECKING:
    from agents.items import ModelResponse, TResponseInputItem, TResponseStreamEvent
    from agents.memory import OpenAIResponsesCompactionArgs, SessionSettings
    from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest

Item = dict[str, Any]
_OUTPUTS = frozenset(OUTPUT_OF.values())
SPAN = "compact.compression"
"""The name of the spans of compressions."""


# --- before a call --------------------------------------------------------------------------------


def before_model_call(
    manager: CompactManager,
    session_id: str | None = None,
    *,
    model: str | None = None,
    trace_content: bool = False,
) -> CallModelInputFilter:
    """Return a `call_model_input_filter` that makes the input of each call fit the model's window.

    The conversation is named by `session_id`, else by the attribute or key `session_id` of the
    run's context, else by the trace's `group_id`. The SDK gives a filter no session.

    The window is the manager's `max_context_tokens`, else that of `model`, else that of each
    agent's own model. The agent's instructions, tools, handoffs and output schema are counted.

    `trace_content` adds the checkpoints' texts to the trace's spans. Without it, spans hold only
    counts.

    Raises, before a call:
        InvalidArgument: nothing names the conversation.
        CannotFit: items that may not be shortened exceed the window.
        ServerHeldState: the run leaves the conversation to the provider's server.
        UnknownModel: the model is unknown, and the settings give no window.
    """

    async def fitted(data: CallModelData[Any]) -> ModelInputData:
        asked = data.model_data
        if not asked.input:
            return asked
        _refuse_held(data)
        name = session_id or _session_of(data.context)
        window = _window_of(manager.config, data.agent, model)
        beside = await _tools_of(data.agent, data.context)
        items = cast("list[Item]", asked.input)
        with _Compressions(manager, name, trace_content):
            fitted = await manager.afit(
                name,
                items,
                format="responses",
                tools=beside,
                system_prompt=asked.instructions,
                model=window,
                answer_tokens=data.agent.model_settings.max_tokens,
            )
        sent = fitted.into(cast("list[TResponseInputItem]", items), lambda item, _: item)
        return ModelInputData(input=sent, instructions=asked.instructions)

    return fitted


def run_config(
    manager: CompactManager,
    session_id: str | None = None,
    *,
    trace_content: bool = False,
    **settings: Any,  # noqa: ANN401 - the SDK's fields say what each may be
) -> RunConfig:
    """Return a `RunConfig` whose runs fit. `settings` are its other fields.

    It has the filter of `before_model_call`, groups traces by the session, and wraps models so that
    they refuse a conversation held by the server.

    Raises:
        InvalidArgument: `settings` has a filter of its own. Call `before_model_call` from it.
    """
    if settings.get("call_model_input_filter") is not None:
        raise InvalidArgument(
            "call_model_input_filter",
            "run_config sets this filter; to use another one too, give RunConfig one that calls "
            "before_model_call(manager)",
        )
    config = RunConfig(**{"group_id": session_id, **settings})
    model = config.model
    key = model if isinstance(model, str | None) else _name_of(model)
    return replace(
        config,
        model=_Counted(model) if isinstance(model, Model) else model,
        model_provider=_CountedModels(config.model_provider),
        call_model_input_filter=before_model_call(
            manager, session_id, model=key, trace_content=trace_content
        ),
    )


def _window_of(config: CompactConfig, agent: Agent[Any], model: str | None) -> str | None:
    """Return the key of the model whose window limits a call; None if the settings give it."""
    if config.max_context_tokens is not None:
        return None
    own = get_default_model() if agent.model is None else agent.model
    key = model or (own if isinstance(own, str) else _name_of(own))
    if config.book().profile_of(key) is not None:
        return key
    if config.model is not None:
        return None
    raise UnknownModel(
        f"nothing is known of the model {key!r}",
        way="give its window: CompactManager(CompactConfig(max_context_tokens=…))",
    )


def _name_of(model: Model) -> str:
    return str(getattr(model, "model", "") or type(model).__name__)


def _session_of(context: object) -> str:
    named = context.get("session_id") if isinstance(context, Mapping) else None
    named = named or getattr(context, "session_id", None)
    named = named or getattr(get_current_trace(), "group_id", None)
    if not isinstance(named, str) or not named:
        raise InvalidArgument(
            "session_id",
            "nothing names the conversation: give run_config(manager, session_id), a context with "
            "session_id, or RunConfig(group_id=…)",
        )
    return named


async def _tools_of(agent: Agent[Any], context: object) -> list[Item]:
    """Return the schemas of tools, handoffs and output, to be counted with the items."""
    wrapper = RunContextWrapper(context=context)
    schemas = [
        _schema(tool.name, tool.description, tool.params_json_schema)
        if isinstance(tool, FunctionTool)
        else _schema(tool.name, "", {})
        for tool in await agent.get_all_tools(wrapper)
    ]
    for other in agent.handoffs:
        if isinstance(other, Handoff):
            schema = other.input_json_schema
            schemas.append(_schema(other.tool_name, other.tool_description, schema))
        else:
            name = Handoff.default_tool_name(other)
            schemas.append(_schema(name, Handoff.default_tool_description(other), {}))
    kind = agent.output_type
    if kind is not None and kind is not str:
        output = kind if isinstance(kind, AgentOutputSchemaBase) else AgentOutputSchema(kind)
        if not output.is_plain_text():
            schemas.append(_schema(output.name(), "", output.json_schema()))
    return schemas


def _schema(name: str, description: str | None, parameters: Mapping[str, Any]) -> Item:
    return {
        "type": "function",
        "name": name,
        "description": description or "",
        "parameters": plain(parameters, name),
    }


# --- a conversation that the server keeps ---------------------------------------------------------


def _refuse_held(data: CallModelData[Any]) -> None:
    """Refuse a conversation that the server holds, as far as a filter can see it.

    Raises:
        ServerHeldState: the input refers to stored items, a setting does, or an output's call was
            not sent.
    """
    items = cast("list[Item]", data.model_data.input)
    settings = data.agent.model_settings
    for extra in (settings.extra_args, settings.extra_body):
        if isinstance(extra, Mapping):
            refuse_server_state(extra)
    refuse_server_state({"input": items})
    kinds = {item.get("type") for item in items}
    if kinds & _OUTPUTS and not kinds & OUTPUT_OF.keys():
        raise ServerHeldState(
            "the input has outputs of tools, and the calls that they answer are kept by the "
            "server: it would add messages that nobody counted. Run without previous_response_id, "
            "auto_previous_response_id and conversation_id; a session keeps the items"
        )


class _CountedModels(ModelProvider):
    """A provider's models, wrapped in `_Counted`."""

    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider

    def get_model(self, model_name: str | None) -> Model:
        return _Counted(self._provider.get_model(model_name))

    async def aclose(self) -> None:
        await self._provider.aclose()


class _Counted(Model):
    """Wraps a model, and refuses to continue a conversation that the model's server holds."""

    def __init__(self, model: Model) -> None:
        self._of = model

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the model has
        return getattr(self._of, name)

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:  # noqa: ANN401
        refuse_server_state(options)
        return await self._of.get_response(*args, **options)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[TResponseStreamEvent]:  # noqa: ANN401
        refuse_server_state(options)
        return self._of.stream_response(*args, **options)

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self._of.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._of._cleanup_on_run_end(owner)

    async def close(self) -> None:
        await self._of.close()


# --- the trace ------------------------------------------------------------------------------------

_NAMES = frozenset(("reason", "checkpoint_id", "made_by", "level", "tokenizer"))
"""Text fields of events that never quote a conversation."""
_asked: ContextVar[_Compressions | None] = ContextVar("compact_asked", default=None)


class _Compressions:
    """Records a session's compressions during one call as spans of the run's trace."""

    def __init__(self, manager: CompactManager, session_id: str, has_content: bool) -> None:
        self._manager, self._id, self._has_content = manager, session_id, has_content
        self._span: Span[CustomSpanData] | None = None
        self._parent = get_current_span() or get_current_trace()

    def __enter__(self) -> None:
        if self._parent is None:
            return
        self._before = _asked.set(self)
        self._end = self._manager.subscribe(self._hear)

    def __exit__(self, *_: object) -> None:
        if self._parent is not None:
            self._end()
            _asked.reset(self._before)
            self._finish()

    def _hear(self, event: Event) -> None:
        if _asked.get() is not self or event.session_id != self._id:
            return  # another call's
        match event:
            case TriggerDecision(triggered=True):
                self._finish()
                data = {"session_id": self._id, **_facts_of(event)}
                self._span = custom_span(SPAN, data, parent=self._parent)
                self._span.start()
            case Committed() | PrunedMessages() | SummaryCreated() | TokenEstimate():
                self._note(_facts_of(event))
            case ErrorRaised():
                self._note({"stage": event.stage, "serves": event.serves})
                if self._span is not None:
                    self._span.set_error({"message": event.error, "data": None})

    def _note(self, data: Mapping[str, Any]) -> None:
        if self._span is not None:
            self._span.span_data.data.update(data)

    def _finish(self) -> None:
        if self._span is None:
            return
        if self._has_content:
            checkpoints = self._manager.session(self._id).checkpoints
            self._note({"output": redact("\n\n".join(c.summary for c in checkpoints)).text})
        self._span.finish()
        self._span = None


def _facts_of(event: Event) -> Item:
    """Return an event's numbers and names, without texts of the conversation."""
    fields = event.as_dict().items()
    return {key: value for key, value in fields if isinstance(value, int | float) or key in _NAMES}


# --- a session ------------------------------------------------------------------------------------


class CompactSession:
    """The SDK's `Session` in a store of compact. Items come back as they were added.

    `kept_by` is the manager of the runs' filter, so that items are stored once for both. For runs
    without the filter it is a store or its file's name. Popped and cleared items stay in the store,
    on their branch.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self, session_id: str, kept_by: CompactManager | SessionStore | str | Path | None = None
    ) -> None:
        self.session_id = session_id
        self._owns = not isinstance(kept_by, CompactManager)
        self.manager = (
            kept_by if isinstance(kept_by, CompactManager) else CompactManager(store=kept_by)
        )
        self._list()  # note the list's end before a call stores new items

    def _list(self) -> KeptList:
        return KeptList(self.manager.session(self.session_id, format="responses"))

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, or the last `limit` of them."""
        items = await threaded(lambda: self._list().items(limit))
        return cast("list[TResponseInputItem]", items)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items. They are durable when this returns."""
        await threaded(lambda: self._list().add(cast("list[Item]", items)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it; None if there is none."""
        return cast("TResponseInputItem | None", await threaded(lambda: self._list().pop()))

    async def clear_session(self) -> None:
        """Remove all items."""
        await threaded(lambda: self._list().clear())

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Compress the next call's input now if `args` has `force`. Items stay as they are.

        The SDK calls this without `force` after each answer. Then nothing is done, since the filter
        compresses when it must.
        """
        if args and args.get("force"):
            await self.manager.session(self.session_id, format="responses").acompress_conversation()

    def close(self) -> None:
        """Close the store, unless a manager or an open store was given."""
        if self._owns:
            self.manager.close()
