# ruff: noqa: E501 - a row of the table is a file
"""Files of many programs, read by a row of data each (`transcripts.shapes`): who says what,
which result belongs to which call, and that no words get lost without being counted.

Each file tells the same talk in the shape of a program; the words in it are counted without the
reader, by walking its JSON.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import visible_texts
from compact.text.speakers import speaker_of
from compact.transcripts.reading import read
from compact.transcripts.table import FORMATS
from compact.transcripts.writing import write
from tests.store.making import as_written, detect, words_in

ASKED, CAME, SAID = "How many loaves are left?", "seven loaves, shelf two", "Seven are left."
SYSTEM, THOUGHT = "You mind the bakery.", "I must count them."
TALK = [("person", ASKED), ("assistant", SAID)]
ARGS = {"shelf": "the second one"}
GIVEN = json.dumps(ARGS)


@dataclass(frozen=True)
class File:
    """A file of a program, and what it must give."""

    format: str
    value: Any
    said: list = field(default_factory=lambda: TALK)
    results: int = 1
    notes: tuple[str, ...] = ()
    is_lines: bool = False

    @property
    def data(self) -> bytes:
        if isinstance(self.value, str):
            return self.value.encode()
        if self.is_lines:
            return "\n".join(map(json.dumps, self.value)).encode()
        return json.dumps(self.value, indent=1).encode()


def lines(format: str, *rows, **more) -> File:
    return File(format, rows, is_lines=True, **more)


def part(kind: str, **more) -> dict:
    return {"type": kind, **more}


def text(words: str) -> list[dict]:
    return [{"type": "text", "text": words}]


SYSTEM_TOO = [("system", SYSTEM), *TALK]
GEMINI: list[Any] = [
    {"role": "user", "parts": [{"text": ASKED}]},
    {"role": "model", "parts": [{"functionCall": {"name": "count", "args": ARGS}}]},
    {"role": "user", "parts": [
        {"functionResponse": {"name": "count", "response": {"output": CAME}}}]},
    {"role": "model", "parts": [{"text": THOUGHT, "thought": True}, {"text": SAID}]},
]  # fmt: skip
BEDROCK = [
    {"role": "user", "content": [{"text": ASKED}]},
    {"role": "assistant", "content": [
        {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": "s"}}},
        {"toolUse": {"toolUseId": "t", "name": "count", "input": ARGS}}]},
    {"role": "user", "content": [{"toolResult": {
        "toolUseId": "t", "status": "error", "content": [{"json": {"found": CAME}}]}}]},
    {"role": "assistant", "content": [{"text": SAID}]},
]  # fmt: skip
LANGCHAIN: list[Any] = [
    {"type": "human", "content": ASKED},
    {"type": "ai", "content": "", "tool_calls": [{"name": "count", "args": ARGS, "id": "t"}]},
    {"type": "tool", "content": CAME, "tool_call_id": "t"},
    {"type": "ai", "content": text(SAID)},
]
BLOCKS = [
    {"role": "user", "content": text(ASKED)},
    {"role": "assistant", "content": [part("thinking", thinking=THOUGHT, signature="s"),
                                      part("tool_use", id="t", name="count", input=ARGS)]},
    {"role": "user", "content": [part("tool_result", tool_use_id="t", content=text(CAME))]},
    {"role": "assistant", "content": text(SAID)},
]  # fmt: skip
UI = [
    {"id": "1", "role": "user", "parts": text(ASKED)},
    {"id": "2", "role": "assistant", "parts": [
        part("step-start"), part("reasoning", text=THOUGHT),
        part("tool-count", toolCallId="t", state="output-available", input=ARGS, output=CAME),
        part("text", text=SAID), part("data-weather", data={"sky": "a clear one"})]},
]  # fmt: skip
CALL = {"id": "t", "type": "function", "function": {"name": "count", "arguments": GIVEN}}
TREE = {
    "a": {"id": "a", "parentId": None, "role": "user", "content": ASKED},
    "b": {"id": "b", "parentId": "a", "role": "assistant", "content": "Not this one."},
    "c": {"id": "c", "parentId": "a", "role": "assistant", "content": SAID, "model": "m"},
}

FILES = [
    lines("gemini_cli",
          {"sessionId": "s", "projectHash": "h", "startTime": "2026-03-01T10:00:00Z", "kind": "main"},
          {"id": "1", "type": "user", "content": [{"text": ASKED}]},
          {"id": "2", "type": "gemini", "content": SAID},
          {"id": "2", "type": "gemini", "content": SAID, "thoughts": [{"subject": "x", "description": THOUGHT}],
           "toolCalls": [{"id": "t", "name": "count", "args": ARGS, "status": "success",
                          "result": [{"functionResponse": {"response": {"output": CAME}}}]}]},
          {"id": "3", "type": "user", "content": "Never mind."},
          {"$rewindTo": "3"},
          {"$set": {"lastUpdated": "2026-03-01T10:00:00Z"}},
          notes=("1 message that was taken back", "2 other rows")),
    lines("gemini_cli", {"sessionId": "s", "projectHash": "h"},
          {"$set": {"messages": [{"id": "1", "type": "user", "content": ASKED}]}},
          {"$set": {"messages": [{"id": "1", "type": "user", "content": ASKED},
                                 {"id": "2", "type": "gemini", "content": SAID}]}},
          results=0, notes=("3 other rows",)),
    lines("qwen_code",
          {"uuid": "1", "sessionId": "s", "type": "user", "message": {"role": "user", "parts": [{"text": ASKED}]}},
          {"uuid": "2", "sessionId": "s", "type": "assistant", "model": "m", "message": {
              "role": "model", "parts": [{"functionCall": {"id": "t", "name": "count", "args": ARGS}}]}},
          {"uuid": "3", "sessionId": "s", "type": "tool_result", "message": {"role": "user", "parts": [
              {"functionResponse": {"id": "t", "name": "count", "response": {"output": CAME}}}]}},
          {"uuid": "4", "sessionId": "s", "type": "system", "subtype": "ui_telemetry"},
          {"uuid": "5", "sessionId": "s", "type": "assistant", "message": {"role": "model", "parts": [{"text": SAID}]}},
          notes=("1 system row",)),
    lines("droid", {"type": "session_start", "id": "s", "title": "Loaves of bread", "cwd": "/w"},
          *({"type": "message", "id": str(n), "timestamp": "2026-03-01T10:00:00Z", "message": row}
            for n, row in enumerate(BLOCKS)),
          {"type": "todo_state", "id": "x"}, notes=("1 session_start row", "1 todo_state row")),
    lines("kimi", {"role": "_system_prompt", "content": SYSTEM}, {"role": "_checkpoint", "id": 0},
          {"role": "user", "content": ASKED},
          {"role": "assistant", "content": [part("think", think=THOUGHT)], "tool_calls": [CALL]},
          {"role": "tool", "content": text(CAME), "tool_call_id": "t"},
          {"role": "assistant", "content": SAID}, {"role": "_usage", "token_count": 5},
          said=SYSTEM_TOO, notes=("1 _checkpoint row", "1 _usage row")),
    lines("codex_exec", {"type": "thread.started", "thread_id": "t"},
          {"type": "item.started", "item": {"id": "1", "type": "command_execution", "command": "ls the shelf"}},
          {"type": "item.completed", "item": {"id": "1", "type": "command_execution", "command": "ls the shelf",
                                              "aggregated_output": CAME, "exit_code": 0}},
          {"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": SAID}},
          said=TALK[1:], notes=("1 thread.started row",)),
    lines("goose", {"working_dir": "/w", "description": "Loaves of bread"},
          {"role": "user", "created": 5, "content": text(ASKED)},
          {"role": "assistant", "created": 6, "content": [part("toolRequest", id="t", toolCall={
              "status": "success", "value": {"name": "count", "arguments": ARGS}})]},
          {"role": "user", "created": 7, "content": [part("toolResponse", id="t", toolResult={
              "status": "success", "value": text(CAME)})]},
          {"role": "assistant", "created": 8, "content": text(SAID)}, notes=("1 other row",)),
    File("goose", {"id": "s", "name": "Loaves", "working_dir": "/w", "conversation": [
        {"role": "user", "content": text(ASKED)}, {"role": "assistant", "content": text(SAID)}]}, results=0),
    File("adk", {"id": "s", "appName": "a", "events": [
        {"author": "baker" if row["role"] == "model" or "functionResponse" in row["parts"][0] else "user",
         "content": row} for row in GEMINI]}),
    File("ai_studio", {"runSettings": {"model": "m"}, "systemInstruction": {"parts": [{"text": SYSTEM}]},
                       "chunkedPrompt": {"chunks": [
        {"text": ASKED, "role": "user"}, {"text": THOUGHT, "role": "model", "isThought": True},
        {"text": SAID, "role": "model"}]}}, said=SYSTEM_TOO, results=0),
    File("gemini_contents", GEMINI),
    File("gemini_contents", {"contents": GEMINI, "systemInstruction": {"parts": [{"text": SYSTEM}]}},
         said=SYSTEM_TOO),
    File("gemini_contents", {"history": [], "clientHistory": GEMINI}),
    File("amp", {"v": 3, "id": "T-1", "created": 5, "title": "Loaves", "messages": [
        *BLOCKS[:2],
        {"role": "user", "content": [part("tool_result", toolUseID="t", run={"status": "done", "result": CAME})]},
        BLOCKS[3]]}),
    File("autogen", {"type": "AssistantAgentState", "llm_context": {"messages": [
        {"content": ASKED, "source": "user", "type": "UserMessage"},
        {"content": [{"id": "t", "name": "count", "arguments": GIVEN}], "thought": THOUGHT,
         "source": "baker", "type": "AssistantMessage"},
        {"content": [{"content": CAME, "name": "count", "call_id": "t", "is_error": False}],
         "type": "FunctionExecutionResultMessage"},
        {"content": SAID, "source": "baker", "type": "AssistantMessage"}]}}),
    File("autogen", {"type": "TeamState", "agent_states": {"baker": {"agent_state": {"llm_context": {"messages": [
        {"content": ASKED, "source": "user", "type": "UserMessage"},
        {"content": SAID, "source": "baker", "type": "AssistantMessage"}]}}}}}, results=0),
    File("bedrock_converse", BEDROCK),
    File("bedrock_converse", {"modelId": "m", "system": [{"text": SYSTEM}], "messages": BEDROCK}, said=SYSTEM_TOO),
    File("vercel_ai", UI, notes=("1 part of the type data-weather, kept as JSON",
                                 "1 part of the type step-start, which says nothing"),
         said=[TALK[0], ("assistant", f'{SAID}\n{{"type":"data-weather","data":{{"sky":"a clear one"}}}}')]),
    File("vercel_ai", {"messages": [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": [part("tool-call", toolCallId="t", toolName="count", input=ARGS)]},
        {"role": "tool", "content": [part("tool-result", toolCallId="t", toolName="count",
                                          output={"type": "content", "value": text(CAME)})]},
        {"role": "assistant", "content": text(SAID)}]}),
    File("vercel_ai", [
        {"id": "1", "role": "user", "content": ASKED},
        {"id": "2", "role": "assistant", "content": SAID, "toolInvocations": [
            {"state": "result", "toolCallId": "t", "toolName": "count", "args": ARGS, "result": CAME}]}]),
    File("continue", {"sessionId": "s", "title": "Loaves", "history": [
        {"message": {"role": "user", "content": ASKED},
         "contextItems": [{"name": "shop.py", "description": "the file", "content": "loaves = 7"}]},
        {"message": {"role": "assistant", "content": "", "toolCalls": [CALL]},
         "toolCallStates": [{"toolCallId": "t", "status": "done", "output": [{"name": "x", "content": CAME}]}]},
        {"message": {"role": "assistant", "content": SAID}}]},
        said=[TALK[0], ("injected", "loaves = 7"), TALK[1]],
        notes=("1 text of 'contextItems', which no message says",)),
    lines("jan", *({"object": "thread.message", "thread_id": "s", "role": role, "created_at": n,
                    "content": [part("text", text={"value": words, "annotations": []})]}
                   for n, (role, words) in enumerate([("user", ASKED), ("assistant", SAID)])), results=0),
    File("jan", {"object": "list", "data": [
        {"object": "thread.message", "role": role, "created_at": at, "content": [part("text", text={"value": words})]}
        for at, role, words in [(9, "assistant", SAID), (8, "user", ASKED)]]}, results=0),
    File("langchain", {"messages": LANGCHAIN}),
    File("langchain", {"values": {"messages": LANGCHAIN}, "next": []}),
    File("langchain", [{"type": row["type"], "data": row} for row in LANGCHAIN]),
    File("langchain", [{"lc": 1, "type": "constructor", "id": ["langchain", "schema", kind],
                        "kwargs": {k: v for k, v in row.items() if k != "type"}} for kind, row in
                       zip(["HumanMessage", "AIMessage", "ToolMessage", "AIMessageChunk"], LANGCHAIN, strict=True)]),
    File("letta", {"agents": [{"name": "baker", "messages": [
        {"role": "user", "content": text(ASKED)},
        {"role": "assistant", "content": [], "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "t", "content": text(CAME)},
        {"role": "assistant", "content": text(SAID)}]}]}),
    File("letta", [{"message_type": "user_message", "content": ASKED},
                   {"message_type": "reasoning_message", "reasoning": THOUGHT},
                   {"message_type": "tool_call_message",
                    "tool_call": {"name": "count", "arguments": GIVEN, "tool_call_id": "t"}},
                   {"message_type": "tool_return_message", "tool_return": CAME, "tool_call_id": "t"},
                   {"message_type": "assistant_message", "content": SAID}]),
    File("librechat", {"conversationId": "c", "title": "Loaves", "messages": [
        {"messageId": "1", "parentMessageId": "0", "isCreatedByUser": True, "sender": "User", "text": ASKED},
        {"messageId": "2", "parentMessageId": "1", "isCreatedByUser": False, "sender": "Bot", "text": "",
         "content": [part("think", think=THOUGHT), part("tool_call", tool_call={
             "id": "t", "name": "count", "args": GIVEN, "output": CAME}), part("text", text=SAID)]}]}),
    File("librechat", {"conversationId": "c", "recursive": True, "messages": [
        {"messageId": "1", "isCreatedByUser": True, "text": ASKED, "children": [
            {"messageId": "2", "parentMessageId": "1", "isCreatedByUser": False, "text": SAID}]}]}, results=0),
    File("llamaindex", {"store": {"chat": [
        {"role": "user", "blocks": [{"block_type": "text", "text": ASKED}]},
        {"role": "assistant", "blocks": [
            {"block_type": "thinking", "content": THOUGHT},
            {"block_type": "tool_call", "tool_call_id": "t", "tool_name": "count", "tool_kwargs": ARGS}]},
        {"role": "tool", "additional_kwargs": {"tool_call_id": "t"},
         "blocks": [{"block_type": "text", "text": CAME}]},
        {"role": "assistant", "blocks": [{"block_type": "text", "text": SAID}]}]}}),
    File("llm_logs", [{"id": "1", "model": "m", "prompt": ASKED, "system": SYSTEM, "response": SAID,
                       "conversation_id": "c", "conversation_name": "loaves"},
                      {"id": "2", "model": "m", "prompt": "And rolls then?", "system": SYSTEM,
                       "response": "No rolls today.", "conversation_id": "c"}],
         said=[*SYSTEM_TOO, ("person", "And rolls then?"), ("assistant", "No rolls today.")], results=0),
    File("chat_completion", {"object": "chat.completion", "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": SAID}}]}, said=TALK[1:], results=0),
    File("openhands", {"trajectory": [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": SYSTEM}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": ASKED}},
        {"id": 2, "source": "environment", "observation": "agent_state_changed", "content": ""},
        {"id": 3, "source": "agent", "action": "run", "args": {"command": "ls the shelf"}},
        {"id": 4, "source": "agent", "observation": "run", "content": CAME, "cause": 3},
        {"id": 5, "source": "agent", "action": "finish", "args": {"final_thought": SAID}}]},
        said=SYSTEM_TOO, notes=("1 agent_state_changed row",)),
    File("openhands_events", [
        {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"type": "text", "text": SYSTEM}},
        {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": text(ASKED)}},
        {"kind": "ActionEvent", "source": "agent", "thought": text(THOUGHT), "action": {"kind": "X"},
         "tool_name": "count", "tool_call_id": "t", "tool_call": {"id": "t", "name": "count", "arguments": GIVEN}},
        {"kind": "ObservationEvent", "source": "environment", "tool_name": "count", "tool_call_id": "t",
         "observation": {"kind": "X", "content": text(CAME)}},
        {"kind": "PauseEvent", "source": "user"},
        {"kind": "MessageEvent", "source": "agent", "llm_message": {"role": "assistant", "content": text(SAID)}}],
        said=SYSTEM_TOO, notes=("1 PauseEvent row",)),
    File("openwebui", [{"id": "c", "chat": {"title": "Loaves", "models": ["m"], "history": {
        "messages": TREE, "currentId": "c"}}}], results=0, notes=("1 message of another branch",)),
    File("pydantic_ai", [
        {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": SYSTEM},
                                      {"part_kind": "user-prompt", "content": ASKED}]},
        {"kind": "response", "model_name": "m", "parts": [
            {"part_kind": "thinking", "content": THOUGHT},
            {"part_kind": "tool-call", "tool_name": "count", "args": GIVEN, "tool_call_id": "t"}]},
        {"kind": "request", "parts": [
            {"part_kind": "tool-return", "tool_name": "count", "content": {"left": CAME}, "tool_call_id": "t"}]},
        {"kind": "response", "parts": [{"part_kind": "text", "content": SAID}]}], said=SYSTEM_TOO),
    File("sharegpt", [{"id": "x", "system": SYSTEM, "conversations": [
        {"from": "human", "value": ASKED},
        {"from": "function_call", "value": json.dumps({"name": "count", "arguments": ARGS})},
        {"from": "observation", "value": CAME}, {"from": "gpt", "value": SAID}]}], said=SYSTEM_TOO),
    File("smolagents", {"steps": [
        {"task": ASKED},
        {"step_number": 1, "model_output": THOUGHT, "tool_calls": [CALL], "observations": CAME},
        {"output": SAID}]}, said=[TALK[0], ("assistant", THOUGHT), TALK[1]]),
    File("typingmind", {"data": {"chats": [{"chatTitle": "Loaves", "messages": [
        {"role": "user", "content": ASKED}, {"role": "assistant", "content": text(SAID)}]}]}}, results=0),
    File("zed", {"version": "0.3.0", "title": "Loaves", "model": {"model": "m"}, "messages": [
        {"User": {"id": "1", "content": [{"Text": ASKED}]}},
        {"Agent": {"content": [{"Thinking": {"text": THOUGHT, "signature": "s"}},
                               {"ToolUse": {"id": "t", "name": "count", "raw_input": GIVEN, "input": ARGS}}],
                   "tool_results": {"t": {"tool_use_id": "t", "content": {"Text": CAME}}}}},
        {"Agent": {"content": [{"Text": SAID}], "tool_results": {}}}]}),
    File("zed", {"version": "0.2.0", "summary": "Loaves", "messages": [
        {"id": 0, "role": "user", "segments": text(ASKED)},
        {"id": 1, "role": "assistant", "segments": text("I count."),
         "tool_uses": [{"id": "t", "name": "count", "input": ARGS}],
         "tool_results": [{"tool_use_id": "t", "content": CAME}]},
        {"id": 2, "role": "assistant", "segments": text(SAID)}]},
        said=[TALK[0], ("assistant", "I count."), TALK[1]]),
    File("cline_ui", [
        {"ts": 1, "type": "say", "say": "text", "text": ASKED},
        {"ts": 2, "type": "say", "say": "api_req_started", "text": '{"request": "some long text"}'},
        {"ts": 3, "type": "ask", "ask": "command", "text": "ls the shelf"},
        {"ts": 4, "type": "say", "say": "command_output", "text": CAME},
        {"ts": 5, "type": "say", "say": "completion_result", "text": SAID}], notes=("1 api_req_started row",)),
    File("lmstudio", {"name": "Loaves", "systemPrompt": SYSTEM, "messages": [
        {"currentlySelected": 0, "versions": [{"type": "singleStep", "role": "user", "content": text(ASKED)}]},
        {"currentlySelected": 1, "versions": [
            {"type": "multiStep", "role": "assistant", "steps": [{"type": "contentBlock", "content": text("No.")}]},
            {"type": "multiStep", "role": "assistant", "steps": [
                {"type": "contentBlock", "content": [part("toolCallRequest", callId="t", name="count",
                                                          parameters=ARGS)]},
                {"type": "contentBlock", "content": [part("toolCallResult", toolCallId="t", content=CAME)]},
                {"type": "contentBlock", "content": text(SAID)}]}]}]}, said=SYSTEM_TOO),
    lines("sillytavern", {"user_name": "You", "character_name": "Baker", "chat_metadata": {}},
          {"name": "You", "is_user": True, "mes": ASKED}, {"name": "Baker", "is_user": False, "mes": SAID},
          results=0, notes=("1 other row",)),
    File("grok_export", {"conversations": [{"conversation": {"id": "c", "title": "Loaves"}, "responses": [
        {"response": {"sender": "human", "message": ASKED}}, {"response": {"sender": "ASSISTANT", "message": SAID}}]}]},
        results=0),
    File("deepseek_export", [{"id": "c", "title": "Loaves", "mapping": {
        "root": {"id": "root", "parent": None, "children": ["1"], "message": None},
        "1": {"id": "1", "parent": "root", "message": {"fragments": [part("REQUEST", content=ASKED)]}},
        "2": {"id": "2", "parent": "1", "message": {"fragments": [
            part("THINK", content=THOUGHT), part("RESPONSE", content=SAID)]}}}}],
        results=0, notes=("1 root row",)),
    File("cursor_composer", {"composerId": "c", "name": "Loaves", "conversation": [
        {"type": 1, "bubbleId": "1", "text": ASKED}, {"type": 2, "bubbleId": "2", "text": SAID}]}, results=0),
    File("copilot_chat", {"requests": [{"message": {"text": ASKED}, "response": [{"value": SAID}]}]}, results=0),
    File("aider", f"\n# aider chat started at 2026-03-01 10:00:00\n\n> Main model: m with diff  \n\n"
                  f"#### {ASKED}  \n\n{SAID}\n\n#### a heading of the reply\n> a quotation\n\n> Tokens: 5 sent.  \n",
         said=[("observation", "Main model: m with diff"), TALK[0],
               ("assistant", f"{SAID}\n\n#### a heading of the reply\n> a quotation"),
               ("observation", "Tokens: 5 sent.")], results=0),
    File("cursor_export", f"# Loaves\n_Exported on 5/1/2026 at 10:00 from Cursor (1.2)_\n\n---\n\n**User**\n\n"
                          f"{ASKED}\n\n---\n\n**Cursor**\n\n{SAID}\n", results=0),
    File("guessed", {"export": {"talks": [{"topic": "x", "log": [
        {"speaker": "Human", "utterance": ASKED}, {"speaker": "AI", "utterance": SAID}]}]}}, results=0,
        notes=("no known format, read by what it looks like: messages at `log`, role in `speaker`, text in "
               "`utterance`",)),
]  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.format)
def test_each_program_is_recognized_and_its_talk_is_read(file):
    assert detect(file.data) == file.format
    found = read(file.data)
    assert [(speaker_of(m), m.text) for m in found.messages if m.text] == file.said
    results = [r for m in found.messages for r in m.tool_results]
    calls = [c for m in found.messages for c in m.tool_calls]
    assert [CAME in r.text for r in results] == [True] * file.results
    assert [r.call_id for r in results] == [c.id for c in calls]
    assert found.notes == file.notes
    assert len({m.id for m in found.messages}) == len(found.messages)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.format)
def test_no_words_get_lost_without_being_counted(file):
    """Counted by walking the JSON: what no message says is in a note, or in a row or a branch that
    a note counts.
    """
    if isinstance(file.value, str):
        pytest.skip("not JSON")
    found = read(file.data)
    told = "\n".join(visible_texts(found.messages))
    told += "\n".join(p.text for m in found.messages for p in m.parts if p.type == "thinking")
    lost = [x for x in words_in(file.value) if x not in told and x not in str(found.title)]
    given = [
        x for c in (c for m in found.messages for c in m.tool_calls) for x in words_in(c.arguments)
    ]
    lost = [x for x in lost if x not in given]
    assert len(lost) <= len(found.notes), lost


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.format)
def test_what_is_written_is_read_again_the_same(file):
    """As chat completions, a line each."""
    found = read(file.data)
    again = read(write(found, found.messages).encode())
    assert [m.text for m in again.messages] == [
        as_written(m) for m in found.messages if m.content != ()
    ]


def test_every_shape_has_a_file():
    known = {each.name for each in FORMATS}
    assert {file.format for file in FILES} == known - {
        "chat", "claude_code", "claude_export", "chatgpt_export", "codex_cli", "copilot_cli",
        "legacy_session", "legacy_snapshot", "opencode", "pi", "specstory", "sqlite_chats",
    }  # fmt: skip


def test_a_failed_tool_is_told():
    (result,) = [r for m in read(json.dumps(BEDROCK).encode()).messages for r in m.tool_results]
    assert (result.is_error, result.name) == (True, "count")


def test_one_odd_row_is_left_out_and_told():
    """Where more rows are odd than right, the file is refused with the first."""
    rows = [*LANGCHAIN, "what is this?"]
    found = read(json.dumps(rows).encode())
    assert len(found.messages) == 4
    assert found.notes == ("1 odd row, left out: rows[4]: expected a message, got 'what is this?'",)
    with pytest.raises(InvalidTranscript, match=r"rows\[1\]: expected a message"):
        read(json.dumps([LANGCHAIN[0], 1, 2, LANGCHAIN[3], 3]).encode())


def test_two_kinds_of_lists_are_not_guessed():
    """What could be read in two ways is refused, and says what the file has."""
    sides = [{"who": "user", "text": ASKED}, {"who": "bot", "text": SAID}]
    with pytest.raises(
        InvalidTranscript, match=r"has an object with a \(list\), b \(list\)\. Looked"
    ):
        read(json.dumps({"a": sides, "b": sides}).encode())
