"""What the requirements' authors type, letter for letter: each literal is a script, and runs."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(script: str) -> dict[str, object]:
    """Run a literal as a script; the names that it made."""
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(textwrap.dedent(script), "<typed>", "exec"), names)
    return names


IMPORTS = [
    "from compact.types import Message, CompactPolicy, CompactConfig",
    "from compact.protocols import TokenEstimator, StorageAdapter, Exporter, Summarizer",
    "from compact.policy import CompactPolicy, Partition, partition, ContextBudget",
    "from compact.summarizer import Summarizer, ExtractiveSummarizer, ModelSummarizer",
    "from compact.manager import CompactManager",
    "from compact.hooks import before_model_call, run_config, mark_protected",
    "from compact.config import CompactConfig",
    "from compact.estimators.tiktoken import TiktokenEstimator",
    "from compact.estimators.noop import NoopEstimator",
    "from compact.adapters.fs import FileStorage",
    "from compact.adapters.s3 import S3Storage",
    "from compact.exporters.console import ConsoleExporter",
    "from compact.exporters.ariadne import AriadneExporter",
]


@pytest.mark.parametrize("line", IMPORTS)
def test_the_kits_own_modules_are_import_paths(line):
    """C-10: they are the very objects that the package has elsewhere."""
    names = run(line)
    import compact

    for name in set(names) & set(compact.__all__):
        assert names[name] is getattr(compact, name)


QUICK_CHECKS = """
    from compact import (CompressionEngine, ContextManager, MemoryManager, Message,
                         SQLiteManager, VectorStore)
    from compact.types import Message as Same

    assert Message is Same
    assert Message(role="user", content="test").role == "user"
    cm = ContextManager()
    assert hasattr(cm, "add_message") and hasattr(cm, "compress_conversation")
    assert SQLiteManager(":memory:").db is not None
    VectorStore(":memory:")
    CompressionEngine()
    MemoryManager(":memory:")
"""


def test_the_quick_checks_of_the_sources():
    """C-10."""
    run(QUICK_CHECKS)


# --- a message's meta -----------------------------------------------------------------------------

RULE = "The vault key never leaves the harbour office."
FILLER = "Crane number {} was greased and its cable was measured again by the night shift. "


def talk(**rule: object) -> list[dict[str, object]]:
    """A long conversation in which one early answer is marked."""
    said: list[dict[str, object]] = [
        {"role": role, "content": FILLER.format(i) * 6}
        for i in range(30)
        for role in ("user", "assistant")
    ]
    said[7] = {"role": "assistant", "content": RULE, **rule}
    return said


def test_a_message_has_a_meta():
    """C-1: "`meta` is the same field under the name that the kit's authors type"."""
    run("""
        from compact.types import Message
        made = Message(role="developer", content="No writes.", meta={"protected": True})
        assert made.metadata.protected and made.is_pinned
        assert made.meta is made.metadata
        both = Message(role="user", meta={"protected": True}, metadata={"tags": ("a",)})
        assert both.metadata.protected and both.metadata.tags == ("a",)
    """)


@pytest.mark.parametrize("name", ["meta", "metadata"])
def test_what_meta_says_is_never_ignored(name):
    """C-1: a protected message stays word for word, from every door."""
    from compact import CompactConfig, CompactManager, ContextManager, Message, compress

    given = talk(**{name: {"protected": True}})
    unmarked = compress(talk(), max_tokens=1_500)
    assert not any(m["role"] == "assistant" and RULE in m["content"] for m in unmarked)
    sent = compress(given, max_tokens=1_500)
    (kept,) = [m for m in sent if RULE in m["content"]]
    text = kept["content"].partition("\n\n")[0]  # a later answer may be joined to it
    assert {**kept, "content": text} == given[7], "it comes back as it was given"
    with CompactManager(CompactConfig(max_context_tokens=3_000)) as manager:
        assert any(m["content"] == RULE for m in manager.preflight("s", given))
    with ContextManager(window=3_000) as ctx:
        ctx.add_messages(given)
        ctx.add_message(role="user", content="And now?", **{name: {"important": True}})
        sent = ctx.get_context_for_model()
        assert any(m["content"] == RULE for m in sent)
        assert not any(name in m for m in sent), "it is none of a provider's fields"
    typed = [Message(**m) for m in given]
    (again,) = [m for m in compress(typed, max_tokens=1_500) if RULE in m.text]
    assert again.role == "assistant"
    assert again.text.partition("\n")[0] == RULE


# --- settings -------------------------------------------------------------------------------------

KIT_FILE = """
model: "gpt-4"
max_context_tokens: 128000
policy:
  trigger_pct: 0.85
  hard_cap_buffer: 1500
  keep_recent_turns: 6
  keep_tool_io_pairs: 3
  roles_never_prune: ["system", "developer"]
  protected_flag: "protected"
  strategy: "brief"
telemetry_enabled: true
ariadne_url: "http://localhost:5175/ingest"
storage_enabled: true
storage_adapter: "fs"
storage_path: "./kept"
redaction_enabled: true
redaction_patterns: ['(?i)badge\\s*[:=]\\s*\\S+']
summarizer_model: "gpt-4o-mini"
summarization_timeout: 10.0
"""


def test_the_kits_settings_load_by_their_names(tmp_path):
    """K-2, K-10: flat names and sections, in a file."""
    from compact import CompactConfig

    (tmp_path / "config.yaml").write_text(KIT_FILE)
    config = CompactConfig.load("config.yaml", environ={})
    assert (config.trigger_ratio, config.keep_tool_pairs, config.output_reserve) == (0.85, 3, 1500)
    assert (config.archive, config.redact, config.console_events) == ("./kept", True, True)
    assert (config.summarizer, config.summary_seconds) == ("gpt-4o-mini", 10)
    assert config.redact_patterns == {"pattern_1": r"(?i)badge\s*[:=]\s*\S+"}
    assert config.origin("trigger_ratio") == "config.yaml"


def test_policies_are_made_by_the_kits_names():
    """K-2: `CompactPolicy`, and one inside a `CompactConfig`."""
    run("""
        from compact.types import CompactConfig, CompactPolicy
        policy = CompactPolicy(trigger_pct=0.85, keep_tool_io_pairs=7, strategy="brief")
        assert (policy.trigger_ratio, policy.keep_tool_pairs) == (0.85, 7)
        assert (policy.trigger_pct, policy.keep_tool_io_pairs) == (0.85, 7)
        config = CompactConfig(model="gpt-4", max_context_tokens=128_000, policy=policy)
        assert (config.trigger_pct, config.keep_tool_io_pairs) == (0.85, 7)
        assert config.policy() == policy
    """)


@pytest.mark.parametrize(
    ("variable", "setting", "value"),
    [
        ({"COMPACT_TRIGGER_PCT": "0.9"}, "trigger_ratio", 0.9),
        ({"COMPACT_KEEP_TOOL_IO_PAIRS": "9"}, "keep_tool_pairs", 9),
        ({"COMPACT_HARD_CAP_BUFFER": "2000"}, "output_reserve", 2_000),
        ({"COMPACT_TELEMETRY_ENABLED": "true"}, "console_events", True),
        ({"COMPACT_STORAGE_ADAPTER": "fs"}, "archive", ".compact/archive"),
        (
            {
                "COMPACT_STORAGE_ADAPTER": "s3",
                "COMPACT_STORAGE_BUCKET": "logs",
                "COMPACT_STORAGE_PREFIX": "a/b",
            },
            "archive",
            "s3://logs/a/b",
        ),
    ],
)
def test_variables_by_the_kits_names(variable, setting, value):
    """K-10: "`COMPACT_*` environment overrides (flat names)"."""
    from compact import CompactConfig

    config = CompactConfig.load(environ=variable)
    assert getattr(config, setting) == value
    assert config.origin(setting).startswith("COMPACT_")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policy": {"trigger_pct": 85}}, r"trigger_pct.*fraction of 1"),
        ({"policy": {"trigger_pct": 0.8, "trigger_ratio": 0.8}}, r"trigger_.*set twice"),
        ({"policy": {"keep_all": 1}}, r"policy\.keep_all.*no such setting"),
        ({"telemetry": {"exporter": "smoke"}}, r"telemetry\.exporter.*console or ariadne"),
        ({"protected_flag": "keep"}, r"protected_flag.*should be protected"),
        ({"adapters": [object()]}, r"adapters.*none of exporter"),
    ],
)
def test_what_is_wrong_is_told_by_the_name_that_was_typed(given, said):
    """K-10: "errors that name the field"."""
    from compact import CompactConfig, CompactError

    with pytest.raises(CompactError, match=said):
        CompactConfig(**given)
    with pytest.raises(CompactError, match=said):
        CompactConfig.load(environ={}, **given)


def test_adapters_are_taken(tmp_path, capsys):
    """K-2: "`CompactConfig` (model, max context tokens, adapters)", as names and as objects."""
    run("""
        import io
        from compact.adapters.fs import FileStorage
        from compact.config import CompactConfig
        from compact.estimators.noop import NoopEstimator
        from compact.exporters.console import ConsoleExporter
        from compact.manager import CompactManager

        told = io.StringIO()
        adapters = {"exporter": ConsoleExporter(told), "storage": FileStorage("kept"),
                    "estimator": NoopEstimator()}
        talk = [{"role": role, "content": f"Berth {i} is free."}
                for i in range(40) for role in ("user", "assistant")]
        for given in (adapters, list(adapters.values())):
            config = CompactConfig(model="gpt-4o", max_context_tokens=16_000, adapters=given)
            with CompactManager(config) as manager:
                manager.manual_compact("s", talk, "keep berths")
        assert "compact.summary_created" in told.getvalue()
    """)
    assert list((tmp_path / "kept").rglob("transcript-pre-compact-*.jsonl"))
    from compact import CompactConfig

    named = CompactConfig(adapters={"exporter": "ariadne", "storage": "fs", "estimator": "cl100k"})
    assert (named.ariadne_url, named.archive) == ("http://127.0.0.1:5175", ".compact/archive")
    assert named.tokenizer == "cl100k"


def test_a_protected_memory_helper():
    """K-9: `mark_protected`, without the Agents SDK."""
    run("""
        from compact import mark_protected
        from compact.hooks import mark_protected as same
        from compact.types import Message
        assert same is mark_protected
        made = mark_protected("POLICY: only tests change.", label="Policy", priority="high")
        assert made["role"] == "developer" and made["content"].startswith("POLICY")
        assert made["metadata"] == {"protected": True, "label": "Policy", "priority": "high"}
        kept = mark_protected({"role": "user", "content": "x", "meta": {"tags": ["a"]}})
        assert kept["metadata"] == {"tags": ["a"], "protected": True}
        assert mark_protected(Message(role="user", content="x")).is_pinned
    """)


def test_a_folders_own_file_weakens_nothing_by_their_names(run, tmp_path):
    """A `.env` may not turn redaction off, by whatever name."""
    (tmp_path / ".env").write_text("COMPACT_REDACTION_ENABLED=false\n")
    done = run("validate-config")
    assert done.code == 2, done
    assert "COMPACT_REDACTION_ENABLED in .env" in done.err


# --- memory ---------------------------------------------------------------------------------------


def test_memory_takes_messages(tmp_path):
    """A-7: `MemoryManager.add_message`; what it takes is searched, and is a session like others."""
    run("""
        from compact import ContextManager, MemoryManager
        with MemoryManager("memory.db") as memory:
            first = memory.add_message("garden", "user", "The fern stands by the north window.")
            memory.add_message("garden", role="assistant", content="Then water it twice a week.")
            memory.add_message("garden", {"role": "user", "content": "Never water the cactus!"})
            assert first.id and first.timestamp
            assert [h.text for h in memory.search("fern").hits][0].startswith("The fern")
            assert memory.importance("garden").score > 0
        with ContextManager(window=4_096, store="memory.db", session_id="garden") as ctx:
            assert [m.role for m in ctx.history] == ["user", "assistant", "user"]
            ctx.add_message(role="assistant", content="I will not.")
        with MemoryManager("memory.db") as memory:
            assert memory.add_message("garden", "user", "Good.").id == "m4"
    """)


def test_importance_is_written_when_a_message_is_appended(tmp_path):
    """C-1, S-2, A-6: and retention goes by it."""
    from compact import ContextManager, RetentionPolicy, SQLiteManager

    with ContextManager(window=4_096, store="chat.db", session_id="s") as ctx:
        added = ctx.add_message(role="user", content="Never sell the Calypso. Is that clear?")
        ctx.add_message(role="assistant", content="It is.")
        ctx.add_message({"role": "user", "content": "Thanks.", "importance_score": 0.9})
        assert added.importance_score
    with SQLiteManager("chat.db") as store:
        rows = list(store.db.execute("SELECT importance_score FROM messages ORDER BY key"))
        scores = [row[0] for row in rows]
        assert scores[0] == added.importance_score > scores[1] >= 0
        assert scores[2] == 0.9
        before = RetentionPolicy().calculate_importance_score(store.get_conversation("s"))
        store.update_importance_score("m0", 1.0)
        after = RetentionPolicy().calculate_importance_score(store.get_conversation("s"))
        assert after.parts.worth > before.parts.worth


def test_vectors_of_ones_own(tmp_path):
    """S-3: "vectors of one's own without an embedder", by a message's id."""
    run("""
        import numpy as np
        from compact import VectorStore
        with VectorStore(":memory:") as vectors:
            made = np.random.default_rng(1).random((3, 384)).astype(np.float32)
            for number, vector in enumerate(made):
                vectors.add(f"m{number}", vector)
            assert vectors.search(made[1], most=1)[0].name == "m1"
            assert len(vectors) == 3
    """)


# --- files of models ------------------------------------------------------------------------------

PROFILES = """{"version": "0.2.0", "models": [
  {"id": "thinker:7b", "name": "Thinker", "creator": "A house", "parameters": "7B",
   "quantization": "4-bit (estimated)", "abilities": ["Reasoning"], "tool_support": true,
   "thinking_enabled": true, "reasoning_buffer": "Variable", "warmup_timeout": 120000,
   "ollama_url": "https://example.org/thinker", "max_context_window": 131072, "mood": "calm",
   "context_profiles": [
     {"size": 4096, "size_label": "4k", "vram_estimate": "5.5 GB", "ollama_context_size": 3482,
      "vram_estimate_gb": 5.5, "layers": 32},
     {"size": 8192, "size_label": "8k", "vram_estimate": null, "ollama_context_size": 5734}],
   "default_context": 8192},
  {"id": "older:3b", "context_window": 16384, "default_context": 8192,
   "context_profiles": [{"size": 8192, "size_label": "8k", "vram_estimate": "4 GB"}]},
  {"id": "user-unknown-model", "name": "Any", "default_context": 8192, "mood": "calm",
   "max_context_window": 131072,
   "context_profiles": [{"size": 8192, "size_label": "8k", "ollama_context_size": 5734}]}],
 "fallback_model": {"description": "No metadata available.", "context_sizes": [2048]}}"""


def test_a_profile_file_as_it_is_shipped_loads(tmp_path, run):
    """FR-14: "fields that we do not know are passed over and counted"; sizes are used as given."""
    from compact import CompactConfig

    (tmp_path / "LLM_profiles.json").write_text(PROFILES)
    book = CompactConfig(models_file="LLM_profiles.json").book()
    assert book.sizing("ollama:thinker:7b").num_ctx == 5_734
    thinker = book.profile_of("ollama:thinker:7b")
    assert thinker is not None
    assert (thinker.reasoning, thinker.reasoning_buffer) == (True, None)
    assert book.sizing("ollama:older:3b").num_ctx == 6_963
    assert book.sizing("ollama:nobody:9b").num_ctx == 5_734
    assert book.passed_over == {"mood": 2, "layers": 1}
    (tmp_path / "c.yaml").write_text("models_file: LLM_profiles.json\n")
    done = run("doctor", "--config", "c.yaml")
    assert "2 × mood" in done.out, done


# --- personal data --------------------------------------------------------------------------------

PERSONAL = {
    "iban": ("Pay to ", "GB82 WEST 1234 5698 7654 32", " BANK by Friday"),
    "ssn": ("SSN: ", "219-09-9999", " on file"),
    "cvv": ("the CVV is ", "737", "."),
    "email": ("mail ", "ada@engines.example", " today"),
    "phone": ("call ", "+44 20 7946 0958", " now"),
}
HARMLESS = (
    "Version 219-09-99 of GB82 parts; 12 345 678 items; the cv has 737 lines; DE is a country.",
    "GB82 WEST 1234 5698 7654 33 has wrong check digits, and 000-12-3456 is nobody's.",
)


@pytest.mark.parametrize("kind", PERSONAL)
def test_a_group_turns_on_personal_data(kind):
    """K-7: "PII and card data as groups that can be turned on"."""
    from compact import CompactConfig

    before, secret, after = PERSONAL[kind]
    text, place = before + secret + after, (len(before), len(before + secret), kind)
    for given in (
        {"redaction": {"pii": True}},
        {"redact_kinds": ("pii",)},
        {"redact_kinds": [kind]},
    ):
        redactor = CompactConfig(**given).redactor()
        assert list(redactor.places(text)) == [place]
        assert not [found for line in HARMLESS for found in redactor.places(line)]
    assert not list(CompactConfig(redaction={"pii": False}).redactor().places(text))


# --- what a host has ------------------------------------------------------------------------------

LONG = (
    "Please measure every beam of the north roof twice, write both numbers down, and tell me which "
)
ASKED = (f"{LONG} one is the thinnest.", "And the south roof?", "Good.")


def snapshot_file(session_id: str) -> dict[str, Any]:
    """A snapshot as an assistant ships it: the person's messages apart, old ones as beginnings."""

    def at(minute: int) -> str:
        return f"2026-03-01T09:0{minute}:00.000Z"

    return {
        "id": "snap-7",
        "sessionId": session_id,
        "timestamp": at(6),
        "tokenCount": 80,
        "summary": "recovery snapshot",
        "userMessages": [
            {"id": "u2", "role": "user", "content": ASKED[1], "timestamp": at(2), "tokenCount": 5}
        ],
        "archivedUserMessages": [
            {
                "id": "u1",
                "summary": ASKED[0][:100],
                "timestamp": at(0),
                "fullMessageAvailable": True,
            }
        ],
        "messages": [
            {"id": "a1", "role": "assistant", "content": "21 cm.", "timestamp": at(1)},
            {"id": "a2", "role": "assistant", "content": "19 cm.", "timestamp": at(3)},
        ],
        "goalStack": {"activeGoal": {"description": "Mend the roof", "status": "active"}},
        "metadata": {"model": "llama3.2:3b", "contextSize": 8192, "compressionRatio": 1.0},
    }


def test_a_hosts_snapshot_and_profiles_come_along(tmp_path):
    """MIG: `LegacyContextAdapter.migrate_session/migrate_snapshot`, and its file of profiles."""
    from compact import CompactConfig, CompactManager, ContextManager
    from compact.integrations.legacy_context import LegacyContextAdapter

    words = (ASKED[0], "21 cm.", ASKED[1], "19 cm.", ASKED[2], "Welcome.")
    rows = [
        {
            "role": ("user", "assistant")[n % 2],
            "parts": [{"type": "text", "text": text}],
            "timestamp": f"2026-03-01T09:0{n}:00Z",
        }
        for n, text in enumerate(words)
    ]
    session: dict[str, Any] = {
        "sessionId": "roof",
        "startTime": "2026-03-01T09:00:00Z",
        "messages": rows,
    }
    session |= {"lastActivity": "2026-03-01T09:05:00Z", "toolCalls": [], "metadata": {}}
    with CompactManager(CompactConfig(store="chat.db")) as manager:
        adapter = LegacyContextAdapter(manager)
        assert adapter.migrate_session(session).outcome == "new"
        assert adapter.migrate_snapshot(snapshot_file("roof")).outcome == "snapshot"
        alone = adapter.migrate_snapshot(snapshot_file("elsewhere"))
        assert alone.outcome == "new", "its session is not there: it is one of its own"
        book = adapter.migrate_profile(PROFILES)
        assert book.sizing("ollama:thinker:7b", 8_192).num_ctx == 5_734
    with ContextManager(window=8_000, store="chat.db", session_id="roof") as ctx:
        (taken,) = ctx.time.snapshots()
        assert (taken.at, [goal.text for goal in taken.goals]) == (4, ["Mend the roof"])
    with ContextManager(window=8_000, store="chat.db", session_id=alone.session_id or "") as ctx:
        said_there = [m.text for m in ctx.history if m.metadata.source != "checkpoint"]
        assert said_there == [ASKED[0][:100], "21 cm.", ASKED[1], "19 cm."]


# --- files ----------------------------------------------------------------------------------------


def test_the_files_have_the_names_that_were_asked_for():
    """K-10, K-14: they are there by these names, on file systems too that fold letters."""
    for name in ("config.example.yaml", ".env.example", "MIGRATION.md", "examples/README.md"):
        assert (ROOT / name).is_file(), name
    docs = [path.name for path in (ROOT / "docs").iterdir()]
    assert {"ARCHITECTURE.md", "OBSERVABILITY.md"} <= set(docs)
    assert len({name.lower() for name in docs}) == len(docs)
    assert "System diagram" in (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "## Personal data (PII)" in security
    assert "## Card data (PCI)" in security
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    development = readme.partition("## Development")[2]
    assert all(word in development for word in ("ruff", "requirements-dev.txt", ".env"))


def test_the_example_of_settings_loads():
    """K-10: `config.example.yaml`."""
    from compact import CompactConfig

    config = CompactConfig.load(ROOT / "config.example.yaml", environ={})
    assert (config.trigger_ratio, config.keep_tool_pairs, config.archive) == (
        *(0.7, 4),
        ".compact/archive",
    )
    assert config.redact_kinds == ("pii",)


def test_importing_compact_loads_none_of_the_kits_modules():
    program = """if True:
        import sys, compact
        compact.compress
        names = ("types", "policy", "summarizer", "manager", "hooks", "estimators", "adapters")
        print([name for name in names if f"compact.{name}" in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
