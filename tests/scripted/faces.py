"""How each provider's API writes an answer: whole, as a stream, and as an error.

What is said (`Said`) and what it costs are the same for all; a face puts them in its own shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from tests.scripted.answers import Call, Ended, Failed, Received, Said

Body = dict[str, Any]
_CREATED = 1_750_000_000
_WHEN = "2025-06-15T15:06:40Z"
_PIECE = re.compile(r"\s*\S+\s*?|\s+")


class Turn(NamedTuple):
    """What a face needs to write one answer."""

    request: Received
    said: Said
    number: int
    """Counts the answers of a server, for ids."""

    @property
    def model(self) -> str:
        """The one that was asked for."""
        return str(self.request.body.get("model", ""))

    def call_id(self, prefix: str, index: int) -> str:
        """An id that no other call of this server has."""
        return f"{prefix}{self.number}x{index}"


class Face(Protocol):
    """One provider's API."""

    stream_type: str
    """The media type of its streams."""

    def streams(self, body: Mapping[str, Any]) -> bool:
        """Whether the request wants a stream."""
        ...

    def whole(self, turn: Turn) -> Body:
        """The answer in one piece."""
        ...

    def stream(self, turn: Turn) -> Iterator[bytes]:
        """The answer in pieces."""
        ...

    def error(self, failed: Failed) -> Body:
        """The body of an error."""
        ...

    def break_in(self, failed: Failed) -> bytes:
        """An error after a stream has begun."""
        ...


def pieces(text: str) -> list[str]:
    """The text by words; together they are the text."""
    return _PIECE.findall(text)


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _event(data: Body, name: str | None = None) -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + _line(data) + b"\n\n"


class _Streaming:
    stream_type = "text/event-stream"

    def streams(self, body: Mapping[str, Any]) -> bool:
        return bool(body.get("stream"))


def _openai_error(failed: Failed) -> Body:
    kinds = {
        401: ("invalid_request_error", "invalid_api_key"),
        404: ("invalid_request_error", "model_not_found"),
        429: ("requests", "rate_limit_exceeded"),
    }
    kind, code = kinds.get(failed.status, ("server_error", None))
    return {"error": {"message": failed.message, "type": kind, "param": None, "code": code}}


# --- chat completions -----------------------------------------------------------------------------


class ChatCompletions(_Streaming):
    """`POST /v1/chat/completions`."""

    _ENDED: Mapping[Ended, str] = {"filter": "content_filter", "refusal": "stop"}

    def _head(self, turn: Turn, kind: str) -> Body:
        key = f"chatcmpl-{turn.number}"
        return {"id": key, "object": kind, "created": _CREATED, "model": turn.model}

    def _usage(self, turn: Turn) -> Body:
        prompt, answer = turn.request.tokens, turn.said.tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
            "prompt_tokens_details": {"cached_tokens": turn.request.cached},
        }

    def _calls(self, turn: Turn) -> list[Body]:
        return [
            {
                "id": turn.call_id("call_", index),
                "type": "function",
                "function": {"name": call.name, "arguments": call.written},
            }
            for index, call in enumerate(turn.said.calls)
        ]

    def whole(self, turn: Turn) -> Body:
        """A chat completion."""
        said = turn.said
        refused = said.ended == "refusal"
        silent = refused or (said.calls and not said.text)
        message: Body = {"role": "assistant", "content": None if silent else said.text}
        message |= said.thoughts
        message["refusal"] = said.text if refused else None
        if said.calls:
            message["tool_calls"] = self._calls(turn)
        ended = self._ENDED.get(said.ended, said.ended)
        choice = {"index": 0, "message": message, "finish_reason": ended, "logprobs": None}
        head = self._head(turn, "chat.completion")
        return {**head, "choices": [choice], "usage": self._usage(turn)}

    def stream(self, turn: Turn) -> Iterator[bytes]:
        """Chunks, their usage if it is asked for, and the end mark."""
        head = self._head(turn, "chat.completion.chunk")
        field = "refusal" if turn.said.ended == "refusal" else "content"

        def chunk(delta: Body, ended: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": ended, "logprobs": None}
            return _event({**head, "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        for name, thought in turn.said.thoughts.items():
            if isinstance(thought, str):
                yield from (chunk({name: piece}) for piece in pieces(thought))
                continue
            for block in thought:
                for piece in pieces(block["text"]):
                    yield chunk({name: [{**block, "text": piece}]})
        yield from (chunk({field: piece}) for piece in pieces(turn.said.text))
        for index, call in enumerate(self._calls(turn)):
            function = call["function"]
            named = {**call, "index": index, "function": {**function, "arguments": ""}}
            yield chunk({"tool_calls": [named]})
            for piece in pieces(function["arguments"]):
                part = {"index": index, "function": {"arguments": piece}}
                yield chunk({"tool_calls": [part]})
        yield chunk({}, self._ENDED.get(turn.said.ended, turn.said.ended))
        if (turn.request.body.get("stream_options") or {}).get("include_usage"):
            yield _event({**head, "choices": [], "usage": self._usage(turn)})
        yield b"data: [DONE]\n\n"

    def error(self, failed: Failed) -> Body:
        """OpenAI's error object."""
        return _openai_error(failed)

    def break_in(self, failed: Failed) -> bytes:
        """The error object as an event."""
        return _event(self.error(failed))


# --- Responses ------------------------------------------------------------------------------------


class Responses(_Streaming):
    """`POST /v1/responses`."""

    _INCOMPLETE: Mapping[Ended, str] = {"length": "max_output_tokens", "filter": "content_filter"}

    def _part(self, turn: Turn) -> Body:
        if turn.said.ended == "refusal":
            return {"type": "refusal", "refusal": turn.said.text}
        return {"type": "output_text", "text": turn.said.text, "annotations": []}

    def _output(self, turn: Turn) -> list[Body]:
        listed: list[Body] = []
        if turn.said.text or not turn.said.calls:
            listed.append(
                {
                    "id": f"msg_{turn.number}",
                    "type": "message",
                    "role": "assistant",
                    "status": "incomplete" if turn.said.ended in self._INCOMPLETE else "completed",
                    "content": [self._part(turn)],
                }
            )
        for index, call in enumerate(turn.said.calls):
            named = {"call_id": turn.call_id("call_", index), "name": call.name}
            item = {"id": turn.call_id("fc_", index), "type": "function_call", **named}
            listed.append({**item, "arguments": call.written, "status": "completed"})
        return listed

    def whole(self, turn: Turn) -> Body:
        """A response object."""
        prompt, answer = turn.request.tokens, turn.said.tokens
        reason = self._INCOMPLETE.get(turn.said.ended)
        return {
            **self._begun(turn),
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "output": self._output(turn),
            "usage": {
                "input_tokens": prompt,
                "input_tokens_details": {"cached_tokens": turn.request.cached},
                "output_tokens": answer,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": prompt + answer,
            },
        }

    def _begun(self, turn: Turn) -> Body:
        asked = turn.request.body
        return {
            "id": f"resp_{turn.number}",
            "object": "response",
            "created_at": _CREATED,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": turn.model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": asked.get("tools") or [],
            "usage": None,
        }

    def stream(self, turn: Turn) -> Iterator[bytes]:
        """The typed events, numbered."""
        for number, (kind, data) in enumerate(self._events(turn)):
            yield _event({"type": kind, "sequence_number": number, **data}, kind)

    def _events(self, turn: Turn) -> Iterator[tuple[str, Body]]:
        begun, whole = self._begun(turn), self.whole(turn)
        yield "response.created", {"response": begun}
        yield "response.in_progress", {"response": begun}
        for index, item in enumerate(whole["output"]):
            message = item["type"] == "message"
            empty: Body = {"content": []} if message else {"arguments": ""}
            started = {**item, **empty, "status": "in_progress"}
            yield "response.output_item.added", {"output_index": index, "item": started}
            place = {"item_id": item["id"], "output_index": index}
            yield from self._written(item, place)
            yield "response.output_item.done", {"output_index": index, "item": item}
        yield f"response.{whole['status']}", {"response": whole}

    def _written(self, item: Body, place: Body) -> Iterator[tuple[str, Body]]:
        if item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**place, "delta": piece}
            done = {**place, "name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", done
            return
        part = item["content"][0]
        field = "refusal" if part["type"] == "refusal" else "text"
        kind = "response.refusal" if field == "refusal" else "response.output_text"
        place = {**place, "content_index": 0}
        yield "response.content_part.added", {**place, "part": {**part, field: ""}}
        for piece in pieces(part[field]):
            yield f"{kind}.delta", {**place, "delta": piece, "logprobs": []}
        yield f"{kind}.done", {**place, field: part[field], "logprobs": []}
        yield "response.content_part.done", {**place, "part": part}

    def error(self, failed: Failed) -> Body:
        """OpenAI's error object."""
        return _openai_error(failed)

    def break_in(self, failed: Failed) -> bytes:
        """An error event."""
        detail = {"code": "server_error", "message": failed.message, "param": None}
        return _event({"type": "error", "sequence_number": 999, **detail}, "error")


# --- Anthropic messages ---------------------------------------------------------------------------


class Messages(_Streaming):
    """`POST /v1/messages`."""

    _ENDED: Mapping[Ended, str] = {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "refusal": "refusal",
        "filter": "refusal",
    }
    _KINDS: Mapping[int, str] = {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        429: "rate_limit_error",
        529: "overloaded_error",
    }

    def _block(self, turn: Turn, index: int, call: Call) -> Body:
        key = turn.call_id("toolu_", index)
        return {"type": "tool_use", "id": key, "name": call.name, "input": dict(call.arguments)}

    def whole(self, turn: Turn) -> Body:
        """A message; what is cached is not among its input tokens."""
        said, request = turn.said, turn.request
        blocks: list[Body] = [{"type": "text", "text": said.text}] if said.text else []
        blocks += [self._block(turn, index, call) for index, call in enumerate(said.calls)]
        return {
            "id": f"msg_{turn.number}",
            "type": "message",
            "role": "assistant",
            "model": turn.model,
            "content": blocks,
            "stop_reason": self._ENDED[said.ended],
            "stop_sequence": None,
            "usage": {
                "input_tokens": request.tokens - request.cached,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": request.cached,
                "output_tokens": said.tokens,
            },
        }

    def stream(self, turn: Turn) -> Iterator[bytes]:
        """The named events."""
        for data in self._events(turn):
            yield _event(data, data["type"])

    def _events(self, turn: Turn) -> Iterator[Body]:
        whole = self.whole(turn)
        begun = {**whole, "content": [], "stop_reason": None}
        begun["usage"] = {**whole["usage"], "output_tokens": 1}
        yield {"type": "message_start", "message": begun}
        for index, block in enumerate(whole["content"]):
            text = block["type"] == "text"
            empty = {**block, "text": ""} if text else {**block, "input": {}}
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            yield {"type": "ping"}
            written = block["text"] if text else json.dumps(block["input"], ensure_ascii=False)
            kind, field = ("text_delta", "text") if text else ("input_json_delta", "partial_json")
            for piece in pieces(written):
                delta = {"type": kind, field: piece}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": whole["usage"]}
        yield {"type": "message_stop"}

    def error(self, failed: Failed) -> Body:
        """Anthropic's error object."""
        kind = self._KINDS.get(failed.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": failed.message}}

    def break_in(self, failed: Failed) -> bytes:
        """An error event."""
        return _event(self.error(failed), "error")


# --- Ollama ---------------------------------------------------------------------------------------


class OllamaChat:
    """`POST /api/chat`: lines of JSON, streamed unless the request says otherwise."""

    stream_type = "application/x-ndjson"

    def streams(self, body: Mapping[str, Any]) -> bool:
        """Whether it is not refused."""
        return bool(body.get("stream", True))

    def _message(self, turn: Turn, text: str, calls: Iterable[Call]) -> Body:
        message: Body = {"role": "assistant", "content": text}
        wanted = [{"function": {"name": c.name, "arguments": dict(c.arguments)}} for c in calls]
        if wanted:
            message["tool_calls"] = wanted
        return {"model": turn.model, "created_at": _WHEN, "message": message}

    def _end(self, turn: Turn) -> Body:
        return {
            "done": True,
            "done_reason": "length" if turn.said.ended == "length" else "stop",
            "total_duration": 1_000_000,
            "load_duration": 1_000,
            "prompt_eval_count": turn.request.tokens - turn.request.cut,
            "prompt_eval_duration": 1_000,
            "eval_count": turn.said.tokens,
            "eval_duration": 1_000,
        }

    def whole(self, turn: Turn) -> Body:
        """One object; it has no mark for a refusal."""
        return {**self._message(turn, turn.said.text, turn.said.calls), **self._end(turn)}

    def stream(self, turn: Turn) -> Iterator[bytes]:
        """A line for each piece; the last one has the counts."""
        for piece in pieces(turn.said.text):
            yield _line({**self._message(turn, piece, ()), "done": False}) + b"\n"
        if turn.said.calls:
            yield _line({**self._message(turn, "", turn.said.calls), "done": False}) + b"\n"
        yield _line({**self._message(turn, "", ()), **self._end(turn)}) + b"\n"

    def error(self, failed: Failed) -> Body:
        """Ollama's error, a sentence."""
        return {"error": failed.message}

    def break_in(self, failed: Failed) -> bytes:
        """The error as a line."""
        return _line(self.error(failed)) + b"\n"


FACES: Mapping[str, Face] = {
    "/v1/chat/completions": ChatCompletions(),
    "/v1/responses": Responses(),
    "/v1/messages": Messages(),
    "/api/chat": OllamaChat(),
}


# --- what else is asked of a server ---------------------------------------------------------------


def models(model: str, window: int | None) -> Body:
    """`GET /v1/models`, with the window where llama.cpp and vLLM say it."""
    entry: Body = {"id": model, "object": "model", "created": _CREATED, "owned_by": "compact"}
    if window:
        entry |= {"meta": {"n_ctx": window, "n_ctx_train": window}, "max_model_len": window}
    return {"object": "list", "data": [entry]}


def tags(model: str, window: int | None) -> Body:
    """`GET /api/tags`."""
    details = show(model, window)["details"]
    entry = {"name": model, "model": model, "modified_at": _WHEN, "size": 1_000, "digest": "0"}
    return {"models": [{**entry, "details": details}]}


def show(model: str, window: int | None) -> Body:
    """`POST /api/show`: the context length is what the model was made for."""
    return {
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": {"format": "gguf", "family": "llama", "parameter_size": "1.9M"},
        "model_info": {
            "general.architecture": "llama",
            "llama.context_length": window or 131_072,
        },
        "capabilities": ["completion", "tools"],
    }


LISTS: Mapping[str, Callable[[str, int | None], Body]] = {
    "/v1/models": models,
    "/api/tags": tags,
    "/api/show": show,
}
