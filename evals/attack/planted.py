"""Part `secrets`: does a piece of a planted secret reach a summarizer, a checkpoint, or anything
else in view that is not the message it was said in? And is what only looks like one left alone?
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from compact import ContextManager, plan, wiring
from compact.engine.stories.abstractive import ModelSummarizer
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.messages import Message
from compact.testing import ScriptedModel
from evals.attack.found import Found
from evals.attack.vault import lookalike, secret

PLANTED = {"tiny": 3, "small": 60, "full": 300}
PIECE = 8
"""Characters of a secret that are too many."""
ROLES = ("user", "tool", "call", "assistant", "user", "tool", "system", "goal", "guidance")
PLACES = ("alone", "beginning", "end", "middle")
_FILLER = "The quay was measured again, and the planks are laid out in the yard to dry. "


class Recorder:
    """A summarizer that keeps what it is asked."""

    name, waits = "recorder", False

    def __init__(self) -> None:
        self.requests: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Too short a story, in whose place the extracted one stands."""
        self.requests.append(request)
        return Summary(text="They mended it.", made_by=self.name)

    @property
    def heard(self) -> str:
        """All that the requests hold."""
        return "\n".join(
            "\n".join(
                (
                    *map(said_in, r.messages),
                    *(r.record, r.guidance, *r.answers.values(), *r.goals, *r.open_tasks),
                    r.previous.text if r.previous else "",
                )
            )
            for r in self.requests
        )


def run(seed: int, size: str) -> list[Found]:
    """Plant so many, and as many that only look like secrets."""
    rng, count = random.Random(f"secrets {seed}"), PLANTED[size]
    rows = {name: Found(f"secrets: {name}") for name in ("model", "own summarizer", "in view")}
    for number in range(count):
        kind, pieces, text = secret(rng, number * 7)  # which meets every kind, far ones first
        role, place = rng.choice(ROLES), rng.choice(PLACES)
        for name, where in told_by(role, put(rng, text, place), str(number)).items():
            rows[name].trying(leaks(kind, pieces, where, f"{role}, {place}"))
    alike = Found("secrets: look-alikes altered")
    for number in range(count):
        text = lookalike(rng, number)
        role = ROLES[:4][number % 4]
        sent = told_by(role, put(rng, text, rng.choice(PLACES[:3])), str(number))["model"]
        alike.trying(altered(text, sent))
    return [*rows.values(), alike]


def put(rng: random.Random, text: str, place: str) -> str:
    """The text by itself, or in a long one."""
    before = _FILLER * rng.randint(20, 40) if place in ("end", "middle") else ""
    after = _FILLER * rng.randint(20, 40) if place in ("beginning", "middle") else ""
    return "\n".join(part for part in (before, text, after) if part)


def told_by(role: str, text: str, name: str) -> dict[str, str]:
    """What a model is sent, what a summarizer of one's own is asked, and what is in view beside the
    messages as they were said.
    """
    said = conversation(role, text)
    model, own = ScriptedModel("They mended it."), Recorder()
    counter = wiring.token_counter("chat_completions", tokenizer="o200k")
    writer = ModelSummarizer(model, counter, window=32_000)
    with ContextManager(window=2_600, summarizer=writer, session_id=name) as ctx:
        originals = {said_in(message) for message in ctx.add_messages(said)}
        if role == "goal":
            ctx.goals.set([text])
        ctx.compress_conversation(0.2, guidance=text if role == "guidance" else "")
        seen = list(ctx.active_context().messages)
    done = plan(said, max_tokens=1_500 + 900 * (role == "system"), summarizer=own)
    seen += done.context.messages
    beside = [m for m in seen if said_in(m) not in originals]
    if role == "goal":  # in every prompt word for word: that is what a goal is for
        beside = [m for m in beside if m.role != "system"]
    sent = "\n".join(context.render_text() for context in model.contexts)
    return {"model": sent, "own summarizer": own.heard, "in view": "\n".join(map(said_in, beside))}


def conversation(role: str, text: str) -> list[dict[str, Any]]:
    """A conversation in whose beginning it is said, by somebody; the rest is short."""
    function = {"name": "run", "arguments": json.dumps({"c": text if role == "call" else "make"})}
    talk: list[dict[str, Any]] = [
        {"role": "system", "content": text if role == "system" else "You mend quays."},
        {"role": "user", "content": "Mend the quay."},
        {"role": "user", "content": text if role == "user" else "Look at the planks first."},
        {"role": "assistant", "content": text if role == "assistant" else "Looking at them.",
         "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": text if role == "tool" else "12 planks"},
    ]  # fmt: skip
    for n in range(30):
        talk.append({"role": "assistant", "content": f"Plank {n} is laid; {_FILLER}"})
        talk.append({"role": "user", "content": f"Lay plank {n + 1} as well, {n} mm apart."})
    return talk


def said_in(message: Message) -> str:
    """All that a message says, calls with their arguments and results included."""
    parts = [message.text, *(f"{c.name} {c.arguments}" for c in message.tool_calls)]
    return "\n".join((*parts, *(result.text for result in message.tool_results)))


def leaks(kind: str, secrets: Collection[str], where: str, told: str) -> Iterator[str]:
    """The first piece of a secret that stands there, with what is around it."""
    for one in secrets:
        for start in range(max(1, len(one) - PIECE + 1)):
            if (piece := one[start : start + PIECE]) in where and len(piece) == PIECE:
                at = where.index(piece)
                yield f"{kind} | {told}: …{where[max(0, at - 30) : at + 30]}…"
                return


def altered(text: str, sent: str) -> Iterator[str]:
    """Whether the text is not what was sent, neither as it is nor within JSON."""
    lines: Sequence[str] = json.dumps(text, ensure_ascii=False)[1:-1], text
    if not any(line in sent for line in lines):
        yield f"{text} | altered"
