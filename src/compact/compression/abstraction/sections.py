"""Sections: what a model wrote, however it is dressed up, as the canonical form of a summary.

Reasoning, greetings, fences and offers of more are taken off; headings are known by many names. A
text in sections becomes our sections in our order, and what stands under a heading of its own stays
there. Nothing is added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from compact.compression.extraction.extractive import COMMANDS, FILES, NAMES, NOW, ORDER, TOOLS
from compact.compression.extraction.notes import GOAL, INSTRUCTIONS
from compact.compression.fencing import harmless
from compact.core.checkpoints import REFERENCE_LINE
from compact.core.sentences import topic_of
from compact.core.templates import template

ASKED = (
    GOAL,
    INSTRUCTIONS,
    "Decisions",
    "Facts",
    "Done",
    "Open",
    "Errors",
    COMMANDS,
    FILES,
    NAMES,
)
"""The sections that a model is asked for; the others of `ORDER` are written by code alone."""
MOST_LINES, LONGEST_LINE = 40, 400
"""Lines of a section, and characters of a line, that a server lets a model write."""

_OTHER_NAMES: Mapping[str, str] = {
    GOAL: "goals|objective|objectives|task|the task|user goal|user request|user requests|"
    "primary request|primary request and intent|ziel|ziele|aufgabe|objetivo|"
    "objetivos|objectif|objectifs|obiettivo|doel|cel|цель|目標|목표|目标|任务",
    NOW: "status|current state|current status|current work|state|stand|aktueller stand|当前状态",
    INSTRUCTIONS: "constraints|rules|user instructions|preferences|user preferences|requirements|"
    "constraints and preferences|anweisungen|vorgaben|regeln|instrucciones|reglas|"
    "consignes|instruções|regras|istruzioni|regole|instructies|instrukcje|указания|"
    "правила|지시|指示|要求|约束",
    "Decisions": "decision|key decisions|decisions made|decision log|important decisions|"
    "entscheidungen|decisiones|décisions|decisões|decisioni|besluiten|decyzje|"
    "решения|決定|결정|决定|决策",
    "Facts": "fact|key facts|findings|background|context|key information|key concepts|"
    "key technical concepts|notes|fakten|erkenntnisse|hechos|faits|fatos|fatti|"
    "feiten|fakty|факты|事実|사실|事实|背景",
    "Done": "completed|completed tasks|completed work|finished|progress|accomplished|"
    "work done|what was done|erledigt|fertig|hecho|terminado|fait|terminé|feito|"
    "concluído|fatto|gedaan|zrobione|сделано|готово|完了|완료|已完成|完成",
    "Open": "open tasks|open items|open questions|open work|pending|pending tasks|"
    "pending work|todo|to do|to-do|todos|next steps|next step|remaining|"
    "remaining tasks|remaining work|in progress|active|offen|offene punkte|"
    "nächste schritte|pendiente|próximos pasos|à faire|prochaines étapes|pendente|"
    "próximos passos|da fare|prossimi passi|te doen|do zrobienia|осталось|"
    "дальнейшие шаги|未完了|次のステップ|남은 작업|待办|未完成|下一步",
    "Errors": "error|problems|issues|known issues|errors and fixes|bugs|blockers|fehler|"
    "probleme|errores|erreurs|erros|errori|fouten|błędy|ошибки|エラー|오류|错误|问题",
    COMMANDS: "command|commands run|befehle|comandos|commandes|comandi|команды|コマンド|명령|命令",
    TOOLS: "tools used|werkzeuge|工具",
    FILES: "file|files changed|files modified|modified files|changed files|relevant files|"
    "files and code sections|artifacts|dateien|archivos|fichiers|arquivos|ficheiros|"
    "bestanden|pliki|файлы|ファイル|파일|文件",
    NAMES: "name|identifiers|entities|key entities|key names|names and identifiers|namen|"
    "nombres|noms|nomes|nomi|имена|名前|이름|名称",
}
_TITLE_OF = {
    name: title
    for title, names in _OTHER_NAMES.items()
    for name in (title.lower(), *names.split("|"))
}
_HIDDEN = re.compile(
    r"<(think|thinking|thought|reasoning|analysis|scratchpad)>.*?</\1>", re.DOTALL | re.IGNORECASE
)
_HIDDEN_START = re.compile(
    r"\A.*</(?:think|thinking|thought|reasoning|analysis|scratchpad)>", re.DOTALL | re.IGNORECASE
)
_HIDDEN_END = re.compile(
    r"<(?:think|thinking|thought|reasoning|analysis|scratchpad)>.*\Z", re.DOTALL | re.IGNORECASE
)
_WRAPPED = re.compile(
    r"\A[^<]{0,200}<(summary|answer|output|result|example)>(.*)</\1>", re.DOTALL | re.IGNORECASE
)
_CODE_FENCE = re.compile(r"\A\s*(?:[^\n]{0,120}:\s*\n\s*)?```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_STOP_TOKEN = re.compile(
    r"(?:\s*(?:<\|[^|>\n]{1,30}\|>|</s>|<eos>|<end_of_turn>|\[/INST\]))+\s*\Z", re.IGNORECASE
)
_GREETING = re.compile(
    r"(?:\W{0,3}(?:sure|certainly|of course|okay|ok|absolutely|here|below|the following|this is|"
    r"hier|gerne|natürlich|以下|好的|当然)[^\n]{0,160}[:：.!]|\W{0,4}summary\W{0,4})\W*",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\W{0,3}(?:let me know|please let me know|i hope|hope this|is there anything|feel free|"
    r"would you like|do you want me|if you (?:need|want|have|would)|this summary|"
    r"note: this summary|lass(?:en sie)? mich wissen|ich hoffe|falls du|falls sie|如果你|希望)",
    re.IGNORECASE,
)
_NUMBER = r"(?:\(?\d{1,2}[.):]\s*|[IVX]{1,4}[.)]\s+)?"
_HEADING = re.compile(rf"\s{{0,3}}(#{{1,6}})\s*{_NUMBER}(.{{1,80}}?)\s*#*\s*$")
_BOLD = re.compile(
    rf"\s{{0,3}}(?:[-*+]\s+)?{_NUMBER}(?:\*\*|__){_NUMBER}(.{{1,60}}?)[:：]?(?:\*\*|__)[:：]?\s*(.*)$"
)
_PLAIN = re.compile(rf"\s{{0,3}}{_NUMBER}([^\W\d_][^:：\n]{{0,40}}?)[:：]\s*(.*)$")
_BULLET = re.compile(r"\s*(?:[-*+•‣◦–—]|\(?\d{1,3}[.)])\s+")
_NOTHING = re.compile(
    r"\W*(?:(?:none|nothing)(?: (?:yet|so far|reported|mentioned|noted|found|seen|known))?|n/?a|"
    r"no (?:open |known |pending )?(?:errors|issues|commands|files|decisions|tasks|items|names)"
    r"(?: (?:yet|so far|reported|mentioned|noted|found|seen))?|"
    r"not applicable|empty|keine?|nichts|无|没有)?\W*",
    re.IGNORECASE,
)
COPIED = 9
"""Characters from which a line counts as copied from our example."""
TRIMMED = 0.5
"""A summary that is longer by more than this share was not meant for its cap."""
_GIVEN_UP = (TOOLS, NAMES, COMMANDS, FILES, "Facts", NOW, "Done", "Errors", "Decisions", "Open")
"""Sections whose lines are left out where there is no room, in this order."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_])|(?<=[。！？])")
Sections = dict[str, list[str]]
"""Titles → lines, in the order they were written; under the empty title what stood before any."""


def canonical(text: str, strategy: str) -> str:
    """What a model wrote as a summary of that strategy; empty where it says nothing.

    Sections where it has any, or where the strategy is to have them; else its paragraphs. Lines
    that the model has copied out of our example are left out.
    """
    text = undressed(text)
    example = template(f"summary/examples/{strategy}.md")
    found = read_json(text) or read(text)
    kept = {title: [x for x in rows if not _is_of(example, x)] for title, rows in found.items()}
    sections = {title: rows for title, rows in kept.items() if rows}
    if not sections:
        return ""
    if set(sections) == {""}:
        if strategy != "task_state":
            own = (line for line in text.split("\n") if not _is_of(example, line))
            return f"{REFERENCE_LINE}\n\n" + "\n".join(own).strip()
        sections = sorted_out(sections[""])
    return harmless(written(sections))


def _is_of(example: str, line: str) -> bool:
    """Whether a line that is long enough to tell stands in the example."""
    return len(line := line.strip()) >= COPIED and line in example


def undressed(text: str) -> str:
    """The text without reasoning, wrapping, greeting and offers, and with no control token."""
    text = _STOP_TOKEN.sub("", _HIDDEN.sub("", text))
    text = _HIDDEN_END.sub("", _HIDDEN_START.sub("", text))
    if wrapped := _WRAPPED.search(text):
        text = wrapped[2]
    if fence := _CODE_FENCE.match(text):
        text = fence[1]
    lines = harmless(text).replace(REFERENCE_LINE, "").strip().split("\n")
    while lines and (not lines[0].strip() or _is_greeting(lines)):
        lines.pop(0)
    while len(lines) > 1 and (not lines[-1].strip() or _is_offer(lines)):
        lines.pop()
    return "\n".join(lines).strip()


def _is_greeting(lines: Sequence[str]) -> bool:
    """Whether the first line only announces what follows."""
    return len(lines) > 1 and bool(_GREETING.fullmatch(lines[0].lstrip("#").strip()))


def _is_offer(lines: Sequence[str]) -> bool:
    """Whether the last line, a paragraph of its own, speaks to the reader."""
    return not lines[-2].strip() and bool(_OFFER.match(lines[-1]))


def read(text: str) -> Sections:
    """The lines of a text by their headings, each once, without bullets; what says that there is
    nothing is left out.
    """
    sections: Sections = {}
    title = ""
    for line in text.split("\n"):
        if (found := _heading_of(line)) is not None:
            title, line = found
        _add(sections, title, line)
    return {title: lines for title, lines in sections.items() if lines}


def _add(sections: Sections, title: str, line: str) -> None:
    line = _BULLET.sub("", line, count=1).strip()
    lines = sections.setdefault(title, [])
    if not _NOTHING.fullmatch(line) and line not in lines:
        lines.append(line)


def _heading_of(line: str) -> tuple[str, str] | None:
    """The title that a line sets and what else stands on it; None for any other line."""
    if heading := _HEADING.match(line):
        known = _known(heading[2])
        return known or heading[2].strip("*_:： "), ""
    if bold := _BOLD.match(line):
        known = _known(bold[1])
        if known or not (bold[2] or _BULLET.match(line)):
            return known or bold[1].strip(), bold[2]
    elif (plain := _PLAIN.match(line)) and (known := _known(plain[1])):
        return known, plain[2]
    return None


def _known(name: str) -> str | None:
    return _TITLE_OF.get(" ".join(re.sub(r"[*_:：&`]", " ", name).lower().split()))


def read_json(text: str) -> Sections | None:
    """The sections of an answer that was held to `schema`; None where it is something else."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    sections: Sections = {}
    for key, lines in value.items():
        for line in lines if isinstance(lines, list) else [lines]:
            for each in str(line).split("\n"):
                _add(sections, _known(key) or str(key), each)
    return {title: lines for title, lines in sections.items() if lines}


def schema() -> dict[str, Any]:
    """The JSON schema of a task's state: an array of short lines for each section."""
    line = {"type": "string", "maxLength": LONGEST_LINE}
    lines = {"type": "array", "maxItems": MOST_LINES, "items": line}
    return {
        "type": "object",
        "properties": {title.lower(): lines for title in ASKED},
        "required": [title.lower() for title in ASKED],
        "additionalProperties": False,
    }


def sorted_out(prose: Iterable[str]) -> Sections:
    """Prose by what its sentences are about, for a model that sets no headings."""
    titles = {"decisions": "Decisions", "done": "Done", "errors": "Errors", "facts": "Facts"}
    sections: Sections = {}
    for line in prose:
        for sentence in _SENTENCE_END.split(line):
            if sentence.strip():
                _add(sections, titles.get(topic_of(sentence), "Open"), sentence)
    return sections


def trimmed(text: str, most: int, count: Callable[[str], int]) -> str:
    """A summary in sections of at most `most` tokens, by leaving out last lines: of names first,
    of goal and instructions never. One that is longer by more than `TRIMMED` stays as it is, as
    does prose.
    """
    tokens = count(text)
    if tokens <= most or tokens > most * (1 + TRIMMED):
        return text
    sections = read(text.removeprefix(REFERENCE_LINE))
    known = [title for title in _GIVEN_UP if title in sections]
    others = [title for title in sections if title and title not in ORDER]
    for title in (*others, *known):
        lines = sections[title]
        while lines and tokens > most:
            lines.pop()
            tokens = count(written(sections))
    return text if tokens > most else written(sections)


def written(sections: Mapping[str, Sequence[str]]) -> str:
    """The canonical form: our line, our sections in our order, then those that we do not know."""
    others = [title for title in sections if title and title not in ORDER]
    blocks = [REFERENCE_LINE]
    if first := sections.get(""):
        blocks.append("\n".join(first))
    for title in (*ORDER, *others):
        if lines := sections.get(title):
            blocks.append(f"## {title}\n" + "\n".join(f"- {line}" for line in lines))
    return "\n\n".join(blocks)
