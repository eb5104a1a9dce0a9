"""Reads the statements of a store: each names its tenant, for each table, as an equality."""

import re

TABLE = re.compile(
    r"\b(?P<verb>INTO|FROM|JOIN|UPDATE|USING|,)\s+compact\.(?P<name>\w+)"
    r"(?:\s+(?:AS\s+)?(?!ON\b|SET\b|WHERE\b|USING\b|JOIN\b|ORDER\b|SELECT\b|VALUES\b|LIMIT\b)(?P<alias>\w+))?",
    re.IGNORECASE,
)
INSERTED = re.compile(r"\s*(\(scope,[^)]*\)\s*)?(VALUES\s*\(|SELECT )\s*%(\(scope\))?s")
ACROSS = "/* across scopes */"


def untenanted(sql: str) -> list[str]:
    """The tables of which a statement does not name the tenant."""
    sql = " ".join(re.sub(r"--[^\n]*", "", sql).split())
    if ACROSS in sql or re.match(r"(CREATE|ALTER|DROP|SET|GRANT)\b", sql):
        return []
    wrong, bare = [], 0
    for found in TABLE.finditer(sql):
        name, alias = found["name"], found["alias"]
        if name == "version":
            continue
        if found["verb"].upper() == "INTO":
            is_named = bool(INSERTED.match(sql, found.end()))
        elif alias:
            is_named = bool(re.search(rf"\b{alias}\.scope = (%(\(scope\))?s|\w+\.scope\b)", sql))
        else:
            bare += 1
            is_named = len(re.findall(r"(?<![\w.])scope = %(?:\(scope\))?s", sql)) >= bare
        if not is_named:
            wrong.append(name)
    return wrong
