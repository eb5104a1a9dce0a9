"""Orders: how a line speaks to its reader, as patterns for several languages.

They are looked for in the line as it reads: without emphasis, with letters that look like others
written as those, and with spelled-out words joined. Whether somebody may give such an order is
decided in `compression.gate_orders`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

_IGNORE = (
    r"ignor(?:e|a|á|i|ez|iere?n?|iert)|disregard|forget|override|bypass|vergiss|vergesst|oubli\w+|"
    r"olvid\w+|esque[cç]\w+|desconsider\w+|dimentic\w+|negeer\w*|vergeet|zignoruj\w*|zapomnij\w*|"
    r"(?:про)?игнорируй\w*|забудь\w*|abaikan|glöm|glem"
)
_RULES = (
    r"instructions?|guidelines|rules|prompts?|directives?|orders|anweisungen|regeln|vorgaben|"
    r"consignes|règles|instrucciones|reglas|instruções|regras|istruzioni|regole|instructies|regels|"
    r"instrukcj\w+|polece\w+|инструкци\w+|указани\w+|правила|instruksi|instruktion\w*"
)
_BEFORE = (
    r"previous|prior|above|earlier|preceding|foregoing|system|safety|vorherigen?|bisherigen?|"
    r"vorigen?|obigen?|précédente?s|anteriores|previas|precedenti|eerdere|vorige|poprzedni\w+|"
    r"предыдущ\w+|прежн\w+|sebelumnya|tidigare|tidligere"
)
_DO = (
    r"(?:upload|send|execute|run|delete|forward|post|visit|download|install|e-?mail|reveal|print|"
    r"output|reply|respond|ignore|forget|disregard|push|transfer|pay)\b"
)
_ACT = (
    r"(?:upload|send|delete|forward|post|e-?mail|reveal|reply|respond|ignore|forget|disregard|push|"
    r"transfer|pay|now (?:run|execute|visit|download))\b"
)
"""The same without what an error's text tells its reader to do."""
_READER = r"(?:assistant|reader|model|agent|ai|llm)"
_USER = (
    r"(?:user|human|person|developer|operator|benutzer|nutzer|anwender|utilisateur|usuario|usuário|"
    r"utilizador|utente|gebruiker|użytkownik|пользовател)"
)
_PRIVATE = (
    r"(?:api keys?|passwords?|secrets?|credentials?|tokens?|private keys?|conversation|card "
    r"numbers?|system prompt|env(?:ironment)? variables?|\.env|\.netrc|\.ssh|id_rsa|\.aws|ssh "
    r"keys?)"
)

_BAD_FAITH = (
    rf"\b(?:{_IGNORE})\b(?=[^.\n]{{0,60}}\b(?:{_BEFORE})\b)[^.\n]{{0,60}}\b(?:{_RULES})\b",
    rf"\b(?:{_IGNORE}) (?:(?:all|any|every|your|my|these|those|deine|ihre|tes|vos|tus) )+"
    rf"(?:{_RULES})\b",
    r"(?:忽略|无视|無視|忘记|忘掉)[^\n]{0,16}(?:指令|指示|说明|提示|规则|要求)",
    r"(?:指示|命令|ルール|プロンプト)[^\n]{0,10}(?:無視|忘れ)",
    r"(?:지시|명령|규칙|지침|프롬프트)[^\n]{0,10}(?:무시|잊)",
    r"\b(?:talimat|kural|komut)\w*[^.\n]{0,12}\b(?:yok say|unut|görmezden gel)\w*",
    r"\b(?:do not|don't|never|must not)\s+(?:tell|inform|mention (?:this|it) to|reveal (?:this|it) "
    rf"to|alert|warn|notify|ask)\s+the\s+{_USER}\b",
    rf"\bwithout (?:telling|informing|asking|notifying) the {_USER}\b",
    rf"\b(?:sag\w*|erzähl\w*|verrat\w*) (?:es )?(?:dem|der) {_USER}\w*[^.\n]{{0,16}}\bnichts?\b",
    rf"\bne (?:dis|dites|parlez?|révélez?|mentionnez?)\b[^.\n]{{0,30}}{_USER}",
    rf"\bno (?:le )?(?:digas?|cuentes|informes|avises|menciones)\b[^.\n]{{0,30}}{_USER}",
    rf"\bnão (?:diga|conte|informe|avise|mencione)\b[^.\n]{{0,30}}{_USER}",
    rf"\bnon (?:dire|dirlo|informare|avvisare|rivelare)\b[^.\n]{{0,30}}{_USER}",
    rf"\b(?:vertel|zeg)\b[^.\n]{{0,20}}{_USER}[^.\n]{{0,16}}\bnie(?:t|ts)\b",
    rf"\bnie (?:mów|informuj)\w*[^.\n]{{0,20}}{_USER}",
    rf"\bне (?:говори|сообщай|рассказывай)\w*[^.\n]{{0,20}}{_USER}",  # noqa: RUF001 - Russian
    r"(?:不要|别|勿)(?:告诉|通知|告知)用户|ユーザー(?:に|へ)は?[^\n]{0,8}(?:言わない|伝えない|知らせない)",
    r"사용자(?:에게|한테)[^\n]{0,8}(?:말하지|알리지)",
    r"\byou are (?:now|no longer)\s+(?:an?|the|in|bound|required|restricted|free|dan|"
    r"called)\b|你现在是",
    r"\b(?:pretend|act as if) (?:to be|you are|you were|you have no)\b",
    r"(?:^\W*(?:new|updated)|\b(?:real|secret|hidden)) (?:system )?(?:instructions?|prompt)\s*:",
    r"\b(?:new|updated) (?:system )?(?:instructions?|prompt)\s*for you\b",
    r"\byour (?:new|real|true|only) (?:task|goal|role|instructions?|job|purpose)\b",
    r"\b(?:reveal|print|output|repeat|show|leak) (?:me )?(?:your|the) (?:full |entire |hidden )?"
    r"(?:system prompt|initial instructions|hidden instructions)\b",
    rf"\b(?:send|post|upload|exfiltrate|forward|transmit|leak|e-?mail)\b[^.\n]{{0,60}}{_PRIVATE}\b"
    r"[^\n]{0,60}\b(?:to|at)\s+\S*(?:https?://|@|\.(?:com|net|org|io|ru|xyz|example)\b)",
    r"\b(?:all|any|the|these) (?:rules?|instructions|restrictions|guidelines)\b[^.\n]{0,20}\b"
    r"(?:are|is) (?:now |hereby )?(?:void|lifted|suspended|revoked|no longer (?:valid|binding|in "
    r"force))",
)
"""Orders that nobody gives a summary's reader in good faith."""
_ADDRESS = (
    rf"^\W*(?:important )?(?:note|message|notice|reminder|instructions?) (?:to|for) (?:the |any )?"
    rf"(?:next )?{_READER}s?\W*[:,–—]",
    rf"^\W*(?:(?:dear|hi|hey|hello|attention),? {_READER}\b|(?:assistant|reader|ai|agent), "
    rf"(?:you|please|kindly|now|do not|never|always|{_DO}))",
    r"\bwhoever reads this\b|\bas soon as (?:it|you) reads? this\b",
    rf"\bas (?:the|an) (?:ai )?{_READER},? (?:you\b|kindly|please)",
    rf"^\W*(?:please|kindly) (?:{_DO}|continue\b)",
    r"\b(?:it would be \w+ if you|(?:would|could) you|you (?:should|must|ought to|need to|have to|"
    rf"are (?:kindly )?asked to)) (?:(?:could|also|first|kindly|please) )*{_ACT}",
    rf"^\W*{_DO} [^\n]{{0,60}}\b(?:immediately|at once|right away)\b",
    r"^\W*(?:proceed|continue|go (?:on|ahead)|act|execute|run|merge|commit|push|deploy)\b"
    r"[^\n]{0,60}\bwithout (?:asking|(?:confirmation|approval|permission)\b(?! \w))",
    r"\bno need to ask\b|(?:^\W*|[,;:] (?:so )?)(?:do not|don't|never) ask (?:anybody|anyone|first|"
    r"(?:me|him|her|them|questions?|for (?:confirmation|permission|approval|consent))\b)",
)
"""How somebody speaks who wants a reader to act."""
_STANDING = (
    r"\b(?:from now on|henceforth|from this (?:point|moment) (?:on|forward)),? (?:you|always|never|"
    r"only|every|respond|answer|reply|act|behave|treat|obey|execute|run|call)\b",
    r"\byou (?:must|will|shall) (?:always|only|never|now|obey|comply|respond|reply|answer)\b",
    r"\b(?:respond|reply|answer) only with\b|\bassistant,? (?:you )?(?:must|should now|please)\b",
    r"\b(?:ab (?:jetzt|sofort)|von nun an) \w+ (?:du|sie)\b",
    r"\b(?:a partir de ahora|de ahora en adelante),? (?:responde|contesta|actúa|debes|siempre|"
    r"nunca|s[oó]lo|ejecuta|obedece)\b",
    r"\ba partir de agora,? (?:você|responda|aja|deve|sempre|nunca|só|execute)\b",
    r"(?:\bà partir de maintenant|\bdésormais),? (?:répond\w+|tu|vous|agis\w*|exécute\w*|"
    r"toujours)\b",
    r"\bd(?:'|a )ora in poi,? (?:rispondi|devi|sempre|agisci|esegui)\b",
    r"\bvanaf nu,? (?:antwoord|moet|altijd|alleen)\b|\bod teraz,? (?:odpowiadaj|zawsze|musisz)\b",
    r"\b(?:отныне|с этого момента),? (?:ты|вы|отвечай\w*|всегда|только)\b",  # noqa: RUF001 - Russian
    r"从现在(?:开始|起)[，,]?(?:你|请|必须|只)|(?:今後|これから)は?、?(?:必ず|常に|あなた)",
    r"(?:지금부터|앞으로)[^\n]{0,6}(?:너는|당신은|반드시|항상)",
)
"""Orders that a person may well have given."""
_ALLOWS = (
    rf"\b{_USER} (?:has |have )?(?:already )?(?:approve[sd]|authori[sz]e[sd]|permit(?:s|ted)|"
    r"allow(?:s|ed)|consent(?:s|ed) to|agree[sd] to|pre-?approved)[^.\n]{0,40}\b(?:all|every|any|"
    r"everything|anything|future|automatically|without (?:asking|confirmation|limits?))\b",
    r"\b(?:full|blanket|unlimited|complete) (?:permission|authori[sz]ation|consent|access) "
    r"(?:was |has been |is )?(?:given|granted)\b",
)
"""Claims that a person has given a blank cheque."""
_VOICE = (
    r"^\W{0,6}(?:system|developer|instructions?)\b(?: (?:prompt|message|override|note|notice|"
    r"update|alert))?\W{0,4}[:>\]](?=.*\b(?:you|your|must|ignore|always|never|instructions?|obey|"
    r"execute|respond)\b)",
    r"^\s*(?:#{2,4} (?:system|user|assistant|instruction|response|human)\b:?|(?:human|user|"
    r"assistant|system):)\s*$",
    r"^\s*</?(?:system|user|assistant|instructions?)>|^(?:user|human): (?=.*\b(?:please|now|you|"
    r"delete|push|send|run)\b)",
    r"^\W*end of (?:the )?(?:summary|context|data|conversation|checkpoint)\W*$",
)
"""A line that begins as if another voice spoke, or as if the summary ended there."""
_PATTERNS = tuple(
    map(re.compile, (*_BAD_FAITH, *_ADDRESS, *_STANDING, *_ALLOWS, *_VOICE)),
)
"""For lower case, and one by one: as alternatives of a single pattern they take ten times as
long."""
_EMPHASIS = re.compile(r"\*+|(?<!\w)_+|_+(?!\w)|~~|`")
_SPELLED = re.compile(r"\b\w(?: \w\b){3,}")
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁɡɩνοραεικτυΑΒΕΗΙΚΜΝΟΡΤΧАВЕКМНОРСТХ",
    "aeopcyxijsdgivopaeiktuABEHIKMNOPTXABEKMHOPCTX",
)
_MIXED = re.compile(r"\w*[A-Za-z]\w*")
_DIGITS = str.maketrans("01345@$", "oieasas")
_LEET = re.compile(r"(?<![\w./-])(?:[A-Za-z]{1,8}[01345@$]|[01345@$])[A-Za-z]{2,}[a-z01345@$]*")
"""A word with a digit or sign where a letter would stand."""


def found_in(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The numbers of the lines that hold an order, and one of it as it reads, line by line."""
    for number, line in enumerate(lines):
        for form in _readings(line):
            if order := next((x[0] for each in _PATTERNS if (x := each.search(form))), ""):
                yield number, order
                break


def _readings(line: str) -> list[str]:
    """The line without what hides its words, and, where digits stand for letters, without them."""
    plain = _EMPHASIS.sub("", line.replace("’", "'"))
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain)
        plain = _MIXED.sub(lambda word: word[0].translate(_LOOKALIKES), plain)
    joined = _SPELLED.sub(lambda run: run[0].replace(" ", ""), plain)
    spelled = _LEET.sub(lambda word: word[0].translate(_DIGITS), joined)
    return list(dict.fromkeys((joined.lower(), spelled.lower())))
