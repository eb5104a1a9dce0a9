"""Reads SpecStory Markdown: exports of Claude Code, Codex CLI, Gemini CLI and Cursor sessions.

A `<think>` block belongs to the turn after it. Each `<tool-use>` block becomes a call and its
result. Their id is the tool's name and a counter. Turns of sub-agents (sidechain) are left out.
Sessions that were resumed from another tool have calls as plain text in their first part: texts
that end in an output block become calls too. Claude Code's summary of an earlier part is left out
if that part is in the file. Otherwise it is a checkpoint. The export lacks some arguments and
outputs; the notes count them. Cursor's export escapes HTML, so its tool blocks are unescaped.

Code blocks and tool outputs are exported without escapes, so a line in them may look like the
heading of a turn. `_Quoting` tells them apart.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from compact.errors import InvalidTranscript
from compact.messages.messages import MessageMetadata, Part, Text, Thinking, ToolCall, ToolResult
from compact.patterns import regex
from compact.transcripts.documents import Document, PlainText
from compact.transcripts.transcript import Collected, Transcript

NAME = "specstory"
_HEADING = regex(
    r"_\*\*(?P<who>User|Agent)(?P<side> - sidechain)?"
    r"(?: \((?P<model>[^()]*?) ?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)?\))?\*\*_"
)
_SESSION = regex(r"<!-- (?P<tool>[^<>]+?) Session (?P<id>\S+) \([^()]*\) -->")
_TOOL_OPEN = "<tool-use data-tool-type="
_TOOL_CLOSE = ("</tool-use>", "</details></tool-use>")
_FENCE = regex(r"`{3,}(?P<info>[^`]*)$")
_TOOL = regex(
    r'<tool-use data-tool-type="(?P<type>[^"]*)" data-tool-name="(?P<name>[^"]*)">\s*<details>\s*'
    r"<summary>Tool use: \*\*(?P<titled>[^\n]*?)</summary>\n?"
)
_TOOL_END = regex(r"\n?</details>\s*</tool-use>(?=\s*(?:<tool-use |\Z))")
_THINK = regex(
    r"<think>(?:<details><summary>[^<]*</summary>)?\n?(?P<text>.*?)\n?(?:</details>)?</think>",
    re.DOTALL,
)
_RESUMED = regex(r"Resumed from an? .+ session via SpecStory\.")
_CONTINUED = "This session is being continued from a previous conversation that ran out"
_PLAIN_CALL = regex(r"Tool use: \*\*(?P<name>[^*\n]+)\*\* ?(?P<rest>.*)", re.DOTALL)
_OUTPUT = regex(r"(?:\A|\n\n|(?<=</summary>)\n)```(?:text)?(?=\n)")
_OUTPUT_END = "\n```"
_ANSWER = regex(r"(?:\A|\n)\*\*Answer:\*\* ?(?P<text>.*)\Z", re.DOTALL)
_SCRIPT = regex(r"(?P<description>[^\n]*)\n\n```(?:bash|sh|zsh)\n(?P<span>.*)\n```", re.DOTALL)


def recognizes(document: Document) -> bool:
    """Whether SpecStory's session comment is among the first lines of the text."""
    return isinstance(document, PlainText) and _tool_of(document.data.decode()) is not None


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read the file's one conversation. An export has no compactions, so `active` changes nothing.

    Raises:
        InvalidTranscript: there is no turn.
    """
    text = document.data.decode()
    tool, turns = _tool_of(text) or "", _turns_of(text)
    if not turns:
        raise InvalidTranscript(document.source, 'no turn: no line like "_**User (time)**_"')
    session = _Session(document.source, escaped=tool.startswith("Cursor"))
    for turn in turns:
        session.take(turn)
    session.finish()
    return session.transcript(
        document,
        NAME,
        title=_title_of(text),
    )


@dataclass(frozen=True, slots=True)
class MarkdownTurn:
    """A heading and the text below it. `line` is the line of the heading, counted from 1."""

    who: str
    sidechain: bool
    time: datetime | None
    body: str
    line: int


@dataclass(slots=True)
class _Session(Collected):
    escaped: bool = False
    _calls: Counter[str] = field(default_factory=Counter)
    _thinking: list[tuple[Part, MarkdownTurn]] = field(default_factory=list)
    _is_resumed: bool = False

    def take(self, turn: MarkdownTurn) -> None:
        """Add one turn of the file."""
        body = turn.body.strip("\n")
        if turn.sidechain:
            self.left_out["turn of a sub-agent|turns of sub-agents"] += 1
        elif not body.strip():
            self.left_out["empty turn"] += 1
        elif turn.who == "User":
            self.finish()
            self._take_user(turn, body)
        else:
            self._is_resumed |= bool(_RESUMED.fullmatch(body.strip()))
            self._take_agent(turn, body)

    def finish(self) -> None:
        """Add reasoning that got no reply as a message of its own."""
        if self._thinking:
            parts = [part for part, _ in self._thinking]
            turn = self._thinking[-1][1]
            self._thinking = []
            self._add(turn, "assistant", parts)

    def _take_user(self, turn: MarkdownTurn, body: str) -> None:
        if not body.startswith(_CONTINUED):
            self._add(turn, "user", [Text(body)])
        elif self.messages:
            self.left_out["earlier summary|earlier summaries"] += 1
        else:
            checkpoint = MessageMetadata(source="checkpoint")
            self._add(turn, "user", [Text(body)], metadata=checkpoint)

    def _take_agent(self, turn: MarkdownTurn, body: str) -> None:
        think = _THINK.match(body)
        if think:
            self._thinking.append((Thinking(think["text"]), turn))
            body = body[think.end() :].strip("\n")
        start = body.find('<tool-use data-tool-type="') if "<tool-use " in body else -1
        is_line = start == 0 or body[start - 1 : start] == "\n"
        if start >= 0 and is_line and any(_blocks(body[start:])):
            if body[:start].strip():
                self._answer(turn, Text(body[:start].strip("\n")))
            self._take_tools(turn, body[start:])
        elif body.strip() and not (self._is_resumed and self._take_plain_call(turn, body)):
            self._answer(turn, Text(body))

    def _take_tools(self, turn: MarkdownTurn, body: str) -> None:
        """Add the tool blocks of a turn, without the second, empty blocks that Cursor writes."""
        previous: tuple[str, str] | None = None
        for block, summary, within in _blocks(body):
            inside = html.unescape(within) if self.escaped else within
            if not inside.strip() and not summary and previous == (block["type"], block["name"]):
                continue
            previous = (block["type"], block["name"])
            call, output = _split(inside, is_write=block["type"] == "write")
            self._call(turn, block["name"], _arguments(summary, call, block["type"]), output)

    def _take_plain_call(self, turn: MarkdownTurn, body: str) -> bool:
        """Add a call that a resumed session has as text. Return whether the text is a call."""
        call, output = _split(body, is_write=body.startswith("```"))
        if output is None:
            return False
        named = _PLAIN_CALL.match(call)
        if named:
            arguments = _arguments("", named["rest"].strip(), "shell")
            self._call(turn, named["name"], arguments, output)
            return True
        if "```text\n" not in body or not (not call or call.rstrip().endswith("`")):
            return False
        self.left_out["call whose tool name is a guess|calls whose tool name is a guess"] += 1
        span = _whole_span(call)
        is_shell = _SCRIPT.fullmatch(call) or (span and span[0])
        name = "shell" if is_shell else "tool"
        self._call(turn, name, _arguments("", call, name), output)
        return True

    def _call(self, turn: MarkdownTurn, name: str, arguments: str, answered: str | None) -> None:
        if arguments == "{}":
            self.left_out["tool call without arguments|tool calls without arguments"] += 1
        if answered is None:
            self.left_out["tool call without output|tool calls without output"] += 1
        self._calls[name] += 1
        call_id = f"{name}-{self._calls[name]}"
        self._answer(turn, ToolCall(call_id, name, arguments))
        self._add(turn, "tool", [ToolResult(call_id, answered or "", name)])

    def _answer(self, turn: MarkdownTurn, part: Part) -> None:
        thoughts = [part for part, _ in self._thinking]
        self._thinking = []
        self._add(turn, "assistant", [*thoughts, part])

    def _add(self, turn: MarkdownTurn, role: str, parts: list[Part], **more: object) -> None:
        self.say(role, parts, {"line": turn.line, "who": turn.who}, time=turn.time, **more)


def _split(inside: str, *, is_write: bool) -> tuple[str, str | None]:
    """Return the call and the output in a tool block. The output is None if there is none.

    Outputs are not escaped and may hold fences of their own, so the output begins at the first
    fence. If a file was written, its text comes first, so the output begins at the last fence.
    """
    answer = _ANSWER.search(inside)
    if answer:
        return inside[: answer.start()].strip("\n"), answer["text"]
    end = len(inside) - len(_OUTPUT_END)
    is_closed = inside.endswith(_OUTPUT_END)
    fences = [x for x in _OUTPUT.finditer(inside) if x.end() < end] if is_closed else []
    if not fences:
        return inside, None
    begin = fences[-1 if is_write else 0]
    return inside[: begin.start()].strip("\n"), inside[begin.end() + 1 : end]


def _blocks(body: str) -> Iterator[tuple[re.Match[str], str, str]]:
    end = 0
    for block in _TOOL.finditer(body):
        _, is_titled, summary = block["titled"].partition("**")
        if block.start() < end or not is_titled:
            continue
        closed = _TOOL_END.search(body, block.end())
        if closed is None:
            return
        end = closed.end()
        text = summary.strip().removeprefix("•").strip()
        yield block, text, body[block.end() : closed.start()].strip("\n")


def _whole_span(text: str) -> tuple[str, str] | None:
    """If the last line is a code span, return the text above it and its contents, or None."""
    above, _, line = text.rstrip().rpartition("\n")
    line = line.lstrip()
    is_span = len(line) > 1 and line[0] == line[-1] == "`"
    return (above.strip(), line[1:-1]) if is_span else None


def _arguments(summary: str, asked: str, kind: str) -> str:
    """Return the arguments as JSON: a shell's command, or else the text that the export has."""
    values: dict[str, str] = {}
    text = "\n".join(x for x in (summary, asked) if x.strip())
    script = _SCRIPT.fullmatch(text)
    span = (script["description"].strip(), script["span"]) if script else _whole_span(text)
    if span and kind == "shell":
        description, values["command"] = span
        if description:
            values["description"] = description
    elif text.strip():
        values["input"] = text.strip()
    return json.dumps(values, ensure_ascii=False)


# --- turns ----------------------------------------------------------------------------------------


def _tool_of(text: str) -> str | None:
    """Return the coding tool that a SpecStory file names. Return None for other texts."""
    matches = (_SESSION.match(line.strip()) for line in _head_of(text))
    return next((match["tool"] for match in matches if match), None)


def _title_of(text: str) -> str | None:
    return next((line[2:].strip() for line in _head_of(text) if line.startswith("# ")), None)


def _head_of(text: str) -> list[str]:
    return text[:4000].split("\n")[:12]


def _turns_of(text: str) -> list[MarkdownTurn]:
    """Return the turns in order. Headings are between empty lines, outside of code and tools."""
    lines = text.replace("\r\n", "\n").split("\n")
    headings = list(_headings(lines))
    turns: list[MarkdownTurn] = []
    for place, (index, match) in enumerate(headings):
        is_last = place + 1 == len(headings)
        end = len(lines) if is_last else headings[place + 1][0]
        body = "\n".join(lines[index + 1 : end]).strip("\n")
        if not is_last and (body == "---" or body.endswith("\n---")):
            body = body[:-3].rstrip("\n")
        time = _time(match["time"])
        turns.append(MarkdownTurn(match["who"], bool(match["side"]), time, body, index + 1))
    return turns


def _time(value: str | None) -> datetime | None:
    if value is None:
        return None
    return datetime.strptime(value, "%Y-%m-%d %H:%M:%SZ").replace(tzinfo=UTC)


def _headings(lines: list[str]) -> Iterator[tuple[int, re.Match[str]]]:
    state = _Quoting(lines)
    for index, line in enumerate(lines):
        if line.startswith("_**") and (match := _HEADING.fullmatch(line.rstrip())):
            if _alone(lines, index) and not state.quoted(index):
                state.reset()
                yield index, match
        elif line.startswith(("<", "`")):
            state.see(line)


def _alone(lines: list[str], index: int) -> bool:
    before = index == 0 or not lines[index - 1].strip()
    return before and (index + 1 == len(lines) or not lines[index + 1].strip())


class _Quoting:
    """Tells whether a line is inside a tool block or a code block."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.reset()

    def reset(self) -> None:
        """Begin a new turn, outside of all blocks."""
        self._in_tool = False
        self._depth = 0

    def see(self, line: str) -> None:
        """Read a line that may open or close a block. Code inside tool blocks is ignored."""
        if line.startswith(_TOOL_OPEN):
            self._in_tool = True
        elif line.startswith(_TOOL_CLOSE):
            self._in_tool, self._depth = False, 0
        elif not self._in_tool and (fence := _FENCE.match(line)):
            opens = self._depth == 0 or bool(fence["info"].strip())
            self._depth += 1 if opens else -1

    def quoted(self, index: int) -> bool:
        """Whether the heading at the index is inside a block."""
        if self._in_tool:
            return self._tool_closes_after(index)
        return self._depth > 0 and self._code_closes_after(index)

    def _tool_closes_after(self, index: int) -> bool:
        for line in self._lines[index + 1 :]:
            if line.startswith(_TOOL_CLOSE):
                return True
            if line.startswith(_TOOL_OPEN):
                return False
        return False

    def _code_closes_after(self, index: int) -> bool:
        """Whether the open code block is closed further below.

        The user may open a block and never close it. Then the next fence opens another block: it
        has a language, or its closing fence comes before the next heading.
        """
        fences = 0
        for line in self._lines[index + 1 :]:
            fence = _FENCE.match(line)
            if fence:
                if fences == 0 and fence["info"].strip():
                    return False
                fences += 1
            elif fences and line.startswith("_**") and _HEADING.fullmatch(line.rstrip()):
                break
        return fences % 2 == 1
