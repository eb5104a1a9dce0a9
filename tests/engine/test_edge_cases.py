"""Six edge cases at a budget of 8,000 tokens: each fits by an exact count, keeps pairs, system
prompt and task.

The shapes and sizes are those that twelve other libraries were tried on; the texts are generated
here.
"""

import base64
import json
import random

import pytest

from compact import compress
from compact.errors import CannotFit
from tests import checker, strategies
from tests.engine.judging import TOKENIZER, Case, judged

BUDGET = 8_000
Dict = strategies.Dict


class Chat:
    """A chat that grows call by call, its texts from a seed."""

    def __init__(self, seed: int, system: str) -> None:
        self.r = random.Random(seed)
        self.messages: list[Dict] = [{"role": "system", "content": system}]
        self.calls = 0

    def says(self, role: str, text: str) -> None:
        self.messages.append({"role": role, "content": text})

    def works(self, tool: str, outputs: list[str], *, says: str = "") -> None:
        """One reply that calls a tool once for each output, and the outputs."""
        made = []
        for _ in outputs:
            self.calls += 1
            arguments = json.dumps({"cmd": f"make check {self.calls}"})
            function = {"name": tool, "arguments": arguments}
            made.append({"id": f"call_{self.calls}", "type": "function", "function": function})
        self.messages.append({"role": "assistant", "content": says, "tool_calls": made})
        for call, output in zip(made, outputs, strict=True):
            self.messages.append(
                {"role": "tool", "tool_call_id": call["id"], "name": tool, "content": output}
            )


def agent(seed: int, turns: int = 0) -> Chat:
    """A chat of an agent with its tools, as long as it is asked for; every fifth output is long."""
    chat = Chat(
        seed, "You are a careful software agent.\n" + strategies.prose(random.Random(9), 260)
    )
    for _ in range(turns):
        chat.says("user", strategies.prose(chat.r, 90))
        for _ in range(chat.r.randint(0, 3)):
            size = 900 if chat.r.random() < 0.2 else chat.r.randint(10, 160)
            made = [strategies.log(chat.r, size) for _ in range(chat.r.choice((1, 1, 2, 3)))]
            chat.works("run_shell", made)
        chat.says("assistant", strategies.prose(chat.r, 120))
    return chat


def last_result_too_large() -> list[Dict]:
    chat = agent(1, 45)
    chat.says("user", "Please run the tests.")
    line = "2026-11-20 INFO a worker handled its request in 12 ms /srv/queue/item\n"
    chat.works("run_shell", [line * 3_000])
    return chat.messages


def six_parallel_calls() -> list[Dict]:
    chat = agent(2)
    for turn in range(60):
        chat.says(
            "user", f"Question {turn}: " + "please read these six files and compare them. " * 5
        )
        chat.works(
            "read_file", [strategies.code(chat.r, 90)[:500] for _ in range(6)], says="Reading."
        )
        chat.says("assistant", "They differ in the third line.")
    chat.says("user", "Which one is newest?")
    return chat.messages


def long_loop() -> list[Dict]:
    chat = agent(3)
    chat.says("user", "Fix the failing build, please.")
    for _ in range(150):
        chat.works("run_shell", [strategies.log(chat.r, 160)[: chat.r.randint(200, 1_500)]])
    return chat.messages


def chinese() -> list[Dict]:
    chat = Chat(4, strategies.hanzi(random.Random(4), 300))
    for _ in range(130):
        chat.says("user", strategies.hanzi(chat.r, chat.r.randint(30, 300)))
        chat.works("query_db", [strategies.hanzi(chat.r, chat.r.randint(100, 900))])
        chat.says("assistant", strategies.hanzi(chat.r, chat.r.randint(50, 300)))
    chat.says("user", strategies.hanzi(chat.r, 40))
    return chat.messages


def dense() -> list[Dict]:
    chat = agent(5)
    for turn in range(130):
        chat.says("user", f"next chunk {turn}")
        blob = base64.b64encode(chat.r.randbytes(chat.r.randint(200, 1_200))).decode()
        chat.works("run_shell", [blob])
        chat.says("assistant", "ok")
    chat.says("user", "done?")
    return chat.messages


def system_prompt_too_large() -> list[Dict]:
    chat = agent(6, 20)
    chat.messages[0]["content"] = strategies.prose(random.Random(6), 9_800)[:60_000]
    chat.says("user", "Continue.")
    return chat.messages


FITTING = (last_result_too_large, six_parallel_calls, long_loop, chinese, dense)


def case_of(messages: list[Dict]) -> Case:
    persons = [i for i, m in enumerate(messages) if m["role"] == "user"]
    return Case.of("chat_completions", messages, BUDGET, persons=persons)


@pytest.mark.slow
@pytest.mark.parametrize("make", FITTING, ids=lambda make: make.__name__)
def test_fits_whole_and_with_its_task(make):
    """FR-3, K-4, C-6: fits by exact count, pairs are whole, system prompt and task are kept, the
    budget is used."""
    messages = make()
    assert checker.prompt_tokens(messages) > 2 * BUDGET
    case = case_of(messages)
    assert judged(case) == []
    assert case.after[0] == messages[0]
    assert messages[case.persons[-1]] in case.after
    assert checker.prompt_tokens(case.after) <= BUDGET
    assert case.plan is not None
    assert case.plan.tokens_after >= 0.9 * BUDGET


def test_the_newest_tool_result_is_still_read():
    """K-4: a last result that alone exceeds the budget keeps its head and its tail, under its
    call."""
    case = case_of(last_result_too_large())
    last = case.after[-1]
    assert last["role"] == "tool"
    assert last["tool_call_id"] == case.before[-1]["tool_call_id"]
    assert last["content"].startswith("2026-11-20 INFO a worker")
    assert last["content"].endswith("/srv/queue/item\n")
    assert "tokens left out" in last["content"]
    assert checker.tokens(last["content"]) > 0.05 * BUDGET


def test_the_newest_steps_of_a_long_loop_are_there():
    """K-4: of one question with 150 steps, the question and the newest four results stay word for
    word."""
    case = case_of(long_loop())
    assert case.before[1] in case.after
    for message in [m for m in case.before if m["role"] == "tool"][-4:]:
        assert message in case.after


def test_a_system_prompt_larger_than_the_budget():
    """FR-3: the one legitimate error, with its breakdown: what it is made of, the limit, and what
    to do."""
    messages = system_prompt_too_large()
    system = checker.tokens(messages[0]["content"])
    assert system > BUDGET
    with pytest.raises(CannotFit) as caught:
        compress(messages, max_tokens=BUDGET, tokenizer=TOKENIZER)
    error = caught.value
    assert error.limit == BUDGET
    assert system <= error.floor["system prompt"] <= system + 8
    assert set(error.floor) >= {"system prompt", "pins", "newest user message"}
    assert error.total == sum(error.floor.values())
    assert "Raise the limit" in str(error)
