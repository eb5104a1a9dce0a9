"""FR-2, FR-9 and US-7 as they are written: what a person sees of a compression in the chat program,
in a real terminal.
"""

import pytest

from tests.cli.tui.terminal import chatting
from tests.doors.talking import STORY, chat_key, turns
from tests.scripted import Hangs, ScriptedServer

pytestmark = pytest.mark.slow
SLOWLY = 4.0
"""Seconds that a summary takes."""


def answering(answers):
    """A server's script: summaries come slowly, the conversation's answers at once."""

    def script(request):
        if "hand-over of a conversation" in request.instructions:
            return Hangs(SLOWLY, STORY)
        return next(answers)

    return script


def test_a_person_sees_a_compression_happen_and_what_it_freed(tmp_path):
    """FR-9: "A person sees 'Compressing context…', a progress indicator, blocked input and a
    completion message with what was freed." FR-2: "input blocked and progress shown meanwhile".
    US-7 is FR-9.
    """
    said = [each["content"] for each in turns(12, words=100)]
    with ScriptedServer(answering(iter(said[1::2])), window=8_192) as server:
        key = chat_key(server)
        env = {"COMPACT_SUMMARIZER": key, "COMPACT_DRAFT_RATIO": "1"}
        with chatting(tmp_path, "--model", key, "--window", "8k", env=env) as terminal:
            for n, question in enumerate(said[::2]):
                terminal.write(question)
                terminal.sees(f"Answer {n}:", "Say something")
            terminal.write("/compact")
            seen = terminal.sees("Compressing context… stage 3 of 6", "%")
            assert "Esc cancels" in seen
            terminal.write("these words come nowhere")
            assert "these words" not in terminal.text
            seen = terminal.sees("Compressed", "freed", "▒ checkpoints", "Say something")
            assert "Compressing context…" not in seen
