"""Lists the formats that `shape_reading` reads: one row of data for each.

To add a program's format, add a row here. The defaults of `FileShape` fit most programs. The rows
are based on files of the programs, or on public descriptions of their formats. `guess` finds the
shape of files of unknown programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from compact.transcripts import shape_reading
from compact.transcripts.documents import Document, JsonLines, objects_in
from compact.transcripts.roles import role_means
from compact.transcripts.shape_reading import FileShape
from compact.transcripts.transcript import Transcript

_TYPED = "human|ai|humanmessage|aimessage|aimessagechunk"
"""The types of LangChain's messages."""

SHAPES: tuple[FileShape, ...] = (
    FileShape(
        "gemini_cli",
        "Gemini CLI's sessions (JSON, JSONL)",
        marks=(
            "sessionId messages.*.type=user|gemini|qwen|info|warning|error !messages.*.role",
            "*.projectHash *.sessionId",
            "*.type=gemini *.sessionId",
        ),
        role="type",
        roles=(("type=gemini|qwen", "assistant"), ("type=user", "user"), ("type", "")),
        nested="$set.messages|messages",
        newer="id",
        undone="$rewindTo",
    ),
    FileShape(
        "qwen_code",
        "Qwen Code's sessions (JSONL)",
        marks=("*.message.parts *.sessionId",),
        role="type",
        roles=(("type=tool_result", "result"), ("!message.parts", "")),
        text="message.parts",
    ),
    FileShape(
        "droid",
        "Droid's sessions (JSONL)",
        marks=("*.type=session_start *.message.role",),
        body="message",
        roles=(("type=compaction_state", "checkpoint", "summaryText|summary"),),
    ),
    FileShape(
        "kimi",
        "Kimi CLI's context (JSONL)",
        marks=("*.role=_checkpoint|_usage|_system_prompt", "*.content.*.type=think *.role"),
        roles=(("role=_system_prompt", "system"), ("role=_checkpoint|_usage", "")),
    ),
    FileShape(
        "codex_exec",
        "codex exec --json (JSONL)",
        marks=("*.item.type *.type=item.completed|thread.started",),
        body="item",
        role="type",
        roles=(
            ("type=agent_message|assistant_message", "assistant"),
            ("type=user_message", "user"),
            ("type=reasoning", "thought"),
            ("id", "call", ""),
        ),
        text="text",
        newer="item.id",
        session="*.thread_id",
        others="",
    ),
    FileShape(
        "goose",
        "Goose's sessions (JSONL, JSON)",
        marks=(
            "*.working_dir *.content.*.type",
            "working_dir conversation.*.role",
            "working_dir messages.*.role",
            "*.content.*.toolCall *.role",
        ),
        rows="conversation|messages|",
        name_at="description|name|*.description",
    ),
    FileShape(
        "adk",
        "Google ADK's sessions (JSON)",
        marks=("events.*.content.parts events.*.author",),
        rows="events",
        role="author",
        roles=(("author=user", "user"),),
        others="assistant",
        text="content.parts",
    ),
    FileShape(
        "ai_studio",
        "Google AI Studio's prompts (JSON)",
        marks=("chunkedPrompt.chunks.*.role",),
        rows="chunkedPrompt.chunks",
        roles=(("isThought=true", "thought"),),
        text="text|parts",
        system="systemInstruction",
        model="runSettings.model",
    ),
    FileShape(
        "gemini_contents",
        "Gemini's contents, and Gemini CLI's checkpoints (JSON)",
        marks=(
            "contents.*.parts",
            "history.*.parts history.*.role=model|user",
            "request.contents",
            "*.parts *.role=model",
            "clientHistory.*.parts",
            "candidates.*.content.parts",
        ),
        chats=("", "request"),
        rows="contents|clientHistory|history|candidates|",
        body="content",
        text="parts",
        system="systemInstruction|system_instruction|config.systemInstruction",
    ),
    FileShape(
        "amp",
        "Amp's threads (JSON)",
        marks=("v messages.*.content.*.toolUseID", "v created messages.*.role"),
        time="meta.sentAt|sentAt",
    ),
    FileShape(
        "autogen",
        "AutoGen's states (JSON)",
        marks=(
            "llm_context.messages.*.type",
            "model_context.messages.*.type",
            "message_thread.*.source",
            "messages.*.source messages.*.type",
        ),
        chats=("", "agent_states.*.agent_state", "agent_states.*", "state"),
        rows="llm_context.messages|model_context.messages|message_thread|messages",
        role="type",
        roles=(
            ("type=TextMessage|MultiModalMessage source=user", "user"),
            ("type=ToolCallExecutionEvent", "result"),
        ),
        others="assistant",
    ),
    FileShape(
        "bedrock_converse",
        "Bedrock Converse (JSON)",
        marks=tuple(
            f"{at}role=user|assistant {at}content.*.{mark} !{at}content.*.type"
            for at in ("messages.*.", "*.")
            for mark in ("toolUse", "toolResult", "text", "reasoningContent")
        ),
        chats=("", "input"),
        system="system",
        model="modelId",
    ),
    FileShape(
        "vercel_ai",
        "Vercel AI SDK's messages (JSON)",
        marks=(
            *(f"{at}content.*.type=tool-call|tool-result" for at in ("*.", "messages.*.")),
            *(f"{at}toolInvocations {at}role" for at in ("*.", "messages.*.")),
            *(
                f"{at}parts.*.type {at}role !{at}parts.*.part_kind !{at}content.*.type !sessionId"
                for at in ("*.", "messages.*.")
            ),
        ),
        text="parts|content",
        attached="experimental_attachments",
        system="system",
    ),
    FileShape(
        "continue",
        "Continue's sessions (JSON)",
        marks=("history.*.message.role",),
        rows="history",
        body="message",
        results="toolCallStates.*",
        attached="contextItems",
    ),
    FileShape(
        "jan",
        "Jan's and the Assistants API's threads (JSONL, JSON)",
        marks=("*.object=thread.message", "*.content.*.text.value"),
        chats=("", "data", "messages"),
        rows="",
        name_at="title|metadata.title",
        model="assistants.0.model.id",
        session="*.thread_id",
        beside=("messages.jsonl", "thread.json"),
    ),
    FileShape(
        "langchain",
        "LangChain's and LangGraph's messages (JSON)",
        marks=(
            "*.lc *.kwargs.content",
            "messages.*.lc messages.*.kwargs.content",
            f"*.data.content *.type={_TYPED}",
            *(f"{at}type={_TYPED} {at}content" for at in ("*.", "messages.*.")),
        ),
        chats=("", "values", "channel_values", "state", "checkpoint.channel_values"),
        body="kwargs|data",
        role="type|role|id.-1",
    ),
    FileShape(
        "letta",
        "Letta's agents and messages (JSON)",
        marks=("agent_type messages.*.role", "messages.*.role name", "*.message_type"),
        chats=("agents.*", "agents", "messages", ""),
        role="message_type|role",
        text="content|reasoning",
    ),
    FileShape(
        "librechat",
        "LibreChat's exports (JSON)",
        marks=("messages.*.messageId messages.*.isCreatedByUser",),
        chats=("", "*"),
        rows="messages",
        nested="children",
        role="sender",
        roles=(("isCreatedByUser=true", "user"),),
        others="assistant",
        text="content|text",
        session="conversationId",
        tree=("messageId", "parentMessageId", ""),
    ),
    FileShape(
        "llamaindex",
        "LlamaIndex's messages (JSON)",
        marks=("*.blocks.*.block_type", "*.additional_kwargs *.role"),
        chats=("chat_store.store.*", "store.*", "messages", ""),
        rows="",
        text="blocks|content",
    ),
    FileShape(
        "llm_logs",
        "llm's logs (JSON, SQLite)",
        marks=("*.prompt *.response *.model",),
        group="conversation_id|conversation",
        rows="",
        turns=(("system", "system"), ("user", "prompt"), ("assistant", "response")),
        name_at="*.conversation_name",
        session="*.conversation_id",
        time="datetime_utc",
    ),
    FileShape(
        "chat_completion",
        "a completion's answer (JSON)",
        marks=("choices.*.message.role",),
        rows="choices",
        body="message",
        model="model",
    ),
    FileShape(
        "openhands_events",
        "OpenHands' events (JSON)",
        marks=("*.kind=MessageEvent|ActionEvent *.source",),
        chats=("", "events", "history"),
        rows="",
        role="kind",
        roles=(
            ("kind=MessageEvent source=user", "user"),
            ("kind=MessageEvent", "assistant"),
            ("kind=SystemPromptEvent", "system", "system_prompt.text|system_prompt"),
            ("kind=ActionEvent", "call", ""),
            ("tool_call_id", "result", "observation.content|observation|error"),
        ),
        others="",
        text="llm_message.content",
    ),
    FileShape(
        "openhands",
        "OpenHands' trajectories (JSON)",
        marks=("*.action *.source", "*.observation *.source"),
        chats=("", "trajectory", "history"),
        rows="",
        role="action|observation",
        roles=(
            ("observation=null|agent_state_changed|recall", ""),
            ("observation", "result", "content|message"),
            ("action=message source=user", "user"),
            ("action=system", "system"),
            ("action=message|finish|think|reject", "assistant"),
            ("action=change_agent_state|recall|initialize|start|pause|null", ""),
            ("action", "call", ""),
        ),
        text="args.content|args.final_thought|args.thought|content|message",
        also=(("tool_call_id", "cause|id"), ("name", "tool_call_metadata.function_name|action")),
    ),
    FileShape(
        "openwebui",
        "Open WebUI's exports (JSON)",
        marks=("chat.history.messages.*.role", "history.messages.*.role"),
        chats=("*", ""),
        rows="chat.history.messages|history.messages",
        name_at="title|chat.title",
        model="chat.models.0|models.0",
        tree=("id", "parentId", "chat.history.currentId|history.currentId"),
    ),
    FileShape(
        "pydantic_ai",
        "pydantic-ai's messages (JSON)",
        marks=("*.parts.*.part_kind",),
        chats=("", "messages", "all_messages", "message_history"),
        rows="*.parts.*",
        role="part_kind",
        roles=(
            ("part_kind=user-prompt", "user"),
            ("part_kind=system-prompt", "system"),
            ("part_kind=text", "assistant"),
            ("part_kind=tool-call|builtin-tool-call", "call"),
            ("part_kind=tool-return|retry-prompt|builtin-tool-return", "result"),
        ),
        model="*.model_name",
    ),
    FileShape(
        "sharegpt",
        "ShareGPT's conversations (JSON, JSONL)",
        marks=(
            "conversations.*.from conversations.*.value",
            "conversation.*.from",
            "items.*.from items.*.value",
        ),
        chats=("*", ""),
        rows="conversations|conversation|items",
        role="from",
        text="value",
        system="system",
    ),
    FileShape(
        "smolagents",
        "smolagents' steps (JSON)",
        marks=(
            "*.step_number *.model_input_messages",
            "*.step_number *.model_output",
            "*.step_number *.tool_calls",
        ),
        chats=("", "steps", "memory.steps"),
        rows="",
        turns=(
            ("system", "system_prompt"),
            ("user", "task"),
            ("assistant", "model_output|plan"),
            ("result", "observations"),
            ("assistant", "output|final_answer"),
        ),
    ),
    FileShape(
        "typingmind",
        "TypingMind's and Chatbox's exports (JSON)",
        marks=("messages.*.role",),
        chats=("data.chats.*", "chats.*", "chat-sessions-list.*"),
        rows="messages",
        name_at="chatTitle|title|name",
    ),
    FileShape(
        "zed",
        "Zed's threads (JSON)",
        marks=("messages.*.User", "messages.*.Agent", "messages.*.segments"),
        body="User|Agent",
        role="role",
        roles=(("User", "user"), ("Agent", "assistant")),
        text="content|segments",
        results="tool_results.*",
        name_at="title|summary",
        model="model.model",
    ),
    FileShape(
        "cline_ui",
        "Cline's and Roo's ui_messages.json",
        marks=("*.say *.ts", "*.ask *.ts"),
        rows="",
        role="ask|say",
        roles=(
            ("say=user_feedback|user_feedback_diff|task", "user"),
            ("say=text|completion_result|plan_mode_respond", "assistant"),
            ("ask=followup|plan_mode_respond|completion_result", "assistant"),
            ("say=reasoning", "thought"),
            ("say=command_output|mcp_server_response|browser_action_result", "result"),
            ("ask=tool|command|use_mcp_server", "call"),
            ("say=tool|command|use_mcp_server|browser_action", "call"),
        ),
        others="",
        first="user",
        text="text",
        also=(("name", "ask|say"),),
    ),
    FileShape(
        "lmstudio",
        "LM Studio's conversations (JSON)",
        marks=("messages.*.versions",),
        rows="messages",
        body="versions@currentlySelected",
        text="content|steps.*.content",
        system="systemPrompt",
        model="lastUsedModel.identifier|lastUsedModel",
    ),
    FileShape(
        "sillytavern",
        "SillyTavern's chats (JSONL)",
        marks=("*.mes *.is_user", "*.mes *.name"),
        rows="",
        role="name",
        roles=(("!mes", ""), ("is_system=true", "injected"), ("is_user=true", "user")),
        others="assistant",
        text="mes",
        time="send_date",
        name_at="*.character_name",
    ),
    FileShape(
        "grok_export",
        "Grok's exports (JSON)",
        marks=("responses.*.response.sender",),
        chats=("conversations.*", ""),
        rows="responses",
        body="response",
        role="sender",
        text="message",
        name_at="conversation.title",
        session="conversation.id",
        others="assistant",
    ),
    FileShape(
        "deepseek_export",
        "DeepSeek's exports (conversations.json)",
        marks=("mapping.*.message.fragments",),
        chats=("*", ""),
        rows="mapping",
        body="message",
        roles=(("!fragments", ""), ("fragments.0.type=request", "user")),
        role="id",
        others="assistant",
        text="fragments",
        tree=("id", "parent", ""),
    ),
    FileShape(
        "cursor_composer",
        "Cursor's composers (JSON)",
        marks=("conversation.*.bubbleId",),
        chats=("", "*", "composers.*", "allComposers.*"),
        rows="conversation",
        role="type",
        roles=(("type=1", "user"), ("type=2", "assistant")),
        text="text",
        session="composerId",
    ),
    FileShape(
        "copilot_chat",
        "Copilot Chat's exports (JSON)",
        marks=("requests.*.message.text requests.*.response",),
        rows="requests",
        turns=(("user", "message.text"), ("assistant", "response")),
        name_at="customTitle",
    ),
)

# --- files of unknown programs --------------------------------------------------------------------

_ROLE_LIKE = ("role", "sender", "from", "author", "speaker", "type", "who", "source", "kind")
_TEXT_LIKE = ("content", "text", "message", "body", "value", "parts", "msg", "blocks", "utterance")
_DEEPEST = 6
"""How many levels of an object are searched for messages. The limit bounds the time."""


def guess(document: Document) -> FileShape | None:
    """Return the shape of a file whose message lists all have one path and the same keys."""
    values = [value for _, value in document.rows]
    root = values if isinstance(document, JsonLines) else values[0]
    lists = Counter(_message_lists(root, ()))
    if len(lists) != 1:
        return None
    (path, role, text), _ = lists.popitem()
    chats, _, rows = ".".join(path).rpartition("*.") if "*" in path else ("", "", ".".join(path))
    chats = f"{chats}*" if "*" in path else ""
    title = f"messages at `{rows or 'the list'}`, role in `{role}`, text in `{text}`"
    return FileShape("guessed", title, (rows or "*",), (chats,), rows=rows, role=role, text=text)


def _message_lists(
    value: object, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield the paths of lists of messages, with the keys of role and text."""
    if len(path) > _DEEPEST:
        return
    if isinstance(value, list):
        rows = objects_in(value)
        if keys := _keys_of(rows):
            yield path, *keys
        else:
            for row in rows[:200]:
                yield from _message_lists(row, (*path, "*"))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _message_lists(each, (*path, key))


def _keys_of(rows: list[dict[str, object]]) -> tuple[str, str] | None:
    """Return the keys of role and text, if the rows are messages of a user and an assistant."""
    sides = {"user", "assistant"}
    means = {key: {role_means(row.get(key)) for row in rows} for key in _ROLE_LIKE}
    role = next((key for key, meanings in means.items() if sides <= meanings), None)
    texts = (key for key in _TEXT_LIKE if key != role and any(row.get(key) for row in rows))
    text = next(texts, None)
    return (role, text) if role and text else None


_NO_SHAPE = FileShape("guessed", "", ())


def recognizes(document: Document) -> bool:
    """Whether `guess` finds a shape."""
    return guess(document) is not None


def titles(document: Document) -> list[str | None]:
    """Return the conversations' titles, in order."""
    return shape_reading.titles(guess(document) or _NO_SHAPE, document)


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read one conversation of a file of an unknown program. A note tells how it was read.

    Raises:
        InvalidTranscript: names the wrong message.
    """
    shape = guess(document) or _NO_SHAPE
    transcript = shape_reading.read(shape, document, conversation=conversation, active=active)
    note = f"no known format, read by what it looks like: {shape.title}"
    return replace(transcript, notes=(note, *transcript.notes))
