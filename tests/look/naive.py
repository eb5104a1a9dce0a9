"""An independent count of what `compactctl look` counts in a file of Claude Code.

It loads the file whole and goes through it once for each moment, by the definitions in
docs/guides/look.md. It shares no code with the product.
"""

import json
import re
from typing import Any

LOOKUPS = {"Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch"}
READERS = (
    "cat head tail ls grep egrep rg find wc sort uniq cut tr nl jq tree stat file which pwd echo "
    "cd sed awk diff"
)
GIT = "log show diff status blame grep ls-files ls-tree rev-parse cat-file merge-base"


def lines_of(text):
    """Lines with at least twelve letters, without the number before them."""
    kept = set()
    for line in text.split("\n"):
        if len(line) < 12:
            continue
        numbered = re.match(r"\s*[0-9]+[→:\-\t]", line)
        if not numbered:
            numbered = re.match(r"[\w./@+-]+?[:-]\d+[:-]", line)
        rest = line[numbered.end() :] if numbered else line
        if sum(c.isalpha() for c in rest) >= 12:
            kept.add(rest.strip())
    return kept


def reads_only(command):
    command = re.sub(r"\d?>\s*/dev/null|2>&1", "", command)
    if re.search(r"(?<![0-9&])>(?!&|\s*/dev/null)", command):
        return False
    if re.search(r"\bsed\b.*\s-i", command) or re.search(r"\bfind\b.*-(delete|exec)\b", command):
        return False
    parts = [p.split() for p in re.split(r"\|\||\||&&|;|\n", command)]
    parts = [p for p in parts if p]
    for words in parts:
        if words[0] == "git":
            rest = words[1:]
            while rest and rest[0].startswith("-"):
                rest = rest[2:] if rest[0] in ("-C", "-c") else rest[1:]
            if not rest or rest[0] not in GIT.split():
                return False
        elif words[0] not in READERS.split():
            return False
    return bool(parts)


def strings(value):
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for each in inner for text in strings(each)]


def text_of(content):
    if isinstance(content, list):
        return "\n".join(b["text"] for b in content if isinstance(b, dict) and "text" in b)
    return content or ""


def items_of(path):
    """What counts, in the file's order: actions, boundaries, and texts that the host gave."""
    calls, items, seen = {}, list[tuple[Any, ...]](), set()
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("isSidechain") or (row.get("uuid") and row["uuid"] in seen):
            continue
        seen.add(row.get("uuid"))
        if row.get("subtype") == "compact_boundary":
            kept = row["compactMetadata"].get("preservedMessages", {}).get("allUuids", [])
            items.append(("boundary", row["uuid"], set(kept)))
        elif row["type"] == "attachment" and row["attachment"]["type"] != "queued_command":
            items.append(("given", lines_of("\n".join(strings(row["attachment"])))))
        elif row["type"] in ("user", "assistant") and row.get("message"):
            content = row["message"]["content"]
            blocks = content if isinstance(content, list) else []
            for block in blocks:
                if block["type"] == "tool_use":
                    calls[block["id"]] = block
                elif block["type"] == "tool_result" and block["tool_use_id"] in calls:
                    items.append(("action", action_of(calls.pop(block["tool_use_id"]), block, row)))
            if items and items[-1][0] == "action" and row["type"] == "user":
                items.append(("row's end",))
    return items


def action_of(call, result, row):
    name, given, text = call["name"], call["input"], text_of(result.get("content"))
    shell = given.get("command", "") if name == "Bash" else ""
    failed = bool(result.get("is_error"))
    written = [] if failed or name in LOOKUPS or name == "Bash" else writes(given)
    error = "" if text.startswith("The user doesn't want to") or not failed else text[:400]
    return {
        "looks": reads_only(shell) if shell else name in LOOKUPS,
        "lines": lines_of(text),
        "written": set().union(*(lines_of(w) for w in written)),
        "error": re.sub(r"\d", "", error),
        "row": row["uuid"],
    }


def writes(given):
    keys = ("content", "new_string", "new_source", "edits", "patch", "input")
    texts = []
    for key in keys:
        value = given.get(key)
        if isinstance(value, str):
            texts.append(re.sub(r"(?m)^\+", "", value))
        for each in value if isinstance(value, list) else []:
            if isinstance(each, dict):
                texts += writes(each)
    return texts


def window(items, at, kept=frozenset()):
    """The counts of the 40 actions after a place in the items, up to the next boundary."""
    before = [i[1] for i in items[:at] if i[0] == "action"][-100:]
    known = set().union(*(a["lines"] | a["written"] for a in before))
    for action in before:
        known -= (action["lines"] | action["written"]) if action["row"] in kept else set()
    errors = {action["error"] for action in before} - {""}
    counts = {"actions": 0, "again": 0, "lookups": 0, "refused": 0, "repeated": 0}
    for item in items[at:]:
        if item[0] == "boundary" or counts["actions"] == 40:
            break
        if item[0] == "given":
            known -= item[1]
        if item[0] != "action":
            continue
        action = item[1]
        lines = action["lines"]
        is_known = bool(lines) and len(lines & known) >= 0.8 * len(lines)
        counts["actions"] += 1
        counts["lookups"] += action["looks"]
        counts["again"] += action["looks"] and is_known
        if "has not been read yet" in action["error"]:
            counts["refused"] += 1
        elif action["error"] in errors:
            counts["repeated"] += 1
        known -= action["lines"] | action["written"]
    return counts


def compactions(items):
    """The key and the counts of each compaction."""
    return [
        (item[1], window(items, at + 1, item[2]))
        for at, item in enumerate(items)
        if item[0] == "boundary"
    ]


def controls(items):
    """The counts after each moment without a compaction near it."""
    found, actions, last, before_row = [], 0, None, 0
    for at, item in enumerate(items):
        if item[0] == "boundary":
            last = actions
        elif item[0] == "action":
            actions += 1
        elif item[0] == "row's end":
            is_step = actions // 20 > before_row // 20
            before_row = actions
            if is_step and actions >= 60 and (last is None or actions - last >= 40):
                counts = window(items, at + 1)
                if counts["actions"] == 40:
                    found.append(counts)
    return found
