"""What a person meets in the first hour: numbers, hints, what is installed (K-11)."""

import itertools
import json
import re
import tomllib
from pathlib import Path

import pytest
import typer

from compact.cli.commands import doctor as checks
from compact.cli.options import whole_number
from compact.models.providers.clients import how_to_install
from tests.cli.conftest import refused

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("8k", 8_000), ("128K", 128_000), ("1m", 1_000_000), ("1.5k", 1_500), ("8_000", 8_000),
     ("8,000", 8_000), (" 8k ", 8_000), ("0.5m", 500_000)],
)  # fmt: skip
def test_numbers_as_people_write_them(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *("k", "8kk", "-8k", "nank", "infm", "1e999k", "0k", "9999m", "8g"),
        *("8,00", "1,2,3,4", ",800", "8,", "8,0000", "8_", "1.5", "8,00k"),
    ],
)
def test_what_is_no_number_is_refused(text):
    with pytest.raises(typer.BadParameter, match="such as 8000 or 8k"):
        whole_number(text)


def test_the_doctor_lists_the_packages_of_every_extra(run):
    done = run("doctor")
    for needed in itertools.chain.from_iterable(EXTRAS.values()):
        name = re.split(r"[^\w-]", needed)[0]
        assert re.search(rf"^ *{name} +(ok|note)", done.out, re.MULTILINE), done.out


def test_the_doctor_names_each_missing_package_once_and_no_other(run, monkeypatch):
    """Some extras bring several packages, and some packages come with several extras."""
    missing = ("tokenizers", "onnx", "opentelemetry-exporter-otlp-proto-http", "cryptography")
    monkeypatch.setattr(checks, "_version", lambda name: None if name in missing else "1")
    lines = [row["text"] for row in json.loads(run("doctor", "--json").out)["installed"]
             if row["about"] in missing]  # fmt: skip
    assert len(lines) == len(missing)
    for name, line in zip(
        ("tokenizers", "onnx", "opentelemetry-exp", "crypto"), lines, strict=True
    ):
        assert f"pip install '{name}" in line


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_hint_names_what_works_from_a_clone(extra):
    assert f"pip install '.[{extra}]'" in how_to_install(extra)
    assert "compactctl[" not in how_to_install(extra)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a file without end")
@pytest.mark.parametrize("command", ["tokens", "validate-config", "doctor"])
def test_a_file_without_end_is_refused(run, command):
    arguments = {"doctor": ["--store", "/dev/zero"]}.get(command, ["/dev/zero"])
    done = run(command, *arguments)
    assert done.code == 2
    assert "Traceback" not in done.err
    why = {"tokens": "larger than", "validate-config": "a pipe or a device, not a file"}
    assert why.get(command, "") in (done.err if command == "doctor" else refused(done))


ODD_FILES = {
    "a huge number.json": b'{"max_context_tokens": ' + b"9" * 6_000 + b"}",
    "deep content.json": b'[{"role": "user", "content": [{"type": "x", "v": %s}]}]'
    % (b"[" * 900 + b"]" * 900),
    "deep part.json": b'[{"role": "user", "content": [{"type": ["x"], "v": {}}]}]',
    "deep tools.json": b'{"messages": [{"role": "user", "content": "a"}], "tools": [{"type": '
    b'"function", "function": {"name": "f", "parameters": %s}}]}'
    % (b'{"a": ' * 900 + b"1" + b"}" * 900),
    "a role.json": b'[{"role": {}, "content": "a"}]',
}


@pytest.mark.parametrize("name", ODD_FILES)
@pytest.mark.parametrize(
    "command",
    [["tokens"], ["dry-run", "--max-tokens", "50"], ["validate-config"], ["sessions", "import"]],
)
def test_a_file_of_any_kind_is_read_or_refused(run, tmp_path, name, command):
    (tmp_path / name).write_bytes(ODD_FILES[name])
    done = run(*command, tmp_path / name)
    assert done.code in (0, 1, 2), done.err


def test_one_reader_of_sizes_for_options_settings_and_files(run, sample, monkeypatch, tmp_path):
    """`8k` is a size wherever one may be given, and `50%` a share."""
    (tmp_path / "c.yaml").write_text("output_reserve: 1k\ntrigger_ratio: 60%\n")
    monkeypatch.setenv("COMPACT_MAX_CONTEXT_TOKENS", "8k")
    monkeypatch.setenv("COMPACT_TARGET_RATIO", "30%")
    told = json.loads(run("validate-config", "c.yaml", "--json").out)["settings"]
    assert told["max_context_tokens"]["value"] == 8_000
    assert told["output_reserve"]["value"] == 1_000
    assert (told["trigger_ratio"]["value"], told["target_ratio"]["value"]) == (0.6, 0.3)
    monkeypatch.setenv("COMPACT_MAX_CONTEXT_TOKENS", "8,00")
    assert "max_context_tokens" in refused(run("validate-config"))
    monkeypatch.delenv("COMPACT_MAX_CONTEXT_TOKENS")
    run("sessions", "import", sample)
    half = run("sessions", "compress", "harbour", "--target-ratio", "50%", "--window", "32k")
    assert half.code == 0, half.err
    told = refused(run("sessions", "compress", "harbour", "--target-ratio", "abc"))
    assert "not a share above 0 and at most 1, such as 0.4 or 40%" in told
    told = refused(run("show", "harbour", "context", "--at", "abc"))
    assert "such as 120" in told
    assert "8k" not in told


def test_a_target_above_the_trigger_is_refused(run, tmp_path):
    (tmp_path / "c.yaml").write_text("trigger_ratio: 0.3\ntarget_ratio: 0.9\n")
    told = refused(run("validate-config", "c.yaml"))
    assert "target_ratio: 0.9 lies above trigger_ratio, which is 0.3" in told


def test_an_error_that_ctrl_c_became_is_ctrl_c():
    from compact.cli.errors import ending_of
    from compact.cli.interrupts import INTERRUPTED

    error = ValueError("a schema")
    error.__cause__ = KeyboardInterrupt()
    assert ending_of(error)[0] == INTERRUPTED


def test_a_file_without_a_command_is_told_what_can_be_done_with_it(run, sample):
    done = run(sample)
    assert done.code == 2
    assert "is a file, and no command stands before it" in done.err
    assert f"compactctl compact {sample} --max-tokens 8000" in done.err
    assert "No such command 'tokns'. Did you mean 'tokens'" in run("tokns", sample).err
