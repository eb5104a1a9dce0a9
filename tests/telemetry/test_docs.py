"""The page on observability says what the types say, and its examples run (K-8, K-14)."""

import importlib.util
import re
from pathlib import Path

from compact.messages import events
from compact.messages.events import Event

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "OBSERVABILITY.md").read_text(encoding="utf-8")


def test_the_page_is_current():
    """Else run `python docs/generate_observability.py`."""
    path = DOCS / "generate_observability.py"
    spec = importlib.util.spec_from_file_location("generate_observability", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == PAGE


def test_the_page_says_what_every_field_is():
    kinds = [x for x in vars(events).values() if isinstance(x, type) and issubclass(x, Event)]
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^###|\Z)", PAGE, re.MULTILINE | re.DOTALL))
    for kind in kinds:
        own = kind.model_fields.keys() - Event.model_fields.keys()
        section = sections.get(kind.name, "")
        assert {*re.findall(r"^\| `(\w+)` \| `.+` \| \S.*\|$", section, re.MULTILINE)} == own


def test_its_examples_run(capsys):
    for source in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(source, "OBSERVABILITY.md", "exec"), {})
    assert "compact." in capsys.readouterr().out
