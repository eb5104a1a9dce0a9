"""What is known of models: windows, tokenizers, sizes, and a person's own entries (K-3, FR-14)."""

import json
import subprocess
import sys
from importlib import resources
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact import ContextManager, compress, wiring
from compact.errors import InvalidConfig, UnknownModel
from compact.messages.reliability import ToolSupport, billions_in
from compact.models.profiles import Profile, profile_of, shipped
from compact.models.providers.tokenizers import NAMES, tokenizer_of_model

KNOWN = {
    (128_000, "o200k"): """
        gpt-4o openai:gpt-4o-mini chatgpt-4o-latest gpt-4.5-preview gpt-5-chat-latest
        gpt-5.1-chat-latest o1-mini o1-preview-2024-09-12 ft:gpt-4o-mini:org::id
        openai/ft:gpt-4o-mini-2024-07-18:org:mine:Ab3 openrouter/openai/gpt-4o:free
        https://host/v1#gpt-4o
    """,
    (1_047_576, "o200k"): "gpt-4.1-nano",
    (400_000, "o200k"): "gpt-5 gpt-5-mini",
    (200_000, "o200k"): "o1 o3-mini o4-mini",
    (8_192, "cl100k"): "gpt-4 gpt-4-0613",
    (32_768, "cl100k"): "gpt-4-32k",
    (128_000, "cl100k"): "gpt-4-turbo-2024-04-09 gpt-4-1106-preview gpt-4-0125-preview",
    (16_385, "cl100k"): "gpt-3.5-turbo ft:gpt-3.5-turbo:gpt-4o-friends::id",
    (4_096, "cl100k"): "gpt-3.5-turbo-instruct",
    (100_000, "claude"): "claude-2.0 claude-2 claude-instant-1.2",
    (200_000, "claude"): """
        claude-2.1 anthropic:claude-sonnet-4-5 anthropic/claude-3-5-haiku
        us.anthropic.claude-3-5-sonnet-20240620-v1:0
    """,
    (1_048_576, "chars"): "google:gemini-2.5-pro",
    (2_097_152, "chars"): "gemini/gemini-1.5-pro-002",
    (128_000, "chars"): """
        mistral-large-latest deepseek:deepseek-chat cohere:command-r-plus-08-2024
        cohere:command-r
    """,
    (256_000, "chars"): "xai:grok-4-0709",
    (6_963, "chars"): """
        ollama:qwen3:8b ollama/llama3.2 llama3.2:3b-instruct-q4_K_M
        ollama:hf.co/org/Llama-3.2-3B-Instruct-GGUF:Q4_K_M
    """,
    (6_963, "o200k"): "ollama+http://host:11434#gpt-oss:20b",
    (2_867, "chars"): "ollama:mystery:9b ollama:gpt-4o transformers:org/mystery",
}
"""Window and tokenizer -> names of models."""


@pytest.mark.parametrize(
    ("model", "window", "tokenizer"),
    [(name, *known) for known, names in KNOWN.items() for name in names.split()],
)
def test_a_model_has_its_window_and_its_tokenizer(model, window, tokenizer):
    """K-3, FR-14: as the providers' model pages say; a fine-tuned model is its base; a local one
    has what its server is told.
    """
    assert (shipped().window_of(model), tokenizer_of_model(model)) == (window, tokenizer)


@pytest.mark.parametrize("model", ["nonesuch", "gtp-4o", "ft:davinci-002:o1::id", "", "ollama:"])
def test_of_the_others_nothing_is_guessed(model):
    """K-3: the errors name the ways out."""
    assert profile_of(model) is None
    with pytest.raises(UnknownModel, match="window="):
        shipped().window_of(model)
    with pytest.raises(UnknownModel, match="name a tokenizer"):
        tokenizer_of_model(model)


@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        ("openai:gpt-oss:20b", "o200k"),
        ("openrouter/openai/gpt-oss-20b", "o200k"),
        ("http://host/v1#llama3.2:3b", "chars"),
        ("groq:llama3.1:8b", "chars"),
    ],
)
def test_a_window_that_its_server_decides_is_not_guessed(model, tokenizer):
    """K-3: the model is known; how somebody's server is set up is not."""
    assert tokenizer_of_model(model) == tokenizer
    with pytest.raises(UnknownModel, match="window="):
        shipped().window_of(model)


# --- the file -------------------------------------------------------------------------------------

FULL = {4096: 3482, 8192: 6963, 16384: 13926, 32768: 27853, 65536: 55706, 131072: 111411}
SAFE = {4096: 2867, 8192: 5734, 16384: 11468, 32768: 22937, 65536: 45875, 131072: 91750}


def test_the_file_has_the_numbers_that_are_sent():
    """FR-14: 85 % of each size, and 70 % where nothing is known; each is in the file."""
    book = shipped()
    for profile in book.models:
        assert profile.context_profiles, profile.id
        for row in profile.context_profiles:
            assert row.ollama_context_size == FULL[row.size], profile.id
            assert row.size <= (profile.max_context_window or 0), profile.id
    assert {r.size: r.ollama_context_size for r in book.template.context_profiles} == SAFE


def test_every_entry_of_the_file_can_be_found_and_used():
    """FR-13, FR-14: by its id, by its aliases, by what it is called; its size can be read."""
    book = shipped()
    assert len({each.id for each in book.models}) == len(book.models) >= 30
    for profile in book.models:
        for name in (profile.id, *profile.aliases, f"{profile.id}-instruct-q4_K_M"):
            assert book.profile_of(f"ollama:{name}") is profile, name
        assert billions_in(profile.parameters), profile.id
        assert profile.tokenizer in NAMES
    for family in book.families:
        assert family.pattern
        assert family.vendor
        assert family.tokenizer in NAMES
    aliases = [name for each in book.models for name in each.aliases]
    assert len(set(aliases)) == len(aliases)


@pytest.mark.slow
def test_importing_compact_does_not_read_the_file():
    """NFR-1: it is read when a model is first asked for, and once."""
    code = (
        "import compact, compact.models.profiles as p;from compact import ContextManager, compress;"
        "print(p.shipped.cache_info().currsize); p.profile_of('gpt-4o'); p.profile_of('o1');"
        "print(p.shipped.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]


# --- sizes ----------------------------------------------------------------------------------------

SIZINGS = [
    *[(None, 8192, 6963), (8192, 8192, 6963), (4096, 4096, 3482), (1, 4096, 3482)],
    *[(4097, 8192, 6963), (20_000, 32_768, 27_853), (131_072, 131_072, 111_411)],
    (500_000, 131_072, 111_411),
]


@pytest.mark.parametrize(("wanted", "size", "num_ctx"), SIZINGS)
def test_a_wanted_size_is_looked_up(wanted, size, num_ctx):
    """FR-14: the exact size, else the next larger row, else the largest."""
    sizing = shipped().sizing("ollama:llama3.2:3b", wanted)
    assert (sizing.size, sizing.num_ctx) == (size, num_ctx)
    assert sizing.row is not None
    assert sizing.row.size == size


def test_what_a_server_is_told_is_read_and_never_computed():
    """FR-14: 6,800 in the file is 6,800; no share of anything."""
    rows = [{"size": 16384, "ollama_context_size": 9999}, {"size": 8192, "ollama_context_size": 77}]
    book = shipped().with_entries([{"id": "mine:7b", "context_profiles": rows}], "mine.yaml")
    assert [book.sizing("ollama:mine:7b", n).num_ctx for n in (1, 8192, 8193, 99_999)] == [
        *(77, 77, 9999, 9999),
    ]


def test_a_model_of_a_provider_is_not_set_up_by_size():
    """FR-14: the window is the provider's; asking for less takes less."""
    book = shipped()
    assert book.sizing("gpt-4o").num_ctx == 128_000
    small = book.sizing("gpt-4o", 8_000)
    assert (small.size, small.num_ctx, small.row) == (8_000, 8_000, None)
    assert book.sizing("gpt-4o", 999_999).num_ctx == 128_000


@pytest.mark.parametrize("wanted", [0, -5])
def test_a_size_below_one_is_refused(wanted):
    with pytest.raises(ValueError, match="at least"):
        shipped().sizing("gpt-4o", wanted)


# --- a person's own entries -----------------------------------------------------------------------


def test_an_own_entry_counts_field_by_field():
    """FR-14: what it says is taken, what it does not say stays; the shipped book is untouched."""
    rows = [{"id": "qwen3:8b", "default_context": 32768, "tool_support": False, "creator": "x"}]
    book = shipped().with_entries(rows, "mine.yaml")
    mine = book.profile_of("ollama:qwen3:8b")
    assert mine is not None
    assert (mine.window, mine.reasoning, mine.name) == (27_853, True, "Qwen3 8B")
    assert mine.tools == ToolSupport(False, "user_confirmed")
    assert shipped().window_of("ollama:qwen3:8b") == 6_963
    theirs = profile_of("ollama:qwen3:8b")
    assert theirs is not None
    assert theirs.tools == ToolSupport(True, "profile")


def test_a_lowered_maximum_leaves_out_larger_rows():
    """FR-14: nothing is told a server that the model does not have."""
    book = shipped().with_entries([{"id": "qwen3:8b", "max_context_window": 7000}], "mine.yaml")
    assert book.sizing("qwen3:8b", 32_768).num_ctx == 6_963
    between = shipped().with_entries([{"id": "qwen3:8b", "max_context_window": 9000}], "mine.yaml")
    assert between.window_of("qwen3:8b") == between.sizing("qwen3:8b", 9000).num_ctx == 6_963
    tiny = shipped().with_entries([{"id": "qwen3:8b", "max_context_window": 4000}], "mine.yaml")
    assert tiny.window_of("qwen3:8b") == 3_482


def test_an_own_entry_may_be_new():
    """FR-14: with a window of its own; else with the template's safe sizes."""
    rows: list[dict[str, Any]] = [
        {"id": "house-model", "max_context_window": 50_000, "tokenizer": "o200k"},
        {"id": "ollama:small:2b"},
        {"id": "gpt-4o-mini", "output_limit": 100},
    ]
    book = shipped().with_entries(rows, "mine.yaml")
    assert book.window_of("http://host/v1#house-model") == 50_000
    assert book.window_of("house-model") == 50_000
    assert book.profile_of("house-model-large") is None, "only names with a size go on"
    assert book.window_of("ollama:small:2b") == 2_867
    changed = book.profile_of("openai:gpt-4o-mini")
    assert changed is not None
    assert (changed.window, changed.tokenizer, changed.output_limit) == (128_000, "o200k", 100)
    assert (changed.name, changed.pattern) == ("", "")
    assert book.output_reserve_of("openai:gpt-4o-mini") == 100
    other = book.profile_of("gpt-4o")
    assert other is not None
    assert other.output_limit == 16_384


WRONG: list[tuple[object, str]] = [
    ("qwen3:8b", r"models\[1\]: expected an entry"),
    ({"name": "x"}, r"models\[1\].id: .*got None"),
    ({"id": 7}, r"models\[1\].id: .*got 7"),
    ({"id": "ollama:"}, r"models\[1\].id"),
    ({"id": "a", "max_context_window": "8k"}, r"models\[a\].max_context_window: .*'8k'"),
    ({"id": "a", "max_context_window": True}, r"models\[a\].max_context_window"),
    ({"id": "a", "max_contex_window": 8}, r"models\[a\].max_contex_window: no such field"),
    ({"id": "a", "tool_support": "yes"}, r"models\[a\].tool_support"),
    (
        {"id": "a", "context_profiles": [{"ollama_context_size": 8192}]},
        r"models\[a\].context_profiles\[0\].size: is missing",
    ),
    (
        {"id": "a", "context_profiles": [{"size": 9, "ollama_context_size": 0}]},
        r"models\[a\].context_profiles\[0\].ollama_context_size: .*got 0",
    ),
    (
        {"id": "a", "context_profiles": [{"size": 9, "ollama_context_size": 8}] * 2},
        r"models\[a\].context_profiles: .*two rows",
    ),
]


@pytest.mark.parametrize(("row", "said"), WRONG)
def test_a_wrong_entry_is_named_with_its_field_and_file(row, said):
    """FR-14, K-10: one line that says where."""
    with pytest.raises(InvalidConfig, match=said) as caught:
        shipped().with_entries([row], "mine.yaml")
    assert "from mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_model_has_one_entry():
    with pytest.raises(InvalidConfig, match="stands twice"):
        shipped().with_entries([{"id": "Qwen3:8b"}, {"id": "ollama:qwen3:8B"}], "mine.yaml")


def test_the_file_itself_may_be_laid_over():
    """FR-14: a copy of the file with changes is a file of entries, too."""
    rows = json.loads((resources.files("compact.models") / "models.json").read_text("utf-8"))
    book = shipped().with_entries(rows["models"], "copy.json")
    for one, other in zip(shipped().models, book.models, strict=True):
        dumped = {"tool_support_source"}
        assert one.model_dump(exclude=dumped) == other.model_dump(exclude=dumped)


@given(
    st.dictionaries(
        st.sampled_from(sorted(Profile.model_fields)) | st.text(max_size=5),
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers()),
        max_size=4,
    )
)
def test_whatever_an_entry_holds_it_is_known_or_an_error_of_ours(row):
    """FR-14: no other error leaves the book."""
    try:
        book = shipped().with_entries([{"id": "qwen3:8b"} | row], "any.yaml")
    except InvalidConfig:
        return
    assert book.models


# --- size in billions -----------------------------------------------------------------------------

TEXTS = {
    **{"3B": 3, "1.5b": 1.5, "E2B": 2, "270M": 0.27, "8x7B": 46.48, "1T": 1000, "30B-A3B": 30},
    **{"Based on Llama 3.2 3B": 3, "7 B": 7, "qwen2.5:1.5b": 1.5, "gemma3n:e2b": 2},
    **{"mixtral:8x7b": 46.48, "smollm:135m": 0.135, "qwen2.5:7b-instruct-1m": 7},
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_size_is_read_from_words_and_names(text):
    """FR-13: 1.5b is not 5; effective and active sizes; experts share."""
    assert billions_in(text) == pytest.approx(TEXTS[text])


@pytest.mark.parametrize("text", ["Latest", "", "gpt-4-32k", "q4_K_M", "4bit", "instruct-1m", "0b"])
def test_what_is_no_size_is_none(text):
    assert billions_in(text) is None


@pytest.mark.parametrize(
    ("model", "billions", "source"),
    [
        ("ollama:qwen3:8b", 8.2, "profile"),
        ("ollama:gemma3n", 4, "profile"),
        ("ollama:mystery:1.5b", 1.5, "name"),
        ("http://host/v1#mystery-13b", 13, "name"),
        ("ollama:mystery", 7, "assumed"),
        ("http://my-70b-host/v1#mystery", 7, "assumed"),
        ("gpt-4o", 70, "provider"),
        ("claude-sonnet-4-5", 70, "provider"),
        ("openai:gpt-99", 70, "provider"),
        ("ministral-8b-latest", 8, "name"),
    ],
)
def test_a_models_size_and_how_it_is_known(model, billions, source):
    """FR-13: a person's word, the profile's, the name's, else an assumption that says so."""
    known = shipped().parameters_of(model)
    assert (known.billions, known.source) == (billions, source)


@pytest.mark.parametrize(("own", "billions"), [("13B", 13), (2.5, 2.5), (4, 4), ("Latest", 8)])
def test_a_persons_word_of_the_size_counts_most(own, billions):
    """FR-13: `Latest` says nothing, so the name does."""
    book = shipped().with_entries([{"id": "qwen3:8b", "parameters": own}], "mine.yaml")
    assert book.parameters_of("ollama:qwen3:8b").billions == billions


# --- the answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "window", "reserve"),
    [
        ("gpt-4o", None, 4_096),
        ("gpt-4o", 8_000, 1_000),
        ("o3-mini", None, 12_288),
        ("gpt-5", None, 128_000),
        ("gpt-5", 100_000, 12_288),
        ("claude-3-5-haiku", None, 4_096),
        ("ollama:llama3.2:3b", None, 870),
        ("ollama:qwen3:8b", 27_853, 3_481),
        ("ollama:llama3.2:3b", 111_411, 4_096),
        ("nonesuch", 16_000, 2_000),
    ],
)
def test_what_is_kept_free_for_the_answer(model, window, reserve):
    """FR-14: reasoning takes more; a small window is not eaten; a limit on prompts holds."""
    assert shipped().output_reserve_of(model, window) == reserve


@given(st.sampled_from([each.id for each in shipped().models]), st.integers(1, 200_000))
def test_an_answer_never_keeps_more_than_an_eighth_free(model, window):
    """FR-14."""
    assert 0 <= shipped().output_reserve_of(f"ollama:{model}", window) <= window // 8


# --- tools ----------------------------------------------------------------------------------------


def test_who_says_that_tools_may_be_called():
    """FR-13: user > detected > error at run time > profile; of equals the later."""
    profile, error = ToolSupport(True), ToolSupport(False, "runtime_error")
    found, user = ToolSupport(True, "auto_detected"), ToolSupport(False, "user_confirmed")
    order = [profile, error, found, user]
    for weaker, stronger in pairwise(order):
        assert weaker.updated(stronger) == stronger
        assert stronger.updated(weaker) == stronger
    assert error.updated(ToolSupport(True, "runtime_error")).value is True
    assert user.updated(ToolSupport(None, "user_confirmed")) == user
    assert ToolSupport(None, "user_confirmed").updated(profile) == profile


# --- the front doors ------------------------------------------------------------------------------


def test_an_unknown_model_with_a_window_is_estimated():
    """K-3, C-5: any model works as soon as its window is said, by an estimate that says so."""
    ctx = ContextManager(model="http://host/v1#mystery", window=8192)
    assert ctx.window.size == 8192
    assert ctx.estimate_tokens("x" * 30) == 6
    assert not ctx.history.counter.exact
    exact = ContextManager(model="http://host/v1#mystery", window=8192, tokenizer="o200k")
    assert exact.history.counter.exact
    assert ContextManager(model="ft:gpt-4o-mini:org::id").history.counter.exact
    with pytest.raises(UnknownModel, match="window="):
        ContextManager(model="http://host/v1#mystery")


def test_a_local_model_needs_no_window():
    """FR-14, C-9: its session has what its server is told."""
    assert ContextManager(model="ollama:qwen3:8b").window.size == 6_963
    assert ContextManager(model="ollama:mystery").window.size == 2_867


def test_compress_does_not_estimate_unasked():
    """K-3: a mistyped model is an error that names tokenizer=."""
    with pytest.raises(UnknownModel, match="name a tokenizer"):
        compress([{"role": "user", "content": "x"}], max_tokens=100, model="gtp-4o")
    assert not wiring.token_counter("anthropic", model="x", otherwise="chars").exact
