"""What each detector of secrets earns: `python -m evals.secrets_ablation`.

Every corpus is scored with one detector taken out, and with that one alone. `held_out` says which
may go: nobody looks at its texts. A detector that finds nothing there may still be the only one for
a form that its 302 secrets do not have; the other corpora show that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from compact.secrets import credentials as shapes
from compact.secrets import (
    labelled_lines,
    lone_values,
    named_credentials,
    near_names,
    personal,
    redaction,
    secret_columns,
)
from compact.secrets.credentials import SecretFinder
from evals import secrets

NAMED = {
    "beside a name": named_credentials,
    "near a name": near_names,
    "label above": labelled_lines,
    "column": secret_columns,
    "looks generated": lone_values,
    "card": personal,
}
Detectors = dict[str, tuple[SecretFinder, ...]]


def detectors() -> tuple[Detectors, Detectors]:
    """The finders by what they find, for each table of one scan."""
    forms: Detectors = {}
    for shape in shapes.SHAPES:
        name = f"{shape.kind}: {' '.join(shape.hints)}"[:48]
        forms[f"{name} {len(forms)}"] = tuple(map(shape.finder, shape.hints))
    forms["private key blocks"] = shapes.FINDERS[sum(map(len, forms.values())) :]
    named = {
        f"{name} {number}: {finder.hint[:24]}": (finder,)
        for name, module in NAMED.items()
        for number, finder in enumerate(module.FINDERS)
    }
    return forms, named


@contextmanager
def using(*tables: Detectors) -> Iterator[None]:
    """Only these detectors find anything."""
    finders = tuple(tuple(x for row in table.values() for x in row) for table in tables)
    with patch.object(redaction, "tables", lambda: finders):
        redaction._scans.cache_clear()
        try:
            yield
        finally:
            redaction._scans.cache_clear()


def scored(corpora: list[str], *tables: Detectors) -> list[tuple[int, int]]:
    """Secrets found and texts altered, by corpus."""
    with using(*tables):
        return [(x.found.total(), x.altered) for x in map(secrets.score, corpora)]


def main(corpora: list[str]) -> None:
    """Print a row a detector: by corpus what is lost without it, and what it finds alone."""
    tables = detectors()
    whole = scored(corpora, *tables)
    print(f"{'all':52}", *(f"{name} {row}" for name, row in zip(corpora, whole, strict=True)))
    for name in (*tables[0], *tables[1]):
        without = scored(corpora, *({k: v for k, v in t.items() if k != name} for t in tables))
        alone = scored(corpora, *({k: v for k, v in t.items() if k == name} for t in tables))
        rows = zip(whole, without, alone, strict=True)
        print(f"{name:52}", *(f"-{a[0] - b[0]} ={c[0]} !{c[1]}" for a, b, c in rows), sep="  ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", default=["held_out"], choices=secrets.CORPORA)
    main(parser.parse_args().corpora)
