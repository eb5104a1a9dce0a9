"""Chat-completions histories to measure with: deterministic, made on the spot from the running
Python's own sources.

About 43 % tool messages (22 % of them 2 to 20 kB of code, JSON, logs or prose), one to three
parallel calls, 12 % of the texts with Chinese, Japanese, Arabic, Cyrillic, Korean or emoji,
about 440 tokens a message. The text differs from one Python release to the next, so histories
are compared within one run only.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

Record = dict[str, Any]

SIZES = (2_000, 20_000, 100_000)
SEED = 4711
FOREIGN_SHARE = 0.12
LARGE_SHARE = 0.22
SOURCES = (
    "argparse", "ast", "asyncio.base_events", "calendar", "codecs", "collections", "configparser",
    "csv", "dataclasses", "difflib", "email.message", "fractions", "http.client", "inspect",
    "json.decoder", "logging", "mailbox", "optparse", "pathlib", "pickle", "socketserver",
    "subprocess", "tarfile", "threading", "typing", "unittest.mock", "urllib.request",
    "xml.dom.minidom", "zipfile",
)  # fmt: skip
FOREIGN = (
    "Im Anhang die Übersicht der Größen und Maße: 21 °C, 4½ µm, Weiß auf Grün.",
    "部署之后首页打开需要八秒，请先检查数据库索引，再看缓存是否命中。",
    "夜間のバッチが途中で止まりました。ログの最後の行を確認してください。",
    "Сборка падает на третьем шаге, код 0x80070057, посмотрите, пожалуйста, журнал.",
    "لم تنجح عملية النشر الأخيرة، هل يمكنك التحقق من السجلات؟",
    "테스트가 두 번 실패했습니다. 원인을 찾아 주세요.",
    "All green now 🎉🚀 (👩‍💻 approved, ✅ pipeline, 🐢 cache)",
    "∑ x² ≤ ∫ f(t) dt ≈ 3⅜ … “curly quotes” – and—dashes",
)
TOOLS = (
    "read_file",
    "run_shell",
    "search_code",
    "fetch_url",
    "query_table",
    "list_folder",
    "apply_patch",
)
LAST_REQUEST = "Sum up where we stand, then go on with the next step."


@cache
def _texts() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Paragraphs of prose (docstrings) and source texts."""
    prose: list[str] = []
    code: list[str] = []
    for name in SOURCES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                source = inspect.getsource(importlib.import_module(name))
            except ImportError:  # removed from the standard library by a later Python
                continue
        code.append(source)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                paragraphs = (ast.get_docstring(node) or "").split("\n\n")
                prose += [p for text in paragraphs if 60 < len(p := " ".join(text.split())) < 900]
    return tuple(prose), tuple(code)


@dataclass(slots=True)
class _Author:
    """Writes texts, one random stream for all."""

    random: random.Random
    calls: int = 0

    def paragraphs(self, count: int) -> str:
        return "\n\n".join(self.random.choices(_texts()[0], k=count))

    def seasoned(self, text: str) -> str:
        """The text, now and then with a line in another script."""
        if self.random.random() >= FOREIGN_SHARE:
            return text
        return f"{text}\n{self.random.choice(FOREIGN)}"

    def code(self, size: int) -> str:
        source = self.random.choice(_texts()[1])
        start = self.random.randrange(max(1, len(source) - size))
        return source[start : start + size]

    def row(self) -> str:
        pick = self.random
        row = {
            "id": pick.randrange(10**6),
            "title": pick.choice(_texts()[0])[: pick.randint(10, 40)],
            "rate": round(pick.random(), 4),
            "open": pick.random() < 0.5,
            "at": f"2026-{pick.randint(1, 12):02}-{pick.randint(1, 28):02}T09:07:31Z",
        }
        return json.dumps(row)

    def log_line(self) -> str:
        pick = self.random
        level = pick.choice(("INFO", "INFO", "DEBUG", "WARN", "ERROR"))
        place = pick.choice(("auth", "store", "cache", "gate"))
        return (
            f"2026-11-{pick.randint(1, 28):02} {pick.randrange(24):02}:{pick.randrange(60):02}:17,"
            f"{pick.randrange(1000):03} {level:<5} [worker-{pick.randrange(16)}] app.{place}: "
            f"request {pick.getrandbits(32):08x} took {pick.randrange(5000)} ms"
        )

    def output(self, tool: str) -> str:
        """What a tool printed: code, JSON rows, a log or prose."""
        large = self.random.random() < LARGE_SHARE
        size = self.random.randint(2_000, 20_000) if large else self.random.randint(60, 1_400)
        kind = self.random.random()
        if kind < 0.35 or tool in ("read_file", "apply_patch"):
            return self.seasoned(self.code(size))
        write = (
            self.row if kind < 0.6 else self.log_line if kind < 0.8 else lambda: self.paragraphs(1)
        )
        lines: list[str] = []
        while size > 0:
            lines.append(write())
            size -= len(lines[-1]) + 1
        return self.seasoned("[" + ",\n".join(lines) + "]" if kind < 0.6 else "\n".join(lines))

    def call(self) -> Record:
        self.calls += 1
        tool = self.random.choice(TOOLS)
        arguments = {
            "path": f"src/app/{self.random.randrange(99)}/{tool}.py",
            "query": self.random.choice(_texts()[0])[: self.random.randint(10, 80)],
            "limit": self.random.randrange(100),
        }
        function = {"name": tool, "arguments": json.dumps(arguments)}
        return {"id": f"call_{self.calls:08}", "type": "function", "function": function}

    def step(self) -> Iterator[Record]:
        """One call of tools, often several in parallel, and what they answered."""
        calls = [self.call() for _ in range(self.random.choice((1, 1, 1, 1, 2, 3)))]
        said = self.random.choice(_texts()[0])[:200] if self.random.random() < 0.6 else ""
        yield {"role": "assistant", "content": said, "tool_calls": calls}
        for call in calls:
            name = call["function"]["name"]
            answer = {"role": "tool", "tool_call_id": call["id"], "name": name}
            yield {**answer, "content": self.output(name)}

    def turn(self) -> list[Record]:
        """A question, some steps, an answer."""
        asked = self.paragraphs(self.random.choice((1, 1, 1, 2, 3)))
        if self.random.random() < 0.15:
            asked += f"\n```python\n{self.code(self.random.randint(200, 1_500))}\n```"
        turn: list[Record] = [{"role": "user", "content": self.seasoned(asked)}]
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 5))):
            turn += self.step()
        said = self.paragraphs(self.random.choice((1, 1, 2, 3)))
        return [*turn, {"role": "assistant", "content": self.seasoned(said)}]


def turns(seed: int = SEED) -> Iterator[list[Record]]:
    """Whole turns, on and on."""
    author = _Author(random.Random(seed))
    while True:
        yield author.turn()


def history(size: int, seed: int = SEED) -> list[Record]:
    """`size` messages: a system prompt, whole turns, at the end an open question."""
    author = _Author(random.Random(seed))
    system = "You are a careful software agent. Keep to the user's rules.\n" + author.paragraphs(5)
    messages: list[Record] = [{"role": "system", "content": system}]
    while True:
        turn = author.turn()
        if len(messages) + len(turn) > size - 1:
            break
        messages += turn
    while len(messages) < size - 1:
        role = "user" if messages[-1]["role"] != "user" else "assistant"
        messages.append({"role": role, "content": author.paragraphs(1)})
    if messages[-1]["role"] == "user":
        messages[-1] = {"role": "assistant", "content": "Done."}
        if messages[-2]["role"] == "assistant":
            messages[-2] = {"role": "user", "content": author.paragraphs(1)}
    messages.append({"role": "user", "content": LAST_REQUEST})
    return messages
