"""Finds what the user said inside tool results.

Coding agents pass the user's words to the model as the result of a call: answers to a tool's
questions, and reasons for refusing a call. The rules:

1. If the reader of a conversation file recorded the words (`metadata.said`), only those count.
2. Answers are read only from tools that ask the user (`ASKING`, `RELAYING`). The tool's name
   decides, since any file or page may contain text that looks like an answer.
3. The reason for a refusal is read only if the tool asks the user, or if the file's reader knows
   the program (`refusal_in`). Any tool can fail with a text that looks like a refusal.
4. The text that the agent puts before and after the user's words is left out.

The message's speaker is still `tool` (`text.speakers`): no turn starts here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from compact.messages.arguments import json_or
from compact.messages.messages import Message, PersonWords, ToolResult
from compact.patterns import regex

ASKING = frozenset(("askuserquestion", "requestuserinput", "question"))
"""Tools that ask the user and wrap the answers. Names are in lower case, without `_` and `-`."""
RELAYING = frozenset(("askuser", "askhuman", "askfollowupquestion", "humaninput"))
"""Tools whose result is the user's answer, bare or wrapped."""
PLANNING = frozenset(("exitplanmode",))
"""Tools that ask the user to approve a plan."""

_REFUSED = regex(
    r"(?:Error: )?(?:(?:The )?[Uu]ser (?:doesn't want to|rejected|denied|declined)\b"
    r"|Permission for this tool use was denied)"
)
_REASON = regex(r"(?:\buser said|\bfeedback):\s*", re.IGNORECASE)
_REASON_WITHIN = 400
"""How many characters of a refusal are searched for the phrase that announces the reason."""
_ADVICE = "\n\nNote: The user's next message may contain"
_CLARIFYING = ("The user wants to clarify", "The user has indicated")
_ANSWERED = regex(r'[^"\n]{0,80}\banswered\b[^"\n]{0,40}: "')
_CLOSING = regex(r'"\. (?=[A-Z][^"]*\Z)|\. (?=You can now continue\b[^"\n]{0,200}\Z)')
_BESIDE = regex(r'"? (selected preview:\n|user notes: )')
_OPENING = regex(r"\A(?:The )?[Uu]ser (?:answered|responded|replied|selected|said): ?")
_USER_NOTE = "user_note: "


def words_within(
    message: Message, names: Mapping[str, str] | None = None
) -> tuple[PersonWords, ...]:
    """Return what the user said inside a message's tool results, in order, with call ids.

    `names` maps call ids to tool names. For other calls, the tool name in the result is used.
    """
    if not message.tool_results:
        return ()
    found, recorded, known = list[PersonWords](), message.metadata.said, names or {}
    for result in message.tool_results:
        said = [each for each in recorded if each.call_id == result.call_id]
        read = said or words_in(result, known.get(result.call_id) or result.name)
        found += [replace(each, call_id=result.call_id) for each in read]
    return tuple(found)


def words_in(result: ToolResult, tool: str | None) -> tuple[PersonWords, ...]:
    """Return what the user said inside a tool's result; empty unless the tool asks the user."""
    text = result.text.strip()
    asking = _bare(tool or "")
    if asking not in ASKING | RELAYING:
        return ()
    if result.is_error:
        return refusal_in(result)
    found = list(_answers(text))
    if not found and asking in RELAYING:
        found = [PersonWords("answer", _OPENING.sub("", text, count=1))]
    return tuple(said for said in found if said.words)


def refusal_in(result: ToolResult) -> tuple[PersonWords, ...]:
    """Return the reason for a refusal. Call this only for results that a coding agent wrote."""
    return tuple(_reason(result.text.strip())) if result.is_error else ()


def verdict_of(result: ToolResult, tool: str | None) -> Literal["refused", "approved"] | None:
    """Return whether the user refused or approved the call; None if the result does not tell."""
    text = result.text.strip()
    if result.is_error:
        return "refused" if _REFUSED.match(text) else None
    planned = tool is not None and _bare(tool) in PLANNING
    return "approved" if planned and text.startswith("User has approved") else None


def said_of(answers: object, notes: object = None) -> Iterator[PersonWords]:
    """Yield the user's words in a tool's recorded answers and notes, which map questions to words.

    An answer is a text, a list of texts, or an object with the key `answers`. A note is an object
    with the key `notes`.
    """
    beside = notes if isinstance(notes, Mapping) else {}
    for question, given in answers.items() if isinstance(answers, Mapping) else ():
        asked = "" if str(question).isdigit() else str(question)
        note = beside.get(question)
        for words in (*_texts(given), *_notes(note)):
            kind: Literal["answer", "note"] = "note" if words.startswith(_USER_NOTE) else "answer"
            yield PersonWords(kind, words.removeprefix(_USER_NOTE).strip(), asked)


def _texts(given: object) -> list[str]:
    if isinstance(given, Mapping):
        given = given.get("answers")
    if isinstance(given, str):
        return [given]
    return [x for x in given if isinstance(x, str)] if isinstance(given, list) else []


def _notes(note: object) -> list[str]:
    words = note.get("notes") if isinstance(note, Mapping) else None
    return [_USER_NOTE + words] if isinstance(words, str) and words.strip() else []


def _bare(tool: str) -> str:
    return tool.lower().replace("_", "").replace("-", "")


# --- refusals -------------------------------------------------------------------------------------


def _reason(text: str) -> Iterator[PersonWords]:
    """Yield the reason for a refusal, if the text gives one."""
    announced = _REASON.search(text, 0, _REASON_WITHIN) if _REFUSED.match(text) else None
    if announced is None:
        return
    words = text[announced.end() :].partition(_ADVICE)[0].strip()
    if words.startswith(_CLARIFYING):
        yield from _listed(words)
    elif words:
        yield PersonWords("refusal", words)


def _listed(text: str) -> Iterator[PersonWords]:
    """Yield the answers in a list of questions: `- "question"`, then `  Answer: words`."""
    question, answer = "", list[str]()
    for line in [*text.splitlines(), '- ""']:
        if line.startswith('- "'):
            if answer:
                yield PersonWords("answer", "\n".join(answer).strip(), question)
            question, answer = line[3:].removesuffix('"'), []
        elif line.startswith("  Answer: "):
            answer = [line.removeprefix("  Answer: ")]
        elif answer:
            answer.append(line)


# --- answers --------------------------------------------------------------------------------------


def _answers(text: str) -> Iterator[PersonWords]:
    """Yield the answers that a tool wraps as JSON or as `"question"="answer"`."""
    if text.startswith("{"):
        value = json_or(text)
        if isinstance(value, Mapping) and "answers" in value:
            yield from said_of(value["answers"])
            return
    opening = _ANSWERED.match(text)
    if opening is None:
        return
    closing = _CLOSING.search(text, opening.end())
    body = text[opening.end() : closing.start() if closing else len(text)]
    question, *rest = body.split('"="')
    for index, piece in enumerate(rest):
        given, _, following = piece.rpartition(', "') if index < len(rest) - 1 else (piece, "", "")
        yield from _answer(given.removesuffix('"'), question)
        question = following


def _answer(given: str, question: str) -> Iterator[PersonWords]:
    """Yield one answer and its note. A preview between them is left out: the tool wrote it."""
    words, *rest = _BESIDE.split(given)
    yield PersonWords("answer", words.strip(), question)
    for label, text in zip(rest[::2], rest[1::2], strict=True):
        if label.startswith("user notes"):
            yield PersonWords("note", text.strip(), question)
