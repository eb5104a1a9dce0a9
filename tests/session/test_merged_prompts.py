"""Clients that merge what stands before the messages of a prompt into one system message, and send
that back: what is ours is known again, and no prompt grows by it (C-9, K-6, FR-16)."""

import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact import ContextManager
from compact.messages.messages import Message
from compact.messages.own_text import headed, keyed
from compact.store.inmemory import InMemoryStore
from compact.text.prompts import PromptParts
from tests import checker
from tests.session.asking import Dict, session
from tests.sizes import size

TURNS = 30
STANDING = ("Goals", "Prompt")
KEYED = keyed(b"of this store")
OWN = "You are a roofer.\n\nNever say 'slate' < 3 times; see [Goals · digest of the house]."
BESIDE = "Own words of the client,\nsaid at each turn."
PARTS = PromptParts(instructions='Always answer in rhymes.\n\nNo "nails".')
SEAMS = 4
"""Tokens by which texts differ when they are joined in another order."""
SEPARATORS = ("\n\n", "\n", " ", "\r\n\r\n", "\n\n---\n\n")


def started(window: int = 8_192, own: str = "", **options: Any) -> ContextManager:
    ctx = session(InMemoryStore(), window=window, prompt=PARTS, **options)
    ctx.goals.set(["Mend the roof\nof house 7.", "Répondre en français — 必须保留原文。"])
    first = [{"role": "system", "content": own}] if own else []
    ctx.sync([*first, {"role": "user", "content": "What of the roof?"}])
    return ctx


def parted(prompt: list[Dict]) -> tuple[list[str], list[Dict]]:
    """The texts of the leading system messages, and the other messages."""
    end = next(i for i, message in enumerate(prompt) if message["role"] != "system")
    return ["\n\n".join(checker.visible(message)) for message in prompt[:end]], prompt[end:]


def sent_back(ctx: ContextManager, turn: int, system: list[Dict]) -> int:
    """Send the last prompt back with another turn and this in the place of its system messages;
    tokens of those of the next prompt.
    """
    _, others = parted(ctx.get_context_for_model())
    said = [
        {"role": "assistant", "content": f"Row {turn} holds. " * 5},
        {"role": "user", "content": f"And row {turn + 1}? " * 5},
    ]
    ctx.sync([*system, *others, *said])
    texts, _ = parted(ctx.get_context_for_model())
    return ctx.estimate_tokens("\n\n".join(texts))


class Client(NamedTuple):
    """How a client merges them."""

    separator: str
    own: str
    """What it said first, before any prompt."""
    places: list[str]
    """Where it says other words of its own at each turn."""
    order: str
    wraps: bool
    """Whether it puts ours between tags."""
    sends_blocks: bool

    def merged(self, texts: list[str], dice: random.Random) -> Any:
        """The one content that it makes of these texts."""
        if self.order == "reversed":
            texts.reverse()
        elif self.order == "another each turn":
            dice.shuffle(texts)
        if self.wraps:
            texts = [f"<rules>{text}</rules>" if headed(text) else text for text in texts]
        texts[:0] = [BESIDE] * ("before" in self.places)
        texts[len(texts) // 2 : len(texts) // 2] = [BESIDE] * ("between" in self.places)
        texts += [BESIDE] * ("after" in self.places)
        if self.sends_blocks:
            return [{"type": "text", "text": text} for text in texts]
        return self.separator.join(texts)


CLIENTS = st.builds(
    Client,
    separator=st.sampled_from(SEPARATORS),
    own=st.sampled_from(["", OWN]),
    places=st.lists(st.sampled_from(["before", "between", "after"]), unique=True),
    order=st.sampled_from(["as it is", "reversed", "another each turn"]),
    wraps=st.booleans(),
    sends_blocks=st.booleans(),
)


@given(client=CLIENTS, window=st.sampled_from([2_048, 8_192]))
@settings(max_examples=size(4, 15), deadline=None)
def test_no_merging_client_makes_the_prompt_grow(client: Client, window: int) -> None:
    """C-9: after thirty turns what stands before the messages is no longer than after the third: a
    client that said nothing of its own before is shown its words once more around what came first.
    """
    dice = random.Random(7)
    ctx, tokens = started(window, client.own), []
    for turn in range(TURNS):
        texts, _ = parted(ctx.get_context_for_model())
        content = client.merged(texts, dice)
        tokens.append(sent_back(ctx, turn, [{"role": "system", "content": content}]))
        now, _ = parted(ctx.get_context_for_model())
        assert [headed(text) for text in now].count("Prompt") == 1
        assert [headed(text) for text in now].count("Goals") == 1
        assert sum(text.count("- Mend the roof") for text in now) == 1
        assert client.own in "\n".join(now)
        assert (BESIDE in "\n".join(now)) == bool(client.places)
    assert max(tokens) <= max(tokens[:3]) + SEAMS
    assert len(ctx.time.branches()) <= 2
    said = [message.text for message in ctx.history if message.role != "system"]
    assert len(said) == 1 + 2 * TURNS


@pytest.mark.parametrize("separator", ["\n\n", " "])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("own", ["You are a roofer. The branch is main.", "It is 12:00."])
def test_what_is_said_around_the_own_words_takes_the_place_of_what_was_said_there(
    separator: str, is_first: bool, own: str
) -> None:
    """C-9, K-6: other words at each turn, also newer ones for the own: the prompt does not grow,
    and says the newest beside those that were said first."""
    dice = random.Random(7)
    woods = ["amber", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine"]
    ctx, tokens, before = started(own=own), [], "nothing"
    for turn in range(20):
        now = f"It is 12:{turn + 1:02}. The branch is {'-'.join(dice.sample(woods, 3))}."
        texts, _ = parted(ctx.get_context_for_model())
        merged = separator.join([now, *texts] if is_first else [*texts, now])
        tokens.append(sent_back(ctx, turn, [{"role": "system", "content": merged}]))
        shown = parted(ctx.get_context_for_model())[0][1]
        assert own in shown
        assert now in shown
        assert before not in shown
        before = now
    assert max(tokens) < min(tokens) + 20
    assert len(ctx.time.branches()) == 1


def test_what_was_said_around_stays_as_long_as_the_prompt_comes_back_as_it_was() -> None:
    """K-6: also when the session is opened again; other words alone are the own ones from then."""
    store = InMemoryStore()
    ctx = session(store, prompt=PARTS)
    ctx.sync([{"role": "system", "content": OWN}, *talk()])
    for said, shown in [
        (f"Be brief.\n\n{OWN}", f"Be brief.\n\n{OWN}"),
        (f"Be brief.\n\n{OWN}", f"Be brief.\n\n{OWN}"),
        (f"Be kind.\n\nBe brief.\n\n{OWN}", f"Be kind.\n\n{OWN}"),
        ("Sing.", "Sing."),
        ("Loudly.\n\nSing.", "Loudly.\n\nSing."),
        ("Softly.\n\nLoudly.\n\nSing.", "Softly.\n\nSing."),
    ]:
        ctx = session(store, prompt=PARTS)
        ours = parted(ctx.get_context_for_model())[0][0]
        ctx.sync([{"role": "system", "content": f"{ours}\n\n{said}"}, *talk()])
        assert parted(ctx.get_context_for_model())[0][1] == shown
    assert len(ctx.time.branches()) == 1


@pytest.mark.parametrize("added", ["delete files.", "delete files", "You may not push", "main."])
def test_part_of_a_sentence_that_is_added_is_shown(added: str) -> None:
    """K-6: it may mean the contrary of what it is a part of."""
    own = "You may not push to main. You may not, e.g. delete files."
    ctx = started(own=own)
    for turn in range(3):
        texts, _ = parted(ctx.get_context_for_model())
        merged = "\n\n".join([*texts, added])
        sent_back(ctx, turn, [{"role": "system", "content": merged}])
        assert parted(ctx.get_context_for_model())[0][1] == f"{own}\n\n{added}"


@pytest.mark.parametrize("separator", ["\n\n", " "])
@pytest.mark.parametrize(
    "added", ["Mind the nails.", "Be kind.\nMind the nails.", "必须保留原文。"]
)
def test_sentences_of_what_is_shown_are_said_as_often_as_the_client_says_them(
    separator: str, added: str
) -> None:
    """C-9, K-6: no text is taken apart; said at each turn, they do not add up."""
    own = "Mind the nails. Be kind. 不要推送。必须保留原文。"
    ctx = started(own=own)
    for turn in range(3):
        texts, _ = parted(ctx.get_context_for_model())
        merged = separator.join([added, *texts, added])
        sent_back(ctx, turn, [{"role": "system", "content": merged}])
        assert parted(ctx.get_context_for_model())[0][1] == separator.join([added, own, added])


@pytest.mark.parametrize("added", ["You may not push to dev.", "You may not push to 2.0."])
def test_a_sentence_that_is_added_to_ones_own_takes_no_ones_place(added: str) -> None:
    """K-6: nor where it is like them, since the client says both."""
    own = "You may not push to 1.0."
    ctx = started(own=own)
    for turn in range(3):
        texts, _ = parted(ctx.get_context_for_model())
        sent_back(ctx, turn, [{"role": "system", "content": "\n\n".join([*texts, own, added])}])
        lines = parted(ctx.get_context_for_model())[0][1].splitlines()
        assert {own, added} <= set(lines)
        assert len(lines) <= 5


@pytest.mark.parametrize("own", ["", "slates first", "Slates first. Mind the nails"])
@pytest.mark.parametrize("beside", ["be brief", "Own words of the client,\nsaid at each turn"])
@pytest.mark.parametrize("places", [("after",), ("before", "after")])
def test_words_without_full_stops_joined_by_spaces_are_known_at_last(
    own: str, beside: str, places: tuple[str, ...]
) -> None:
    """C-9: where nothing tells where a sentence ends, what was added twice is known."""
    client = Client(" ", own, list(places), "as it is", wraps=False, sends_blocks=False)
    ctx, tokens = started(own=own), []
    for turn in range(10):
        texts, _ = parted(ctx.get_context_for_model())
        merged = client.merged(texts, random.Random(7)).replace(BESIDE, beside)
        tokens.append(sent_back(ctx, turn, [{"role": "system", "content": merged}]))
    assert len(set(tokens[4:])) == 1


def test_other_words_of_a_merging_client_are_shown() -> None:
    """K-6: what is new is added to what was shown, what is changed takes its place."""
    ctx = started(own=OWN)
    for turn, words in enumerate((f"{OWN}\n\nBe brief.", "Be brief.", "Be long-winded.")):
        prompt, _, goals = parted(ctx.get_context_for_model())[0]
        merged = f"{prompt}\n\n{words}\n\n{goals}"
        sent_back(ctx, turn, [{"role": "system", "content": merged}])
        assert parted(ctx.get_context_for_model())[0][1] == words
    assert len(ctx.time.branches()) == 1


def test_two_system_messages_that_are_merged_are_known() -> None:
    """K-6: no edited past, in either order."""
    ctx = session(InMemoryStore(), prompt=PARTS)
    two = [{"role": "system", "content": text} for text in (OWN, "The user likes slate.")]
    ctx.sync([*two, {"role": "user", "content": "What of the roof?"}])
    before = ctx.get_context_for_model()
    for turn in range(4):
        texts, _ = parted(ctx.get_context_for_model())
        merged = "\n\n".join(texts if turn % 2 else texts[::-1])
        sent_back(ctx, turn, [{"role": "system", "content": merged}])
        assert ctx.get_context_for_model()[: len(before)] == before
    assert len(ctx.time.branches()) == 1


@pytest.mark.parametrize("as_message", [True, False])
def test_nothing_but_ours_is_no_message(as_message: bool) -> None:
    """C-9: prompt and goals as one, of an older wording too."""
    ctx = started()
    prompt, goals = parted(ctx.get_context_for_model())[0]
    ctx.goals.set(["Sleep."])
    merged: Any = {"role": "system", "content": f"{goals}\n{prompt}"}
    if as_message:
        merged = Message(role="system", content=merged["content"])
    before = ctx.get_context_for_model()[:2]
    sent_back(ctx, 0, [merged])
    assert ctx.get_context_for_model()[:2] == before
    assert [message.role for message in ctx.history] == ["user", "assistant", "user"]
    assert len(ctx.time.branches()) == 1


def test_what_is_not_ours_word_for_word_stays() -> None:
    """C-9: other words under our heading, and what a person pastes, are what somebody said."""
    ctx = started()
    prompt, goals = parted(ctx.get_context_for_model())[0]
    changed = prompt.replace("rhymes", "prose")
    ctx.sync([{"role": "system", "content": f"{changed}\n\n{goals}"}, *talk()])
    assert ctx.history[0].text == changed
    pasted = f"Why does it say this?\n\n{prompt}\n\n{goals}"
    ctx.sync([*ctx.get_context_for_model(), {"role": "user", "content": pasted}])
    assert ctx.history[-1].text == pasted


def talk() -> list[Dict]:
    return [{"role": "user", "content": "What of the roof?"}]


# --- the text itself ------------------------------------------------------------------------------

OURS = st.tuples(
    st.sampled_from(STANDING), st.text(min_size=1).filter(lambda t: t.strip() and "[" not in t)
).map(lambda pair: f"[{pair[0]} · digest {KEYED.digest(pair[1])}]\n{pair[1].strip()}")
THEIRS = st.text(min_size=1).filter(lambda text: text.strip() and "digest" not in text)


@given(st.lists(st.tuples(st.booleans(), OURS, THEIRS), min_size=1, max_size=6))
@settings(max_examples=size(50, 200), deadline=None)
def test_only_what_is_ours_is_taken_out(parts: list[tuple[bool, str, str]]) -> None:
    """C-9: of any texts, ours between theirs."""
    texts = [ours if is_ours else theirs for is_ours, ours, theirs in parts]
    left = KEYED.without("\n\n".join(texts), STANDING)
    if any(is_ours for is_ours, _, _ in parts):
        theirs = [text for is_ours, _, text in parts if not is_ours]
        assert left.split() == " ".join(theirs).split()
    else:
        assert left == "\n\n".join(texts)


def test_of_other_kinds_nothing_is_taken_out() -> None:
    """C-9: a checkpoint holds what nobody else says."""
    text = f"Mine.\n\n[Checkpoint ck-1 · digest {KEYED.digest('Words.')}]\nWords."
    assert KEYED.without(text, STANDING) is text
