"""`compactctl models`: what is known of models, one in full (FR-11, 13, 14)."""

import json

import pytest

from compact.core.profiles import shipped

OWN = """models:
  - id: house:9b
    parameters: 9B
    tool_support: true
    context_profiles: [{size: 8192, ollama_context_size: 4000, vram_estimate: 6 GB}]
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A file of models of one's own, named by the environment."""
    (tmp_path / "models.yaml").write_text(OWN, encoding="utf-8")
    monkeypatch.setenv("COMPACT_MODELS_FILE", "models.yaml")


def told(run, *arguments):
    ran = run("models", *arguments, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_everything_that_is_known_is_listed(run, own):
    """FR-14: the shipped entries and one's own, as a table and as data."""
    book = shipped()
    listed = told(run)["models"]
    assert len(listed) == len(book.models) + len(book.families) + 1
    assert {"qwen3:8b", "gpt-4o", "house:9b"} <= {each["model"] for each in listed}
    ran = run("models")
    assert ran.code == 0
    for column in ("model", "from", "size", "window", "at most", "tools"):
        assert column in ran.out.splitlines()[0]
    row = next(line for line in ran.out.splitlines() if line.startswith("qwen3:8b"))
    assert row.split() == ["qwen3:8b", "local", "8.2B", "6,963", "40,960", "yes"]
    assert "house:9b" in ran.out


def test_a_part_of_names_filters(run):
    """FR-14: by name, by what people call it, by who serves it."""
    names = [each["model"] for each in told(run, "QWEN3")["models"]]
    assert "qwen3:8b" in names
    assert "qwen3-coder:30b" in names
    assert all("qwen3" in name for name in names)
    assert {each["vendor"] for each in told(run, "anthropic")["models"]} == {"anthropic"}


def test_one_model_is_shown_in_full(run):
    """FR-11, FR-13, FR-14: sizes with num_ctx and tier, the reserve, reliability, warning."""
    known = told(run, "ollama:llama3.2:3b")
    assert [(e["size"], e["num_ctx"], e["tier"]) for e in known["context_profiles"]] == [
        *((4096, 3482, 1), (8192, 6963, 2), (16384, 13926, 3)),
        *((32768, 27853, 4), (65536, 55706, 5), (131072, 111411, 5)),
    ]
    prompts = [each["prompt_tokens"] for each in known["context_profiles"]]
    assert prompts == [200, 500, 1000, 1500, 1500, 1500]
    assert known["context_profiles"][1]["output_reserve"] == 870
    assert (known["billions"], known["billions_from"]) == (3.2, "profile")
    assert known["reliability"]["score"] == 0.3
    assert known["reliability"]["warn_after"] == 3
    assert "compressed 3 times" in known["reliability"]["warning"]
    assert known["checkpoint"] == {"level": "moderate", "share": 0.8}
    ran = run("models", "ollama:llama3.2:3b")
    assert ran.code == 0
    for text in ("13,926", "870", "0.30 (critical)", "warning after 3", "3.2 billion", "moderate"):
        assert text in ran.out


def test_a_providers_model_has_one_size(run):
    """FR-14: its window; what is larger than a prompt may be is kept free."""
    known = told(run, "gpt-5")
    (size,) = known["context_profiles"]
    assert (size["size"], size["num_ctx"], size["output_reserve"]) == (400_000, None, 128_000)
    assert known["billions_from"] == "provider"
    assert "prompts up to 272,000" in run("models", "gpt-5").out


def test_a_local_model_that_is_not_listed_has_safe_sizes(run):
    """FR-14: and says that its size is assumed."""
    known = told(run, "ollama:mystery")
    assert known["window"] == 2_867
    assert "assumed, as no source gives it" in run("models", "ollama:mystery").out


def test_ones_own_entries_and_tiers_count(run, own, monkeypatch):
    """FR-11, FR-14."""
    monkeypatch.setenv("COMPACT_TIER_2_PROMPT_TOKENS", "700")
    known = told(run, "ollama:house:9b")
    (size,) = known["context_profiles"]
    assert (size["num_ctx"], size["prompt_tokens"], size["vram_estimate"]) == (4000, 700, "6 GB")
    assert known["tool_support_source"] == "user_confirmed"
    assert "yes (user confirmed)" in run("models", "ollama:house:9b").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("llama3.2:3bb",), "did you mean 'llama3.2:3b'?"),
        (("nonesuch",), "compactctl models lists all"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(run, arguments, said):
    """K-11: bad input, exit code 2."""
    ran = run("models", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_field_that_is_not_known_is_counted_and_a_wrong_one_is_named(run, tmp_path, monkeypatch):
    """FR-14, K-10."""
    monkeypatch.setenv("COMPACT_MODELS_FILE", "models.yaml")
    (tmp_path / "models.yaml").write_text("- id: a\n  window: 7\n", encoding="utf-8")
    ran = run("models")
    assert ran.code == 0
    assert "Passed over in models.yaml, as not known: 1 × window." in ran.out + ran.err
    row = "- id: a\n  max_context_window: none\n"
    (tmp_path / "models.yaml").write_text(row, encoding="utf-8")
    ran = run("models")
    assert ran.code == 2
    assert "max_context_window" in ran.err
    assert "models.yaml" in ran.err
