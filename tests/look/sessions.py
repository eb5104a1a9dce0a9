"""Writes small transcripts in the shapes that `compactctl look` reads."""

import itertools
import json
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


class Claude:
    """A session of Claude Code, row by row."""

    def __init__(self, name="one"):
        self.name, self.rows, self._numbers = name, [], itertools.count()
        self._time = START

    def add(self, kind, *, seconds=10, **fields):
        """Add a row."""
        self._time += timedelta(seconds=seconds)
        row = {
            "parentUuid": None,
            "isSidechain": False,
            "sessionId": self.name,
            "type": kind,
            **fields,
            "uuid": f"{self.name}-{next(self._numbers)}",
            "timestamp": self._time.isoformat().replace("+00:00", "Z"),
        }
        self.rows.append(row)
        return row

    def person(self, text, **fields):
        """A person's prompt."""
        return self.add("user", message={"role": "user", "content": text}, **fields)

    def agent(self, text, **fields):
        """Words of the agent."""
        blocks = [{"type": "text", "text": text}]
        return self.add("assistant", message={"role": "assistant", "content": blocks}, **fields)

    def call(self, tool, arguments, result, *, is_error=False, **fields):
        """A call and its result; the result's row."""
        id = f"{self.name}-call-{next(self._numbers)}"
        use = {"type": "tool_use", "id": id, "name": tool, "input": arguments}
        self.add("assistant", message={"role": "assistant", "content": [use]}, **fields)
        block = {"type": "tool_result", "tool_use_id": id, "content": result, "is_error": is_error}
        return self.add(
            "user",
            message={"role": "user", "content": [block]},
            toolUseResult={"stdout": result},
            **fields,
        )

    def read(self, path, lines, **fields):
        """A look-up of a file."""
        numbered = "\n".join(f"{number:6}→{line}" for number, line in enumerate(lines, 1))
        return self.call("Read", {"file_path": path}, numbered, **fields)

    def work(self, count):
        """Actions that look nothing up."""
        for _ in range(count):
            self.call("Bash", {"command": "make test"}, "done")

    def compact(self, summary, *, kept=(), trigger="auto", seconds=60, **fields):
        """A boundary and its summary."""
        told = {"trigger": trigger, "preTokens": 150_000}
        if kept:
            told["preservedMessages"] = {"allUuids": list(kept)}
        row = self.add(
            "system",
            seconds=seconds,
            subtype="compact_boundary",
            compactMetadata=told,
            **fields,
        )
        self.person(summary, seconds=0, isCompactSummary=True, **fields)
        return row

    def write(self, folder, name=None):
        """Write the file, and return its path."""
        file = folder / f"{name or self.name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        return file


def text_lines(name, count=6):
    """Lines of a file, with enough letters to be known again."""
    return [f"the {name} keeps its ledger, line {chr(97 + n)}" for n in range(count)]


def forgetful(name="one", *, again=True, compactions=1, secret=""):
    """A session that reads a file, is compacted, and reads it again."""
    session = Claude(name)
    session.person("please use the british spelling in all of the documents")
    for _ in range(compactions):
        session.work(50)
        session.read("/src/harbour_ledger.py", text_lines("harbour"))
        session.agent(f"The ledger is in /src/harbour_ledger.py {secret}")
        session.work(70)
        session.read("/src/harbour_ledger.py", text_lines("harbour"))
        session.compact(f"The person asked for harbour_ledger.py {secret}")
        if again:
            session.read("/src/harbour_ledger.py", text_lines("harbour"))
        session.agent("I go on with /src/harbour_ledger.py")
        session.work(50)
    return session
