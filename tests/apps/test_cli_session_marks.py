"""`compactctl sessions pin`, `unpin` and `mode`."""

import json

import pytest


@pytest.fixture
def harbour(run, sample):
    assert run("sessions", "import", sample).code == 0
    return "harbour"


def test_a_pinned_message_stays_in_every_prompt(run, harbour):
    def prompt():
        given = ("--window", "16k", "--target-ratio", "0.3")
        assert run("sessions", "compress", harbour, *given).code == 0
        return run("context", harbour, "--window", "16k", "--render", "text").out

    before = prompt()
    entries = json.loads(run("history", harbour, "--json", "--most", "1000").out)["messages"]
    text, number = next(
        (each["text"], each["number"])
        for each in entries
        if each["role"] == "assistant"
        and 80 < len(each["text"]) < 400
        and each["text"] not in before
    )
    told = json.loads(run("sessions", "pin", harbour, number, "--json").out)
    assert (told["pinned"], told["position"]) == (True, number)
    assert text in prompt()
    again = json.loads(run("sessions", "unpin", harbour, told["message"], "--json").out)
    assert (again["pinned"], again["position"]) == (False, number)
    assert text not in prompt()


def test_the_mode_is_kept(run, harbour):
    assert run("sessions", "mode", harbour).out == "assistant\n"
    assert run("sessions", "mode", harbour, "developer").out == "developer\n"
    assert run("sessions", "mode", harbour).out == "developer\n"
    done = run("sessions", "mode", harbour, "poet")
    assert done.code == 2
    assert "there are assistant" in done.err


def test_no_such_message_is_pinned(run, harbour):
    done = run("sessions", "pin", harbour, "nobody")
    assert done.code == 2
    assert "no message" in done.err
