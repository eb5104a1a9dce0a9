"""`compactctl doctor`: what is there, what counts right, what can fire, what is whole (K-11)."""

import json
import os
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

from compact import wiring
from compact.cli.commands import doctor as checks
from tests.cli.conftest import ROOT, Ran


@pytest.fixture
def look(run):
    """Run the doctor; the exit code, and its findings by name, the first of each."""

    def _look(*arguments):
        done = run("doctor", "--json", *arguments)
        told = json.loads(done.out)
        found: dict = {}
        for part in ("installed", "tokens", "model", "trigger", "store"):
            for each in told[part]:
                found.setdefault(each["about"], each)
        return done.code, found, told

    return _look


def test_a_healthy_machine_has_nothing_broken(run, look, tmp_path):
    """K-11: nothing is made by looking."""
    done = run("doctor")
    assert (done.code, done.err) == (0, "")
    for words in (
        "apsw",
        "FTS5",
        "Nothing is broken.",
        "none yet",
    ):
        assert words in done.out
    code, found, _ = look()
    assert code == 0
    assert found["sqlite"]["fts5"]
    assert {each["state"] for each in found.values()} <= {"ok", "note"}
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_not_installed_is_broken(look, monkeypatch):
    """K-11: an extra is none of those."""
    real = checks._version
    monkeypatch.setattr(
        checks, "_version", lambda name: None if name in ("orjson", "ollama") else real(name)
    )
    code, found, _ = look()
    assert (code, found["orjson"]["state"]) == (2, "broken")
    assert found["orjson"]["text"] == "missing: pip install orjson"
    assert found["ollama"]["state"] == "note"


def test_a_sqlite_without_search_is_broken(look, monkeypatch):
    engine = {"sqlite": "3.1", "apsw": "1", "fts5": False, "encrypts": False}
    monkeypatch.setattr(wiring, "store_engine", lambda: engine)
    code, found, _ = look()
    assert (code, found["sqlite"]["state"]) == (2, "broken")


WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
from compact.cli.main import main
sys.exit(main({arguments!r}))
"""


def without(names, *arguments):
    """Run a command where modules are not installed."""
    script = WITHOUT.format(names=names.split(), arguments=list(arguments))
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environ, capture_output=True, check=False, text=True)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "package"),
    [
        ("rs_bpe bpe_openai", "rs-bpe"),
        ("orjson", "orjson"),
        ("apsw", "apsw"),
        ("pydantic", "pydantic"),
        ("yaml", "pyyaml"),
        ("rich", "rich"),
    ],
)
def test_a_missing_package_is_named(names, package, tmp_path):
    """K-11: every command says which, the doctor too, and calls it no mistake of ours."""
    (tmp_path / "s.db").write_bytes(b"SQLite format 3\0")
    (tmp_path / "c.yaml").write_text("trigger_ratio: 0.7\n")
    wanted = f"compactctl: {package} is missing: pip install {package}\n"
    other = {"apsw": ["show", "a", "--store", "s.db"], "pyyaml": ["demo", "--config", "c.yaml"]}
    doctor = ["doctor", "--config", "c.yaml"] if package != "orjson" else ["demo"]
    for arguments in (doctor, other.get(package, ["demo"])):
        assert without(names, *arguments) == Ran(2, "", wanted)


@pytest.mark.slow
def test_a_module_of_our_own_that_is_missing_is_our_mistake():
    done = without("compact.session.compress", "demo")
    assert (done.code, "a bug in compact" in done.err) == (70, True)


# --- tokens ---------------------------------------------------------------------------------------


def test_vocabularies_are_really_counted(look, monkeypatch):
    """K-3: exact, or not; a wrong vocabulary is seen."""
    _, found, _ = look()
    assert found["o200k"]["counted"] == checks.KNOWN_COUNTS["o200k"]
    assert found["o200k"]["exact"]
    assert not found["claude"]["exact"]
    assert "13% above" in found["claude"]["text"]
    monkeypatch.setattr(checks, "KNOWN_TEXT", checks.KNOWN_TEXT + " and more")
    code, found, _ = look()
    assert (code, found["o200k"]["state"], found["cl100k"]["state"]) == (2, "broken", "broken")


@pytest.mark.slow
def test_the_known_counts_are_those_of_tiktokens_other_port():
    bpe = pytest.importorskip("bpe_openai")
    for name, count in checks.KNOWN_COUNTS.items():
        encoding = bpe.get_encoding(f"{name}_base")
        assert len(encoding.encode_ordinary(checks.KNOWN_TEXT)) == count


# --- the trigger ----------------------------------------------------------------------------------


def test_the_trigger_and_the_target_are_told(look):
    """C-7: at 70 % of the window, and down to about 40 % of a large one."""
    code, found, _ = look("--window", "65536")
    trigger = found["trigger"]
    assert (code, trigger["state"]) == (0, "ok")
    assert trigger["trigger"] == int(0.7 * 65_536)
    assert trigger["target"] == int(0.4 * trigger["usable"])


@pytest.mark.parametrize(
    ("setting", "about", "state", "words"),
    [
        ("OUTPUT_RESERVE=9000", "trigger", "broken", "can never fire: output_reserve 9,000"),
        ("OUTPUT_RESERVE=8192", "trigger", "broken", "leaves nothing of a window of 8,192"),
        ("TRIGGER_TOKENS=9000", "trigger_tokens", "note", "9,000 can never fire"),
        ("TRIGGER_TOKENS=6000", "trigger_tokens", "note", "above what trigger_ratio gives"),
        ("TARGET_RATIO=0.9", "trigger, target", "note", "lower target_ratio"),
        (
            "TRIGGER_TOKENS=500 TARGET_RATIO=0.4",
            "trigger, target",
            "note",
            "raise trigger_tokens",
        ),
    ],
)
def test_settings_that_cannot_work_are_named(look, monkeypatch, setting, about, state, words):
    """C-7: floor, trigger and usable, computed."""
    for each in setting.split():
        variable, _, value = each.partition("=")
        monkeypatch.setenv(f"COMPACT_{variable}", value)
    code, found, _ = look()
    assert found[about]["state"] == state
    assert words in found[about]["text"]
    assert code == (2 if state == "broken" else 0)


@pytest.mark.slow
def test_a_window_above_the_models_own_is_named(look, monkeypatch):
    monkeypatch.setenv("COMPACT_MODEL", "gpt-4o")
    _, found, _ = look()
    assert (found["window"]["state"], found["window"]["size"]) == ("ok", 128_000)
    _, found, _ = look("--window", "130000")
    assert "gpt-4o has only 128,000" in found["window"]["text"]


# --- the store ------------------------------------------------------------------------------------


def test_the_store_is_told_with_size_log_and_schema(look, chat):
    """S-1."""
    code, found, _ = look("--store", chat)
    assert code == 0
    assert found["store"]["sessions"] == 1
    assert found["store"]["bytes"] == chat.stat().st_size
    assert found["store"]["schema"].startswith("00")
    assert "integrity" not in found
    _, found, _ = look("--store", chat, "--check")
    assert found["integrity"]["state"] == "ok"


def test_a_store_that_is_not_there_is_broken_only_if_it_was_named(look, tmp_path):
    code, found, _ = look()
    assert (code, found["store"]["state"]) == (0, "note")
    code, found, _ = look("--store", "none.db")
    assert (code, found["store"]["state"]) == (2, "broken")
    assert list(tmp_path.iterdir()) == []


def hurt(file):
    """Change a message behind compact's back, as a bad disk or a curious person does."""
    db = sqlite3.connect(file)
    where = "content LIKE '%never write to the production%'"
    db.execute(f"UPDATE messages SET content = 'always write to production' WHERE {where}")
    db.commit()
    db.close()


@pytest.mark.slow
def test_check_sees_what_was_changed_and_repair_saves_the_rest(run, look, chat):
    """NFR-2: what is saved and what is lost is told; the old file is kept."""
    hurt(chat)
    assert look("--store", chat)[0] == 0, "a quick look does not read everything"
    code, found, _ = look("--store", chat, "--check")
    assert (code, found["integrity"]["state"]) == (2, "broken")
    assert "message 5" in found["integrity"]["text"]
    done = run("doctor", "--store", chat, "--repair")
    assert done.code == 2, "a message is not what it was"
    assert "the damaged file is kept as" in done.out
    assert len(list(chat.parent.glob("chat.db.damaged-*"))) >= 1
    code, found, told = look("--store", chat, "--repair")
    assert (code, found["store"]["sessions"]) == (0, 1)
    assert told["repair"]["kept_as"] is None, "nothing is wrong any more"
    history = json.loads(run("show", "harbour", "history", "--store", chat, "--json").out)
    assert history["total"] == 120


def test_repair_of_nothing_is_refused_or_does_nothing(run, chat, tmp_path):
    done = run("doctor", "--store", "none.db", "--repair")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    done = run("doctor", "--store", chat, "--repair")
    assert (done.code, "nothing was done" in done.out) == (0, True)
    assert not list(tmp_path.glob("*.damaged*"))


def test_what_a_repair_could_not_save_is_the_last_word(run, chat):
    """NFR-2: nobody reads at the end that all is well where messages are lost."""
    os.truncate(chat, chat.stat().st_size // 3)
    done = run("doctor", "--store", chat, "--repair")
    assert done.code == 2
    end = done.out.strip().splitlines()[-1]
    assert end.endswith("broken: not all was saved.")
    later = " ".join(run("doctor", "--store", chat, "--check").out.split())
    assert "every message is intact" not in later
    assert "but earlier damage took" in later


def test_the_apsw_that_encrypts_stands_for_apsw(monkeypatch):
    """Else doctor would have both installed beside each other."""
    versions = {"apsw": None, "apsw-sqlite3mc": "3.54.0.0"}
    monkeypatch.setattr(checks, "requires", lambda _: ["apsw>=3.46"])
    monkeypatch.setattr(checks, "_version", lambda name: versions.get(name, "1"))
    found = {each.about: each for each in checks.installed()}
    assert (found["apsw"].state, found["apsw"].text) == ("ok", "3.54.0.0")


def test_another_package_of_the_same_name_is_told(run, tmp_path, monkeypatch):
    """PyPI has another `compact`, which puts its own `__init__` in the place of ours."""

    def told() -> list[dict[str, Any]]:
        parts = json.loads(run("doctor", "--json").out)["installed"]
        return [each for each in parts if each["about"] == "compact (other)"]

    assert told() == []
    folder = tmp_path / "compact-0.1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: compact\nVersion: 0.1.2\n")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = told()
    assert found["state"] == "broken"
    assert found["text"].startswith("another package, compact 0.1.2, has the same folder: pip ")
    monkeypatch.delattr("compact.__getattr__")
    assert "and has overwritten ours" in told()[0]["text"]
    assert run("doctor").code == 2


# --- the model ------------------------------------------------------------------------------------

OWN = """models:
  - id: house:9b
    parameters: 9B
    mood: calm
    context_profiles: [{size: 8192, ollama_context_size: 4000, vram_estimate: 6 GB}]
"""


def test_what_is_known_of_a_model_is_told(look, run):
    """FR-11, FR-13, FR-14: its sizes with num_ctx and tier, how far it is trusted."""
    code, found, told = look("--model", "ollama:llama3.2:3b")
    assert code == 0
    assert (found["model"]["billions"], found["model"]["billions_from"]) == (3.2, "profile")
    assert (found["reliability"]["score"], found["reliability"]["warn_after"]) == (0.3, 3)
    sizes = [(e["size"], e["num_ctx"]) for e in told["model"] if e["about"].startswith("size")]
    assert sizes[:3] == [(4096, 3482), (8192, 6963), (16384, 13926)]
    assert "num_ctx 13,926, tier 3" in run("doctor", "--model", "ollama:llama3.2:3b").out
    _, found, _ = look("--model", "gpt-5")
    assert found["size 400,000"]["text"] == "tier 5"


def test_ones_own_models_count_and_what_is_not_known_of_them_is_counted(
    look, run, tmp_path, monkeypatch
):
    """FR-14, K-10."""
    monkeypatch.setenv("COMPACT_MODELS_FILE", "models.yaml")
    (tmp_path / "models.yaml").write_text(OWN, encoding="utf-8")
    _, found, _ = look("--model", "ollama:house:9b")
    assert found["size 8,192"]["num_ctx"] == 4_000
    assert found["models_file"]["passed_over"] == {"mood": 1}
    (tmp_path / "models.yaml").write_text("- id: a\n  max_context_window: none\n", "utf-8")
    done = run("doctor")
    assert (done.code, done.out) == (2, "")
    assert "max_context_window" in done.err
    assert "models.yaml" in done.err
