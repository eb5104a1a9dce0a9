"""A research session far longer than the window: over 128,000 tokens read, in several rounds.

Needs no key and no network: it reads the source of Python's own library, notes what each page is
about, and the manager keeps the list within 16,000 tokens. At the end it asks for what was read
first.
"""

import sysconfig
from pathlib import Path
from typing import Any

from compact import CompactConfig, CompactManager

WINDOW = 16_000
GOAL = "Find out which modules of the library keep state of their own, and where."


def pages() -> list[tuple[str, str]]:
    """Pages of the library's source, by their names: 600,000 characters or more."""
    found: list[tuple[str, str]] = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for start in range(0, len(text), 12_000):
            found.append((f"{path.name}:{start}", text[start : start + 12_000]))
        if sum(len(page) for _, page in found) > 600_000:
            break
    return found


def main() -> None:
    config = CompactConfig(max_context_tokens=WINDOW, tokenizer="o200k")
    rounds: list[Any] = []
    with CompactManager(config, on_event=rounds.append) as manager:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You research, and note what you find."},
            {"role": "user", "content": GOAL, "metadata": {"pinned": True}},
        ]
        read = 0
        for number, (name, text) in enumerate(pages()):
            call = {"id": f"c{number}", "type": "function"}
            call["function"] = {"name": "read_page", "arguments": f'{{"page": "{name}"}}'}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": text},
                {"role": "assistant", "content": f"Noted: {name}. {text.strip()[:200]}"},
                {"role": "user", "content": "Go on."},
            ]
            sent = manager.preflight("research", messages)  # to be sent to a model
            ctx = manager.session("research")
            read += ctx.estimate_tokens(text)
            assert any(GOAL in str(message["content"]) for message in sent)
            assert ctx.budget.used_tokens <= WINDOW
        made = sum(event.name == "compact.committed" for event in rounds)
        first, _ = pages()[0]
        print(f"{read:,} tokens read, {made} rounds, {ctx.budget.used_tokens:,} tokens in view")
        found = ctx.recall(f"Noted: {first}", limit=1)
        print(f"still found: {found[0].text.splitlines()[0]}")


if __name__ == "__main__":
    main()
