"""N-1 as it is written: a provider's own compaction is never dropped silently."""

import json

import pytest

from compact import CompactManager, compress, plan, wiring
from tests import checker
from tests.doors.talking import Listener, session
from tests.scripted import ScriptedServer

TOLD = "The pilot Brandvold signs for quay 31; the deposit is 7,150 crowns."
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAB" + "q9" * 300}
MORE = "The mast and the keel were looked at again, and the brine was let out of the hull. "


def blocks(count, at):
    """Anthropic's messages; one answer begins with a compaction."""
    for i in range(count):
        compacted = [{"type": "compaction", "content": TOLD}] if i == at else []
        answer = {"type": "text", "text": f"Watch {i} is over. {MORE * 2}"}
        yield {"role": "user", "content": f"Keep watch {i}, please. {MORE}"}
        yield {"role": "assistant", "content": [*compacted, answer]}


def items(count, at):
    """Items of Responses; one answer is preceded by a compaction."""
    for i in range(count):
        said = {"type": "output_text", "text": f"Watch {i} is over. {MORE * 2}", "annotations": []}
        yield {"type": "message", "role": "user", "content": f"Keep watch {i}, please. {MORE}"}
        if i == at:
            yield SEALED
        yield {"type": "reasoning", "id": f"rs_{i}", "summary": [], "encrypted_content": "gA" * 40}
        yield {"type": "message", "role": "assistant", "id": f"msg_{i}", "content": [said]}


LISTS = {"anthropic": blocks, "responses": items}


def compacted_at(messages):
    """Where the compaction stands."""
    found = [i for i, m in enumerate(messages) if '"compaction"' in json.dumps(m)]
    assert len(found) == 1, messages
    return found[0]


@pytest.mark.parametrize("wire", LISTS)
@pytest.mark.parametrize("at", [1, 12])
def test_it_is_carried_along_at_every_budget_and_what_we_write_stands_behind_it(wire, at):
    """A provider does not read what stands before its compaction; ours counts after it."""
    messages = list(LISTS[wire](20, at))
    total = plan(messages, max_tokens=10**6).tokens_before or 0
    for tenth in range(2, 10):
        planned = plan(messages, max_tokens=total * tenth // 10)
        fitted = compress(messages, max_tokens=total * tenth // 10)
        assert not checker.broken_rules(fitted, wire)
        (ours,) = [i for i, m in enumerate(fitted) if "[Checkpoint ck-" in json.dumps(m)]
        assert compacted_at(fitted) < ours
        assert "own compaction" in planned.why_of(compacted_at(messages))


@pytest.mark.slow
@pytest.mark.parametrize("wire", LISTS)
def test_it_is_carried_along_after_many_compressions(wire):
    """In a list that is compressed again and again, in a session, and through `preflight`."""
    first, later = list(LISTS[wire](8, 3)), list(LISTS[wire](30, -1))[16:]
    listed = list(first)
    ctx = session(window=2_048, format=wire)
    ctx.add_messages(first)
    for message in later:
        listed = compress([*listed, message], max_tokens=1_200, format=wire, key=b"k" * 32)
        compacted_at(listed)
        ctx.add_message(message)
        compacted_at(ctx.get_context_for_model())
    assert compacted_at(CompactManager().preflight("harbour", [*first, *later])) >= 0


def test_another_provider_is_told_what_can_be_read_of_it_and_the_plan_what_cannot():
    """When the provider changes, the words of a block are words; of a seal it is said."""
    for wire in LISTS:
        heard = Listener()
        with ScriptedServer("It is done.", window=100_000) as server:
            ctx = session(window=2_048, format=wire, on_event=heard.append)
            ctx.add_messages(list(LISTS[wire](16, 3)))
            ctx.set_model(f"{server.url}/v1#scripted", 2_048)
            ctx.add_message({"role": "user", "content": "And now?"})
            ctx.send()
            prompts = [json.dumps(prompt.messages) for prompt in server.prompts]
        # a summary drafted ahead may have been asked for since
        sent = next(p for p in reversed(prompts) if '"content": "And now?"' in p)
        assert '"compaction"' not in sent
        if wire == "anthropic":
            assert TOLD in sent
        else:
            assert "summed up by a provider that alone can read it" in sent
            assert "cannot read it" in ctx.last_plan.explain()


def test_a_rollout_goes_on_from_it(tmp_path):
    """The newest Codex writes a sealed item where it wrote a summary."""
    rows = [{"type": "session_meta", "payload": {"id": "r-1"}}]
    kept = [*list(items(1, -1))[:1], SEALED]
    rows.append({"type": "compacted", "payload": {"message": "", "replacement_history": kept}})
    rows += [{"type": "response_item", "payload": item} for item in items(20, -1)]
    file = tmp_path / "rollout-1.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    messages = wiring.read_transcript(file).messages
    compacted_at([m.wire for m in messages])
    fitted = compress(messages, max_tokens=1_200)
    compacted_at([m.wire or {} for m in fitted])
