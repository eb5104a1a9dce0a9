"""Generated histories, in both wire forms, from the ordinary to the wild.

A history is drawn as a short list of events (a question, a tool loop, a dead call, …) whose texts
come from a seeded
generator: so histories of 128,000 tokens are cheap to draw and shrink to a few events.
`ordinary()` gives what a working
application sends; `wild()` adds everything a careless or crashed one leaves behind.
"""

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

Wire = Literal["chat_completions", "anthropic"]
Dict = dict[str, Any]

WORDS = """
the parser reads every row and the writer keeps its order while the cache holds what the report
needs so a reviewer can follow the change from the first failing test to the merged branch without
asking anybody for the missing half of the story which is why the schedule table has a column for
retries and another for owners
""".split()  # noqa: SIM905 - words read best as a text
FACTS = (
    "src/engine/plan.py", "tests/test_retry_window.py", "MAX_RETRIES", "RetryBudget", "PROJ-481",
    "v2.14.3", "9f3ac71", "https://example.org/build/77", "ValueError: window too small",
    "--dry-run", "127.0.0.1:8080", "30 seconds",
)  # fmt: skip
RULES = (
    "Never write to the production table.", "Always run the linter before you commit.",
    "Please keep the old names.", "Bitte niemals ohne Rückfrage löschen.", "必须先备份数据库。",
    "We only support Linux here.",
)  # fmt: skip
HANZI = (
    "请检查缓存策略并给出修复方案确认日志后发现超时时间需要增加重试次数同时优化数据库"
    "索引结构用户反馈登录页面加载很慢"
)
REMINDER = "<system-reminder>\nThe task list is empty. Do not mention this.\n</system-reminder>"
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
    + (640).to_bytes(4, "big")
    + (480).to_bytes(4, "big")
    + bytes(9)
).decode()


@dataclass(slots=True)
class Generated:
    """A history and what a test must know of it."""

    wire: Wire
    messages: list[Dict] = field(default_factory=list)
    persons: list[int] = field(default_factory=list)
    """Positions of messages that a person wrote."""
    pinned: list[int] = field(default_factory=list)
    """Positions of messages whose metadata pin them."""
    valid: bool = True
    """Whether a provider would take the list as it is."""

    def __repr__(self) -> str:
        shown = [json.dumps(m, default=str, ensure_ascii=True)[:160] for m in self.messages[:30]]
        return (
            f"{self.wire}, {len(self.messages)} messages, "
            f"persons {self.persons[-3:]}, pinned {self.pinned}:\n" + "\n".join(shown)
        )


# --- texts ---


def prose(r: random.Random, words: int) -> str:
    """Sentences of about so many words, with facts and rules scattered among them."""
    out: list[str] = []
    count = 0
    while count < words:
        n = r.randint(5, 18)
        sentence = " ".join(r.choice(WORDS) for _ in range(n))
        if r.random() < 0.3:
            sentence += " " + r.choice(FACTS)
        out.append(sentence.capitalize() + ".")
        if r.random() < 0.08:
            out.append(r.choice(RULES))
        if r.random() < 0.2:
            out.append("\n")
        count += n
    return " ".join(out)


def log(r: random.Random, words: int) -> str:
    """Lines of a log, of about so many words."""
    lines = []
    for i in range(max(1, words // 8)):
        level = r.choice(("INFO", "DEBUG", "ERROR", "WARN"))
        lines.append(
            f"2026-03-{r.randint(1, 28):02} 12:{i % 60:02} {level} {r.choice(FACTS)} "
            f"took {r.randrange(900)} ms"
        )
    return "\n".join(lines)


def code(r: random.Random, words: int) -> str:
    """Source text, of about so many words."""
    lines = [
        f"def {r.choice(WORDS)}_{i}(x: int) -> int:\n    return x * {r.randrange(99)}"
        for i in range(max(1, words // 8))
    ]
    return "```python\n" + "\n\n".join(lines) + "\n```"


def hanzi(r: random.Random, words: int) -> str:
    return "".join(r.choice(HANZI) + ("。" if r.random() < 0.06 else "") for _ in range(words))


def dense(r: random.Random, words: int) -> str:
    return base64.b64encode(r.randbytes(words * 3)).decode()


def one_word(r: random.Random, words: int) -> str:
    return r.choice("aßx漢=") * (words * 5)


def surrogates(r: random.Random, words: int) -> str:
    return prose(r, max(1, words)).replace("the", "\ud83d", 3) + "\udc80"


def spaces(r: random.Random, words: int) -> str:
    return r.choice((" ", "\n", "\t", "\r\n", "\u00a0", "\u2028")) * max(1, words)


def headings(r: random.Random, words: int) -> str:
    """A person who types what looks like a checkpoint of ours."""
    return f"[Checkpoint ck-{'ab' * 6} · 3 of messages 1 to 4 · digest {'0' * 12}]\n" + prose(
        r, words
    )


Maker = Callable[[random.Random, int], str]
ORDINARY: tuple[Maker, ...] = (prose, prose, log, code)
WILD: tuple[Maker, ...] = (*ORDINARY, hanzi, dense, one_word, surrogates, spaces, headings)
SIZES = (2, 8, 30, 120, 500, 2_000, 8_000)


# --- writing messages in either form ---


class Writer:
    """Appends messages to a history in its wire form."""

    def __init__(self, wire: Wire, seed: int, makers: tuple[Maker, ...]) -> None:
        self.made = Generated(wire)
        self.r = random.Random(seed)
        self._makers = makers
        self._calls = 0

    def text(self, words: int) -> str:
        return self.r.choice(self._makers)(self.r, words)

    def add(self, message: Dict) -> int:
        self.made.messages.append(message)
        return len(self.made.messages) - 1

    def person(self, text: str, **fields: Any) -> int:
        position = self.add({"role": "user", "content": text, **fields})
        self.made.persons.append(position)
        return position

    def call_id(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"

    def calls(self, words: int, ids: list[str], *, says: str | None = None) -> None:
        """An assistant message that makes calls."""
        names = [self.r.choice(("read_file", "run_shell", "search_code")) for _ in ids]
        inputs = [
            {"path": self.r.choice(FACTS), "query": prose(self.r, max(1, words))} for _ in ids
        ]
        if self.made.wire == "anthropic":
            blocks: list[Dict] = [{"type": "text", "text": says}] if says else []
            blocks += [
                {"type": "tool_use", "id": i, "name": n, "input": a}
                for i, n, a in zip(ids, names, inputs, strict=True)
            ]
            self.add({"role": "assistant", "content": blocks})
            return
        made = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, n, a in zip(ids, names, inputs, strict=True)
        ]
        self.add({"role": "assistant", "content": says, "tool_calls": made})

    def results(self, texts: Mapping[str, str], **fields: Any) -> list[int]:
        """What the tools answered: a message each, or blocks of one message."""
        if self.made.wire == "anthropic":
            blocks = [
                {"type": "tool_result", "tool_use_id": i, "content": t} for i, t in texts.items()
            ]
            return [self.add({"role": "user", "content": blocks, **fields})]
        return [
            self.add({"role": "tool", "tool_call_id": i, "content": t, **fields})
            for i, t in texts.items()
        ]

    def system(self, text: str) -> int:
        return self.add({"role": "system", "content": text})


# --- events ---

Event = Callable[[Writer, int], None]


def question(w: Writer, words: int) -> None:
    w.person(w.text(words))


def turn(w: Writer, words: int) -> None:
    w.person(w.text(max(1, words // 4)))
    w.add({"role": "assistant", "content": w.text(words)})


def answer(w: Writer, words: int) -> None:
    w.add({"role": "assistant", "content": w.text(words)})


def tool_step(w: Writer, words: int) -> None:
    call = w.call_id()
    w.calls(4, [call], says=w.r.choice((None, "Reading.")))
    w.results({call: w.text(words)})


def tool_loop(w: Writer, words: int) -> None:
    """One question and a long run of steps."""
    w.person(w.text(12))
    for _ in range(w.r.randint(5, 40)):
        tool_step(w, max(1, words // 10))


def chat(w: Writer, words: int) -> None:
    """Many short turns."""
    for _ in range(w.r.randint(10, 60)):
        turn(w, max(2, words // 30))


def parallel(w: Writer, words: int) -> None:
    ids = [w.call_id() for _ in range(w.r.randint(2, 6))]
    w.calls(3, ids)
    w.results({i: w.text(words // 3) for i in ids})
    answer(w, 10)


def long_arguments(w: Writer, words: int) -> None:
    call = w.call_id()
    w.calls(words, [call])
    w.results({call: "written"})


def system_again(w: Writer, words: int) -> None:
    w.system(w.text(min(words, 40)))


def pinned(w: Writer, words: int) -> None:
    role = w.r.choice(("user", "assistant"))
    position = w.add(
        {"role": role, "content": w.text(min(words, 60)), "metadata": {"pinned": True}}
    )
    w.made.pinned.append(position)
    if role == "user":
        w.made.persons.append(position)


def twice(w: Writer, words: int) -> None:
    """The same messages again, word for word."""
    seed = w.r.randrange(1000)
    for _ in range(2):
        w.r.seed(seed)
        turn(w, words)


def unknown_fields(w: Writer, words: int) -> None:
    w.person(w.text(words), x_trace={"a": [1, None]}, name="ada")
    w.add({"role": "assistant", "content": w.text(words), "x_vendor": True, "annotations": []})


def rich_parts(w: Writer, words: int) -> None:
    """Several parts, an image among them."""
    if w.made.wire == "anthropic":
        picture: Dict = {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
        }
    else:
        picture = {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64," + PNG, "detail": "high"},
        }
    says = {"type": "text", "text": w.text(words) or "see"}
    w.made.persons.append(
        w.add({"role": "user", "content": [says, picture, {"type": "text", "text": "What is it?"}]})
    )
    w.add({"role": "assistant", "content": [{"type": "text", "text": w.text(words) or "ok"}]})


def thinking(w: Writer, words: int) -> None:
    if w.made.wire != "anthropic":
        w.add({"role": "assistant", "content": w.text(words), "reasoning_content": w.text(words)})
        return
    call = w.call_id()
    thought = {"type": "thinking", "thinking": w.text(words), "signature": dense(w.r, 60)}
    use = {"type": "tool_use", "id": call, "name": "read_file", "input": {"path": "a.py"}}
    w.add({"role": "assistant", "content": [thought, use]})
    w.results({call: w.text(words)})


ORDINARY_EVENTS: tuple[Event, ...] = (
    question, turn, turn, tool_step, tool_loop, chat, parallel, long_arguments, twice,
    unknown_fields, rich_parts, thinking,
)  # fmt: skip


def dead_call(w: Writer, words: int) -> None:
    w.calls(3, [w.call_id()], says=w.text(words))
    w.made.valid = False


def half_answered(w: Writer, words: int) -> None:
    ids = [w.call_id() for _ in range(4)]
    w.calls(3, ids)
    told = w.r.sample(ids, w.r.randint(1, 3))
    w.results({i: w.text(words) for i in told})
    w.made.valid = False


def late_result(w: Writer, words: int) -> None:
    call = w.call_id()
    w.calls(3, [call])
    w.person(w.text(8))
    w.results({call: w.text(words)})
    w.made.valid = False


def late_result_in_a_batch(w: Writer, words: int) -> None:
    """The result of an earlier call, before the one that is due."""
    late, due = w.call_id(), w.call_id()
    w.calls(3, [late])
    w.person(w.text(8))
    w.calls(3, [due])
    w.results({late: w.text(words), due: w.text(8)})
    w.made.valid = False


def orphan_result(w: Writer, words: int) -> None:
    w.results({"call_nobody_made": w.text(words)})
    w.made.valid = False


def answered_twice(w: Writer, words: int) -> None:
    call = w.call_id()
    w.calls(3, [call])
    w.results({call: w.text(words)})
    w.results({call: "again"})
    w.made.valid = False


def same_id_again(w: Writer, words: int) -> None:
    """An id that is used again by a later call: as some models number their calls from one in each
    turn."""
    for _ in range(2):
        w.calls(3, ["call_reused"])
        w.results({"call_reused": w.text(words)})


def pinned_result(w: Writer, words: int) -> None:
    call = w.call_id()
    w.calls(3, [call])
    w.made.pinned += w.results({call: w.text(min(words, 60))}, metadata={"pinned": True})


def pinned_dead_call(w: Writer, words: int) -> None:
    w.calls(3, [w.call_id()])
    w.made.messages[-1]["metadata"] = {"protected": True}
    w.made.pinned.append(len(w.made.messages) - 1)
    w.made.valid = False


def reminder(w: Writer, words: int) -> None:
    w.add({"role": "user", "content": REMINDER})


def reminder_between_results(w: Writer, words: int) -> None:
    ids = [w.call_id(), w.call_id()]
    w.calls(3, ids)
    w.results({ids[0]: w.text(words)})
    reminder(w, words)
    w.results({ids[1]: w.text(words)})
    w.made.valid = False


def empty_things(w: Writer, words: int) -> None:
    w.person("")
    w.add({"role": "assistant", "content": ""})
    w.add({"role": "assistant", "content": None})
    w.add({"role": "assistant", "content": []})
    call = w.call_id()
    w.calls(1, [call])
    w.results({call: ""})


def refusal(w: Writer, words: int) -> None:
    if w.made.wire == "chat_completions":
        w.add({"role": "assistant", "content": None, "refusal": w.text(words) or "No."})


def developer(w: Writer, words: int) -> None:
    if w.made.wire == "chat_completions":
        w.add({"role": "developer", "content": w.text(min(words, 30))})


def old_function_call(w: Writer, words: int) -> None:
    if w.made.wire == "chat_completions":
        w.add(
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": "{}"},
            }
        )
        w.add({"role": "function", "name": "f", "content": w.text(words)})


def split_reply(w: Writer, words: int) -> None:
    """One reply of Anthropic's in several messages, a result between its pieces."""
    if w.made.wire != "anthropic":
        return
    first, second = w.call_id(), w.call_id()
    reply = {"role": "assistant", "id": f"msg_{first}"}
    w.add(
        {
            **reply,
            "content": [{"type": "thinking", "thinking": w.text(words), "signature": "c2Vhb"}],
        }
    )
    w.add({**reply, "content": [{"type": "text", "text": w.text(words) or "ok"}]})
    w.add(
        {**reply, "content": [{"type": "tool_use", "id": first, "name": "read_file", "input": {}}]}
    )
    w.add(
        {**reply, "content": [{"type": "tool_use", "id": second, "name": "read_file", "input": {}}]}
    )
    w.results({first: w.text(words)})
    w.results({second: w.text(words)})


def unknown_parts(w: Writer, words: int) -> None:
    """Parts of kinds that are not known, and results with parts."""
    w.add(
        {
            "role": "assistant",
            "content": [{"type": "x_new", "body": w.text(words)}, {"type": "text", "text": "k"}],
        }
    )
    call = w.call_id()
    w.calls(1, [call])
    inner = [{"type": "text", "text": w.text(words)}, {"type": "text", "text": "end"}]
    if w.made.wire == "anthropic":
        w.add(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call, "content": inner, "is_error": True}
                ],
            }
        )
    else:
        w.add({"role": "tool", "tool_call_id": call, "content": inner})


def result_and_words(w: Writer, words: int) -> None:
    """A person's words in the very message that carries a result."""
    if w.made.wire != "anthropic":
        return
    call = w.call_id()
    w.calls(1, [call])
    blocks: list[Dict] = [
        {"type": "tool_result", "tool_use_id": call, "content": w.text(words)},
        {"type": "text", "text": prose(w.r, 6)},
    ]
    w.made.persons.append(w.add({"role": "user", "content": blocks}))


WILD_EVENTS: tuple[Event, ...] = (
    *ORDINARY_EVENTS, answer, system_again, pinned, dead_call, half_answered, late_result,
    late_result_in_a_batch,
    orphan_result, answered_twice,
    same_id_again, pinned_result, pinned_dead_call, reminder, reminder_between_results,
    empty_things, refusal, developer,
    old_function_call, split_reply, unknown_parts, result_and_words,
)  # fmt: skip

WIRES: tuple[Wire, ...] = ("chat_completions", "anthropic")
EVENT_SIZES = st.sampled_from(SIZES)


@st.composite
def ordinary(draw: st.DrawFn, *, least: int = 2, wires: tuple[Wire, ...] = WIRES) -> Generated:
    """A history that a working application sends: a system prompt, questions, answers, tools,
    plain texts."""
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(ORDINARY_EVENTS), EVENT_SIZES), min_size=least, max_size=14
        )
    )
    w = Writer(draw(st.sampled_from(wires)), draw(st.integers(0, 2**32)), ORDINARY)
    if draw(st.booleans()):
        w.system(prose(w.r, 30))
    w.person(prose(w.r, 12))
    for event, words in steps:
        event(w, words)
    if draw(st.booleans()):
        w.person(prose(w.r, 10))
    return w.made


@st.composite
def wild(draw: st.DrawFn, *, wires: tuple[Wire, ...] = WIRES) -> Generated:
    """Any history at all: nothing is promised but that each message is well formed by itself."""
    steps = draw(st.lists(st.tuples(st.sampled_from(WILD_EVENTS), EVENT_SIZES), max_size=14))
    w = Writer(
        draw(st.sampled_from(wires)),
        draw(st.integers(0, 2**32)),
        draw(st.sampled_from((ORDINARY, WILD))),
    )
    for event, words in steps:
        event(w, words)
    return w.made


@st.composite
def windows(draw: st.DrawFn, total: int) -> int:
    """A window of 300 to 128,000 tokens: any, or one that the history exceeds."""
    share = draw(st.sampled_from((None, 0.02, 0.1, 0.3, 0.5, 0.8, 0.97, 1.0, 1.02)))
    if share is None:
        return draw(st.integers(300, 128_000))
    return min(128_000, max(300, int(total * share) + draw(st.integers(-5, 5))))


# --- chat completions in other formats, written without the product ---


def as_responses(messages: list[Dict], *, reasons: bool) -> list[Dict]:
    """The same conversation as items of the Responses API; with reasoning before each reply of a
    model that `reasons`."""
    items: list[Dict] = []
    for number, message in enumerate(messages):
        role, marks = message["role"], {k: message[k] for k in message.keys() & {"metadata"}}
        if role in ("tool", "function"):
            call_id = message.get("tool_call_id") or message["name"]
            output = plain_text(message["content"])
            items.append(
                {"type": "function_call_output", "call_id": call_id, "output": output, **marks}
            )
            continue
        if role != "assistant":
            items.append({**marks, "role": role, "content": _input_parts(message["content"])})
            continue
        calls = [(c["id"], c["function"]) for c in message.get("tool_calls") or ()]
        if old := message.get("function_call"):
            calls.append((old["name"], old))
        text = plain_text(message["content"] or message.get("refusal"))
        if reasons:
            summary = [{"type": "summary_text", "text": f"**Thinking {number}**"}]
            items.append(
                {
                    "type": "reasoning",
                    "id": f"rs_{number}",
                    "summary": summary,
                    "encrypted_content": "gAAAA" + "c2Vhb" * 20,
                }
            )
        if text or not calls:
            part = {"type": "output_text", "text": text, "annotations": []}
            items.append(
                {
                    "type": "message",
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                    **marks,
                }
            )
        items += [
            {
                "type": "function_call",
                "id": f"fc_{number}_{i}",
                "call_id": call_id,
                "name": body["name"],
                "arguments": body["arguments"],
                **marks,
            }
            for i, (call_id, body) in enumerate(calls)
        ]
    return items


def as_ollama(messages: list[Dict]) -> list[Dict]:
    """The same conversation as Ollama's messages, whose results name a tool and no call."""
    out: list[Dict] = []
    names: dict[str, str] = {}
    for message in messages:
        role, marks = message["role"], {k: message[k] for k in message.keys() & {"metadata"}}
        record: Dict = {"role": role, "content": plain_text(message["content"]), **marks}
        if role in ("tool", "function"):
            call_id = message.get("tool_call_id") or message["name"]
            record.update(role="tool", tool_name=names.get(call_id, "unknown"))
        elif role == "developer":
            record["role"] = "system"
        bodies = {c["id"]: c["function"] for c in message.get("tool_calls") or ()}
        if old := message.get("function_call"):
            bodies[old["name"]] = old
        names.update((i, body["name"]) for i, body in bodies.items())
        if bodies:
            record["tool_calls"] = [
                {"function": {"name": b["name"], "arguments": json.loads(b["arguments"] or "{}")}}
                for b in bodies.values()
            ]
        if "reasoning_content" in message:
            record["thinking"] = message["reasoning_content"]
        if isinstance(message["content"], list) and any(
            p.get("type") == "image_url" for p in message["content"]
        ):
            record["images"] = [PNG]
        out.append(record)
    return out


def plain_text(content: object) -> str:
    """The words of a content, whatever its shape."""
    if isinstance(content, list):
        return "\n".join(str(p["text"]) for p in content if "text" in p)
    return str(content or "")


def _input_parts(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [
        {"type": "input_text", "text": p["text"]}
        if p.get("type") == "text"
        else {"type": "input_image", "image_url": p["image_url"]["url"], "detail": "high"}
        for p in content
    ]
