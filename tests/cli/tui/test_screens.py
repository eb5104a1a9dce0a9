"""What the screens look like, in a small and a large terminal, light and dark (FR-9, US-7).

The cells are compared, without colours and scroll bars, with the files in `screens`. One that is
missing is written, and the test fails once: look at it before it is kept.
"""

import itertools
from pathlib import Path

import pytest
from rich.color_triplet import ColorTriplet

from compact.tui.following import ProgressStep
from compact.tui.prompt_input import BLOCKED, PromptInput
from compact.tui.status_lines import Compressing
from tests.cli.tui.driving import LARGE, MODEL, SMALL, alone, running, setup

SCREENS = Path(__file__).parent / "screens"
SCROLL_BAR = str.maketrans(dict.fromkeys("▁▂▃▄▅▆▇", " "))
READABLE = 3.0
"""The contrast of two colours from which large text can be read (WCAG 2)."""
LONG = "The winter berths are opened on the 10th, and the crane is mended before. " * 5


async def first(chat):
    """Nobody has named a model."""


async def talking(chat):
    """Two turns, a goal, and what was said of it."""
    await chat.say("Is berth **four** free?")
    await chat.say("And who keeps the key of the office?")
    await chat.say("/goal Mend the roof before week 42")


async def compressed(chat):
    """After some compressions."""
    for _ in range(4):
        await chat.say(LONG)


async def compressing(chat):
    """A compression that is waited for."""
    await talking(chat)
    detail = "qwen3:8b writes"
    chat.screen.query_one(PromptInput).block(is_blocked=True)
    chat.screen.query_one(Compressing).show(ProgressStep("stage 3 of 6, summarizing", 0.4, detail))
    await chat.pilot.pause()


async def offered(chat):
    """What a slash and a letter may become."""
    await chat.pilot.press("slash", "r")
    await chat.pilot.pause()


async def help_page(chat):
    """Keys and commands."""
    await chat.pilot.press("f1")
    await chat.pilot.pause()


async def review(chat):
    """Summaries before they count."""
    for name in ("anchor", "barrel", "crane"):
        await chat.say(f"The {name} lies in the north. {LONG}")
    await chat.send("/review")
    await chat.until(lambda: bool(chat.app.screen.query("#review")), "the review")
    await chat.pilot.pause()


UNSTEADY = (compressed, review)
"""Screens with figures that depend on ids drawn at random: they are only looked at for colours."""
WAYS = (first, talking, compressed, compressing, offered, help_page, review)


def model_of(way):
    return {} if way is first else {"model": "echo:4k" if way is review else MODEL}


@pytest.fixture(autouse=True)
def _nobody(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "size"),
    list(itertools.product(WAYS, (SMALL, LARGE))),
    ids=lambda each: getattr(each, "__name__", None) or f"{each[0]}x{each[1]}",
)
@alone
async def test_a_screen_looks_as_it_did(tmp_path, way, size):
    """Light and dark have the same cells; in both every letter can be read."""
    name = f"{way.__name__}-{size[0]}x{size[1]}.txt"
    seen = []
    for light in (False, True):
        given = setup(tmp_path, tmp_path / f"{light}.db", **model_of(way))
        async with running(given, size, light=light) as chat:
            await way(chat)
            await chat.pilot.pause()
            seen.append(cells(chat.text))
            assert unreadable(chat) == set()
    if way in UNSTEADY:
        return
    assert seen[0] == seen[1]
    file = SCREENS / name
    if not file.exists():
        SCREENS.mkdir(exist_ok=True)
        file.write_text(seen[0], encoding="utf-8")
        pytest.fail(f"{file} was written: look at it")
    assert seen[0] == file.read_text(encoding="utf-8")


def cells(text):
    return "\n".join(line.rstrip() for line in text.translate(SCROLL_BAR).splitlines()) + "\n"


def unreadable(chat):
    """Words whose colour is too near that of what is behind them."""
    found = set()
    for row in chat.app.screen._compositor.render_strips():
        for part in row:
            style = part.style
            if not style or not style.color or not style.bgcolor or not part.text.strip(" ▊▎▔▁▌"):
                continue
            if part.text.strip() in BLOCKED:  # WCAG asks nothing of what is inactive
                continue
            if style.dim or not any(letter.isalnum() for letter in part.text):
                continue
            if contrast(style.color.get_truecolor(), style.bgcolor.get_truecolor()) < READABLE:
                found.add((part.text.strip(), str(style)))
    return found


def contrast(one: ColorTriplet, other: ColorTriplet) -> float:
    """The contrast ratio of WCAG 2."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: ColorTriplet) -> float:
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_two_colours_that_are_too_near_are_seen():
    assert contrast(ColorTriplet(0, 0, 0), ColorTriplet(255, 255, 255)) == pytest.approx(21)
    assert contrast(ColorTriplet(90, 90, 90), ColorTriplet(60, 60, 60)) < READABLE
