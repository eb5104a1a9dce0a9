"""The abstractive summarizer: a model writes, and says once more what it left out.

What it writes is brought into the form of `compression.sections` and held to the gate before
anybody else sees it: names and open tasks that are missing are asked for once. What was accepted is
remembered, so that the same request is not sent twice. Errors of the model are raised as they are:
whoever asked falls back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from compact.compression.abstraction import briefing, sections
from compact.compression.abstraction.writing import Desk, Writing, fingerprint
from compact.compression.fencing import KNOWN, Block, blocks_of, marker_of
from compact.compression.gate.answer import failed
from compact.compression.gate.matter import words_of
from compact.compression.gate.rules import Judged, is_copy, judge, missing
from compact.core.checkpoints import REFERENCE_LINE, Summary, SummaryRequest
from compact.core.messages import Message, MessageMetadata
from compact.core.protocols import ChatModel
from compact.core.tokens import TokenCounter
from compact.errors import ContextOverflow, ModelFailed

UNSAID_WINDOW = 4_096
"""Tokens of the window of a model whose server does not say."""
REMEMBERED = 64
"""Summaries that are kept to be given again."""
MOST_REQUESTS = 128
"""Requests that one summary may take."""
RESULT_SHARE, CHARACTERS, SHORTEST, LONGEST = 8, 4, 400, 12_000
"""What a tool put out is shown up to this share of the window, at so many characters a token, and
within these bounds in characters."""
MOST_MISSED = 20
"""Names and tasks that are asked for once more."""
EXCERPTS, EXCERPT = 2, 300
"""Lines that are shown of each, the newest ones, and their characters."""
REPAIRABLE = frozenset(("tasks", "anchors", "retention"))
"""Rules of the gate that more lines may satisfy: a summary that another one rejects is not worth
another request."""
LINE_TOKENS = 40
"""Tokens of an answer for each of them."""
ABOUT = 0.5
"""Share of a task's words from which a text may be about it."""


class ModelSummarizer:
    """Has a model write summaries, within the model's own window of so many tokens; None is what
    the server says of it, else `UNSAID_WINDOW`.

    `counter` counts for that model. `reserve` are tokens of the window that it may think before it
    answers. A summary that would take more than `most_requests` is not begun.
    """

    waits = True

    def __init__(
        self,
        model: ChatModel,
        counter: TokenCounter,
        *,
        window: int | None,
        reserve: int = 0,
        most_requests: int = MOST_REQUESTS,
    ) -> None:
        self._desk = Desk(model, counter, window or UNSAID_WINDOW, reserve, most_requests)
        self._is_sized = window is not None
        self._remembered: OrderedDict[str, Summary] = OrderedDict()

    @property
    def name(self) -> str:
        """The model's key."""
        return self._desk.model.name

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Summarize the request's messages within its token cap.

        Raises:
            SummaryRejected: the model's window has no room for it.
            ContextOverflow, ModelFailed: as the model says.
        """
        if not self._is_sized:
            await self._take_size()
        longest = self._desk.window * CHARACTERS // RESULT_SHARE
        blocks = shown(request, longest=max(SHORTEST, min(longest, LONGEST)))
        key = fingerprint(request, blocks)
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        writing = Writing(self._desk, request)
        written = await writing.write(blocks)
        summary = Summary(
            text=self._formed(written.text, request),
            made_by=written.made_by,
            finish=written.finish,
            prompt="\n\n".join(writing.told),
        )
        judged = self._judged(summary, request)
        if missed := self._missed(summary, judged, request):
            summary, judged = await self._completed(summary, judged, missed, blocks, writing)
        if judged.accepted:
            self._remember(key, summary)
        return summary

    async def _take_size(self) -> None:
        """Take the window that the server says the model has."""
        limits = await self._desk.model.limits()
        sizes = [size for size in (limits.window, limits.trained) if size is not None]
        if sizes:
            self._desk = replace(self._desk, window=min(sizes))
        self._is_sized = True

    def _formed(self, text: str, request: SummaryRequest) -> str:
        """What was written in its canonical form; a little too much is left out. What is no answer
        is left as it is, so that the gate knows it.
        """
        written = Summary(text=text, made_by=self.name)
        if failed(text) or is_copy(written, request, self._desk.counter):
            return text
        formed = sections.canonical(text, request.strategy)
        return sections.trimmed(formed, request.max_tokens, self._desk.counter.text)

    def _remember(self, key: str, summary: Summary) -> None:
        self._remembered[key] = summary
        if len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)

    def _judged(self, summary: Summary, request: SummaryRequest) -> Judged:
        counter = self._desk.counter
        source = sum(map(counter.message, request.messages))
        return judge(summary, request, counter, source_tokens=source)

    def _missed(self, summary: Summary, judged: Judged, request: SummaryRequest) -> list[str]:
        """What the gate asks for and the summary leaves out; nothing where it is no good anyway."""
        if not summary.text or not REPAIRABLE.issuperset(judged.rejected_by):
            return []
        missed = missing(summary, request, self._desk.counter)
        return [*missed.tasks, *missed.anchors][:MOST_MISSED]

    async def _completed(
        self,
        summary: Summary,
        judged: Judged,
        missed: Sequence[str],
        blocks: Sequence[Block],
        writing: Writing,
    ) -> tuple[Summary, Judged]:
        """The summary with lines about what it missed, where that is better by the gate."""
        desk, room = self._desk, self._desk.usable
        while missed:
            tokens = min(writing.answer, LINE_TOKENS * len(missed))
            excerpts = list(told_of(missed, blocks))
            told, marker = briefing.repair(sections.ASKED, missed), marker_of(excerpts)
            context = told.context(excerpts, marker, desk.counter)
            if context.tokens + tokens <= room:
                break
            missed = missed[: len(missed) // 2]
        if not missed or not excerpts:
            return summary, judged
        try:
            answer = await writing.ask(told, context, tokens)
        except (ModelFailed, ContextOverflow):
            return summary, judged
        text = self._merged(summary.text, answer.text, missed, writing.request.max_tokens)
        prompt = "\n\n".join(writing.told)
        better = summary.model_copy(update={"text": text, "prompt": prompt})
        again = self._judged(better, writing.request)
        return (better, again) if _worth(again) >= _worth(judged) else (summary, judged)

    def _merged(self, text: str, more: str, missed: Sequence[str], cap: int) -> str:
        """The text with those new lines that name something it missed, as far as the cap goes."""
        for title, lines in sections.read(more).items():
            for line in lines:
                named = any(name in line and name not in text for name in missed)
                if not named or len(line) > sections.LONGEST_LINE:
                    continue
                longer = with_line(text, title, line)
                if self._desk.counter.text(longer) <= cap:
                    text = longer
        return text


def _worth(judged: Judged) -> tuple[bool, int]:
    return judged.accepted, sum(verdict.passed for verdict in judged.verdicts)


def with_line(text: str, title: str, line: str) -> str:
    """A summary with one more line: in its section, where it has sections."""
    body = text.removeprefix(REFERENCE_LINE)
    found = sections.read(body)
    if set(found) <= {""}:
        return f"{text}\n- {line}"
    title = title if title in sections.ASKED else "Facts"
    found.setdefault(title, []).append(line)
    return sections.written(found)


def shown(request: SummaryRequest, *, longest: int) -> list[Block]:
    """What a model is shown of a request: what is known already, then the messages."""
    if request.previous is None or not request.previous.text.strip():
        return blocks_of(request.messages, request.answers, longest=longest)
    source = MessageMetadata(source="checkpoint")
    known = Message(role="user", content=request.previous.text, metadata=source, id="known")
    blocks = blocks_of([known, *request.messages], request.answers, longest=longest)
    return [replace(b, voice=KNOWN) if b.message == 0 else b for b in blocks]


def told_of(names: Iterable[str], blocks: Sequence[Block]) -> Iterable[Block]:
    """The newest lines that tell of each name or task, in the order of the messages."""
    found: dict[tuple[int, str], Block] = {}
    for name in names:
        places = [(at, block.text.find(name)) for at, block in enumerate(blocks)]
        lines = [(at, _around(blocks[at].text, x, len(name))) for at, x in places if x >= 0]
        for at, line in lines[-EXCERPTS:] or _about(name, blocks):
            found[at, line] = replace(blocks[at], text=line)
    return [found[key] for key in sorted(found)]


def _around(text: str, place: int, length: int) -> str:
    """The line in which something stands, at most `EXCERPT` characters beside it."""
    start = max(text.rfind("\n", 0, place) + 1, place - EXCERPT // 2)
    end = text.find("\n", place + length)
    return text[start : min(end if end >= 0 else len(text), place + length + EXCERPT // 2)].strip()


def _about(task: str, blocks: Sequence[Block]) -> list[tuple[int, str]]:
    """The newest line that holds most of a task's words, and its block."""
    words = words_of(task)
    for at in range(len(blocks) - 1, -1, -1):
        lowered = blocks[at].text.lower()
        if sum(word in lowered for word in words) < ABOUT * len(words):
            continue
        lines = blocks[at].text.split("\n")
        best = max(lines, key=lambda line: len(words_of(line) & words))
        return [(at, best[: 2 * EXCERPT].strip())]
    return []
