"""Settings: layers, names, errors that say which setting and where it came from (K-10, K-2)."""

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from compact import ContextManager
from compact.config import ARGUMENT, DEFAULT, CompactConfig, did_you_mean
from compact.errors import CompactError, InvalidConfig
from compact.messages.policy import CompactPolicy

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "compact.yaml"
PAGE = ROOT / "docs" / "configuration.md"


def load(folder, text=None, *, environ=None, name="c.yaml", **arguments):
    """Settings from a file of that text, an environment and arguments."""
    path = None
    if text is not None:
        path = folder / name
        path.write_text(text, encoding="utf-8")
    return CompactConfig.load(path, environ=environ or {}, **arguments)


def refused(folder, text=None, **more):
    with pytest.raises(InvalidConfig) as caught:
        load(folder, text, **more)
    assert "\n" not in str(caught.value), "one line"
    return caught.value


# --- layers ---------------------------------------------------------------------------------------


def test_without_any_source_the_defaults_are_the_policys():
    """K-2: the settings tree holds the whole policy."""
    config = CompactConfig.load(environ={})
    assert config.policy() == CompactPolicy()
    assert type(config.policy()) is CompactPolicy
    assert {config.origin(name) for name in config.names()} == {DEFAULT}


def test_the_later_source_counts_and_is_remembered(tmp_path):
    """K-10: defaults < file < environment < arguments."""
    text = "trigger_ratio: 0.5\ntarget_ratio: 0.3\nkeep_tool_pairs: 9\n"
    environ = {"COMPACT_TARGET_RATIO": "0.2", "COMPACT_KEEP_TOOL_PAIRS": "8"}
    config = load(tmp_path, text, environ=environ, keep_tool_pairs=7, model=None)
    assert (config.trigger_ratio, config.target_ratio, config.keep_tool_pairs) == (0.5, 0.2, 7)
    assert config.origin("trigger_ratio") == str(tmp_path / "c.yaml")
    assert config.origin("target_ratio") == "COMPACT_TARGET_RATIO"
    assert config.origin("keep_tool_pairs") == ARGUMENT
    assert config.origin("model") == DEFAULT, "an argument of None is not given"


def test_json_and_yaml_say_the_same(tmp_path):
    """K-10."""
    values = {"model": "gpt-4o", "trigger_ratio": 0.5, "roles_never_pruned": ["system"]}
    from_yaml = load(tmp_path, yaml.safe_dump(values))
    from_json = load(tmp_path, json.dumps(values), name="c.json")
    assert from_yaml.model_dump() == from_json.model_dump()
    assert from_json.roles_never_pruned == ("system",)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "{}", "---\n"])
def test_a_file_without_settings_changes_nothing(tmp_path, text):
    assert load(tmp_path, text).model_dump() == CompactConfig().model_dump()


def test_variables_hold_every_kind_of_value():
    """K-10: flat names, lists by commas, `none` where a setting may have no value."""
    config = CompactConfig.load(
        environ={
            "COMPACT_MAX_CONTEXT_TOKENS": "32000",
            "COMPACT_TRIGGER_TOKENS": "none",
            "COMPACT_ROLES_NEVER_PRUNED": "system, developer ,tool",
            "COMPACT_PIN_FIRST_REQUEST": "false",
            "COMPACT_CONSOLE_EVENTS": "1",
            "COMPACT_MODEL": "",
            "PATH": "/bin",
        }
    )
    assert config.max_context_tokens == 32_000
    assert config.trigger_tokens is None
    assert config.roles_never_pruned == ("system", "developer", "tool")
    assert not config.pin_first_request
    assert config.console_events
    assert config.origin("model") == DEFAULT, "an empty variable counts as not given"


def test_variables_that_are_no_settings_of_ours_are_left_alone():
    environ = {"COMPACT_DATA": "x", "COMPACT_TRACEBACK": "1", "COMPACT_NEW_CONTEXT": "1"}
    assert CompactConfig.load(environ=environ).model_fields_set == set()


def test_the_environment_is_read_when_none_is_given(monkeypatch):
    monkeypatch.setenv("COMPACT_KEEP_TOOL_PAIRS", "11")
    assert CompactConfig.load().keep_tool_pairs == 11
    assert CompactConfig().keep_tool_pairs == 4, "the constructor reads nothing"


def test_no_env_file_is_read_by_the_library(tmp_path, monkeypatch):
    """K-10: only the command line reads `.env`."""
    (tmp_path / ".env").write_text("COMPACT_KEEP_TOOL_PAIRS=11\n")
    monkeypatch.chdir(tmp_path)
    assert CompactConfig.load(environ={}).keep_tool_pairs == 4


# --- what the settings mean -----------------------------------------------------------------------


def test_the_window_is_the_given_size_else_the_models():
    """C-7: usable is the window less the reserve or the buffer, whichever is larger."""
    assert CompactConfig().window() is None
    sized = CompactConfig(model="gpt-4o", max_context_tokens=8_000, output_reserve=2_000).window()
    assert sized is not None
    assert sized.usable == 6_000
    models = CompactConfig(model="gpt-4o").window()
    assert models is not None
    assert models.size == 128_000
    narrow = CompactConfig(model="gpt-5").window()
    assert narrow is not None
    assert narrow.usable == ContextManager(model="gpt-5").window.usable == 272_000


@pytest.mark.parametrize("setting", ["ariadne_url", "otlp_endpoint"])
@pytest.mark.parametrize("value", ["127.0.0.1:5175", "ftp://x", "http://", "http://a:b", ""])
def test_receivers_of_reports_are_addresses(setting, value):
    """K-8, K-10: the error names the setting."""
    with pytest.raises(InvalidConfig, match=rf"{setting}: should be an address such as"):
        CompactConfig(**{setting: value})


def test_an_unknown_model_without_a_size_names_the_way_out():
    with pytest.raises(InvalidConfig, match=r"model: .*'nonesuch'.*max_context_tokens"):
        CompactConfig(model="nonesuch").window()


def test_what_is_set_for_a_tier_counts_for_its_windows():
    """FR-11: in a file or in the environment; the tier is that of the size people name."""
    config = CompactConfig(
        tiers={1: {"trigger_ratio": 0.5}, 2: {"target_ratio": 0.1}}, trigger_ratio=0.8
    )
    assert [config.tier(n).settings.trigger_ratio for n in (4_000, 8_000)] == [0.5, None]
    small = CompactConfig(
        **config.model_dump(exclude_unset=True), max_context_tokens=4_000
    ).window()
    larger = CompactConfig(
        **config.model_dump(exclude_unset=True), model="ollama:qwen3:8b"
    ).window()
    assert small is not None
    assert larger is not None
    assert (small.trigger_ratio, small.target_ratio) == (0.5, None)
    assert (larger.size, larger.trigger_ratio, larger.target_ratio) == (6_963, 0.8, 0.1)


def test_the_tier_of_a_local_model_is_that_of_its_size(tmp_path):
    """FR-11: what people call 8,192 is tier 2, whatever its server is told."""
    row = {"size": 8192, "ollama_context_size": 4000}
    entries = [{"id": "house:9b", "context_profiles": [row]}]
    (tmp_path / "m.json").write_text(json.dumps(entries), encoding="utf-8")
    tiers = {1: {"trigger_ratio": 0.5}, 2: {"trigger_ratio": 0.6}}
    own = {"models_file": str(tmp_path / "m.json"), "model": "ollama:house:9b"}
    window = CompactConfig(tiers=tiers, **own).window()
    assert window is not None
    assert (window.size, window.trigger_ratio) == (4_000, 0.6)


def test_variables_of_tiers_are_laid_over_the_file(tmp_path):
    """FR-11, K-10: field by field; JSON's keys are texts."""
    environ = {"COMPACT_TIER_1_TRIGGER_RATIO": "0.6", "COMPACT_TIER_5_PROMPT_TOKENS": "3000"}
    for name, text in {
        "c.yaml": "tiers: {1: {trigger_ratio: 0.3, prompt_tokens: 250}, 2: {draft_ratio: 0.4}}",
        "c.json": '{"tiers": {"1": {"trigger_ratio": 0.3, "prompt_tokens": 250}, '
        '"2": {"draft_ratio": 0.4}}}',
    }.items():
        config = load(tmp_path, text, environ=environ, name=name)
        first = config.tiers[1]
        assert (first.trigger_ratio, first.prompt_tokens) == (0.6, 250)
        assert config.tiers[2].draft_ratio == 0.4
        assert config.tier(100_000).prompt_tokens == 3_000
        for place in (name, *environ):
            assert place in config.origin("tiers")
    assert load(tmp_path, environ={"COMPACT_TIER_1_TRIGGER_RATIO": ""}).tiers == {}


OWN_MODELS = {
    "m.yaml": "- id: house:9b\n  context_profiles: [{size: 8192, ollama_context_size: 7000}]\n",
    "m.json": '{"models": [{"id": "house:9b", "max_context_window": 7000, "tokenizer": "o200k"}]}',
}


@pytest.mark.parametrize("name", OWN_MODELS)
def test_a_persons_own_file_of_models_counts(tmp_path, name):
    """FR-14: over what is known; for these settings only."""
    (tmp_path / name).write_text(OWN_MODELS[name], encoding="utf-8")
    environ = {"COMPACT_MODELS_FILE": str(tmp_path / name), "COMPACT_MODEL": "ollama:house:9b"}
    window = CompactConfig.load(environ=environ).window()
    assert window is not None
    assert window.size == 7_000
    tokenizer = CompactConfig.load(environ=environ).known_tokenizer()
    assert tokenizer == ("o200k" if name.endswith("json") else "chars")
    other = CompactConfig(model="ollama:house:9b").window()
    assert other is not None
    assert other.size == 2_867


def test_the_file_of_models_is_read_once(tmp_path):
    """NFR-1."""
    path = tmp_path / "m.yaml"
    path.write_text("- id: house:9b\n", encoding="utf-8")
    config = CompactConfig(models_file=str(path))
    assert config.book() is config.book()
    path.unlink()
    assert config.book().profile_of("house:9b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: {a: b}", r"m\.yaml: expected a list of models"),
        ("just words", r"m\.yaml: expected a list of models"),
        ("- id: a\n  toknizer: 7", r"models\[a\]\.toknizer: no such field.*m\.yaml"),
        ("- [", r"m\.yaml, line 1: broken YAML"),
    ],
)
def test_a_wrong_file_of_models_is_refused_in_one_line(tmp_path, text, said):
    """FR-14, K-10."""
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfig, match=said):
        CompactConfig(models_file=str(tmp_path / "m.yaml")).book()
    with pytest.raises(InvalidConfig, match="no such file"):
        CompactConfig(models_file=str(tmp_path / "none.yaml")).book()


# --- errors ---------------------------------------------------------------------------------------

WRONG = [
    ("trigger_ratio: 70", "trigger_ratio", "a fraction of 1, such as 0.7 for 70 %, got 70"),
    ("trigger_ratio: .nan", "trigger_ratio", "fraction of 1"),
    ("trigger_ratio: 0", "trigger_ratio", "greater than 0, got 0"),
    ("trigger_ratio: yes", "trigger_ratio", "not true or false"),
    ("checkpoint_share: 0.9", "checkpoint_share", "0.6, got 0.9"),
    ("keep_tool_pairs: -1", "keep_tool_pairs", "greater than or equal to 0, got -1"),
    ("keep_tool_pairs: 1.5", "keep_tool_pairs", "got 1.5"),
    ("max_context_tokens: 8", "max_context_tokens", "1000, got 8"),
    ("model: [a]", "model", "string"),
    ("strategy: short", "strategy", "'task_state'"),
    ("roles_never_pruned: [sytem]", "roles_never_pruned", "there are assistant"),
    ("roles_never_pruned: [1]", "roles_never_pruned[0]", "string"),
    ("tiers: [1]", "tiers", "dictionary"),
    ("tiers: {6: {}}", "tiers[6]", "less than or equal to 5"),
    ("tiers: {1: 7}", "tiers[1]", "a valid dictionary, got 7"),
    ("tiers: {1: {trigger_ratio: 70}}", "tiers[1][trigger_ratio]", "such as 0.7 for 70 %, got 70"),
    ("tiers: {1: {triger_ratio: 1}}", "tiers[1][triger_ratio]", "did you mean 'trigger_ratio'?"),
    ("tiers: {1: {trigger_ratio: true}}", "tiers[1][trigger_ratio]", "not true or false"),
    ("triger_ratio: 1", "triger_ratio", "did you mean 'trigger_ratio'?"),
    ("1: 2", "1", "no such setting"),
    ("model: a\nmodel: b", "model", "stands twice"),
]


@pytest.mark.parametrize(("text", "field", "reason"), WRONG)
def test_a_wrong_value_names_the_setting_and_the_file(tmp_path, text, field, reason):
    """K-10: errors name the field."""
    error = refused(tmp_path, text)
    assert error.field == field
    assert reason in error.reason
    assert "c.yaml" in error.reason


def test_a_wrong_variable_is_named():
    with pytest.raises(
        InvalidConfig, match=r"^trigger_ratio: .*'much'.*from COMPACT_TRIGGER_RATIO"
    ):
        CompactConfig.load(environ={"COMPACT_TRIGGER_RATIO": "much"})


def test_an_unknown_variable_is_refused_with_the_name_it_resembles():
    with pytest.raises(InvalidConfig, match="did you mean 'COMPACT_TRIGGER_RATIO'") as caught:
        CompactConfig.load(environ={"COMPACT_TRIGGER_PTC": "0.5"})
    assert caught.value.field == "COMPACT_TRIGGER_PTC"


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"COMPACT_TIER_1_TRIGGER_RATIO": "60"},
            r"tiers\[1\]\[trigger_ratio\].*COMPACT_TIER_1_TRIG",
        ),
        ({"COMPACT_TIER_7_TRIGGER_RATIO": "0.6"}, "no such setting.*did you mean 'COMPACT_TIER_"),
        ({"COMPACT_TIERS": "1"}, "no such setting, in the environment"),
    ],
)
def test_a_wrong_variable_of_a_tier_is_named(environ, said):
    """FR-11, K-10."""
    with pytest.raises(InvalidConfig, match=said):
        CompactConfig.load(environ=environ)


def test_a_tier_that_is_wrong_in_the_file_stays_wrong(tmp_path):
    """K-10: a variable covers nothing up."""
    for text in ("tiers: [1]", "tiers: {1: 7}"):
        with pytest.raises(InvalidConfig, match=r"tiers.*c\.yaml"):
            load(tmp_path, text, environ={"COMPACT_TIER_1_TRIGGER_RATIO": "0.6"})


def test_wrong_arguments_are_ours_and_builtin_errors_too():
    with pytest.raises(InvalidConfig, match="trigger_ratio"):
        CompactConfig(trigger_ratio=7)
    with pytest.raises(InvalidConfig, match="did you mean 'model'"):
        CompactConfig.load(environ={}, modell="gpt-4o")
    assert issubclass(InvalidConfig, ValueError)
    assert issubclass(InvalidConfig, CompactError)


BROKEN = {
    "a.yaml": ("model: [", "a.yaml, line 1"),
    "b.yaml": ("- model", "expected settings"),
    "c.yaml": ("just words", "expected settings"),
    "d.yaml": ("model: !!python/object:os.x {}", "broken YAML"),
    "e.yaml": ("model: \x00", "broken YAML"),
    "f.yaml": ("? [a]\n: b", "broken YAML"),
    "g.yaml": ("model: 2001-13-45", "broken YAML"),
    "h.json": ('{"model": }', "h.json, line 1: broken JSON"),
    "i.json": ('{"model": "a", "model": "b"}', "stands twice"),
    "j.yaml": ("[" * 10_000, "nested too deeply"),
    "k.json": ("[" * 1_000_000, "nested too deeply"),
    "l.yaml": ("#" * 1_000_001, "larger than 1 MB"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_in_one_line(tmp_path, name):
    text, reason = BROKEN[name]
    error = refused(tmp_path, text, name=name)
    assert name in str(error)
    assert reason in str(error)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"model: \xff")
    for path in (tmp_path, tmp_path / "none.yaml", tmp_path / "latin.yaml"):
        with pytest.raises(InvalidConfig, match=r"directory|no such file|UTF-8"):
            CompactConfig.load(path, environ={})
    with pytest.raises(InvalidConfig, match="not a file's name"):
        CompactConfig.load("a\0b", environ={})


SCALARS = st.none() | st.booleans() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(SCALARS, lambda value: st.lists(value, max_size=2), max_leaves=3)
NAMES = st.sampled_from(CompactConfig.names()) | st.text(max_size=12)


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_whatever_a_file_holds_it_is_settings_or_an_error_of_ours(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    with contextlib.suppress(InvalidConfig):
        assert CompactConfig.load(path, environ={}).policy()


def test_did_you_mean_is_silent_where_nothing_is_near():
    assert did_you_mean("zzz", ["model"]) == ""
    assert did_you_mean("modell", ["model"]) == "; did you mean 'model'?"


# --- what people read -----------------------------------------------------------------------------


def test_the_example_file_is_complete_and_equals_the_defaults():
    """K-10: example file; every option documented."""
    written = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    assert set(written) == set(CompactConfig.names())
    loaded = CompactConfig.load(EXAMPLE, environ={})
    assert loaded.model_dump() == CompactConfig().model_dump()


def documented(page):
    """Rows of the page's tables: setting → its default, as they are written."""
    return dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", page, flags=re.MULTILINE))


def test_the_page_describes_every_setting_with_its_default():
    """K-10: every option documented."""
    rows = documented(PAGE.read_text(encoding="utf-8"))
    values = CompactConfig().model_dump(mode="json")
    assert set(rows) == set(values)
    shown = {name: yaml.safe_load(text) for name, text in rows.items()}
    assert shown == {n: 0.3333 if v == 1 / 3 else v for n, v in values.items()}


def test_importing_the_settings_loads_neither_yaml_nor_pydantic_settings():
    """Design: `import compact` and the settings stay light."""
    code = (
        "import sys, compact, compact.config; "
        "print([m for m in ('yaml', 'pydantic_settings', 'rich', 'typer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_model_is_named_as_it_was_written():
    with pytest.raises(InvalidConfig, match="the model 'my; own'; give max_context_tokens"):
        CompactConfig(model="my; own").window()
