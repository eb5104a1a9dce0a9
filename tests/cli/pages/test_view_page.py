"""The page of a session, opened in a real browser (K-15, US-2, US-7)."""

import shutil
from pathlib import Path

import pytest

from compact import CompactConfig, ContextManager, wiring
from compact.cli.commands.view import replay
from compact.cli.pages import page, session_data
from tests.sizes import size

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SAMPLE = Path(wiring.__file__).parent / "cli/sample/harbour.jsonl"
OWNED = 'document.title="owned"'
LOOKS = [(1280, "dark"), (400, "light"), (1280, "light"), (400, "dark")]
"""Widths in pixels, and themes. By day the first two are checked."""
HOSTILE = f"</script><script>{OWNED}</script><img src=x onerror={OWNED}>"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: pages are not opened"),
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def number_in(text):
    return int(text.strip().replace(",", ""))


def paged(messages, file, window=8_192, *, goal=""):
    """The page of these messages, as they would have been sent one by one."""
    with ContextManager(window=window, session_id="harbour") as ctx:
        if goal:
            ctx.goals.set([goal])
        replay(ctx, messages, on_message=lambda *_: None)
        session = ctx.store.session("harbour")
        redactor = CompactConfig().redactor()
        data = session_data.page_data(ctx, session, redactor=redactor, replayed=True)
    file.write_text(page.page_html(data), encoding="utf-8")
    return data


@pytest.fixture(scope="module")
def harbour(tmp_path_factory):
    """The page of the sample, with a hostile message at its end."""
    file = tmp_path_factory.mktemp("page") / "harbour.html"
    messages = list(wiring.read_transcript(SAMPLE).messages)
    messages.append(messages[-1].model_copy(update={"id": "hostile", "content": HOSTILE}))
    return file, paged(messages, file, goal="Open the berths.")


@pytest.fixture
def opened(browser, harbour):
    """The page, and what its browser complained of or fetched."""
    made = browser.new_page(viewport={"width": 1280, "height": 800})
    complaints = []
    made.on("console", lambda said: complaints.append(said.text))
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on(
        "request",
        lambda asked: None if asked.url.startswith("file:") else complaints.append(asked.url),
    )
    made.goto(harbour[0].as_uri())
    yield made, complaints
    made.close()


def test_it_shows_the_session_and_fetches_nothing(opened, harbour):
    shown, complaints = opened
    assert "512 messages" in shown.inner_text("#about")
    assert "Goal (active): Open the berths." in shown.inner_text("header")
    steps = shown.locator("#steps tbody tr")
    assert steps.count() == len(harbour[1]["moves"]) > 10
    assert shown.locator("#checkpoints details").count() > 10
    assert complaints == []


def test_its_heading_says_whether_a_model_saw_it(browser, harbour, tmp_path):
    """A conversation from a file was sent to nobody in this window."""
    data, headings = dict(harbour[1]), []
    for replayed, imported in ((True, False), (False, True), (False, False)):
        told = {**data["session"], "replayed": replayed, "imported": imported}
        (tmp_path / "page.html").write_text(page.page_html({**data, "session": told}), "utf-8")
        shown = browser.new_page()
        shown.goto((tmp_path / "page.html").as_uri())
        headings.append(shown.inner_text("#seen-heading"))
        assert headings[-1] in shown.inner_text("#charts")
        shown.close()
    assert headings == ["What would have been sent", "What was in view", "What the model saw"]


def test_each_step_says_what_it_came_from(opened, harbour):
    """Before a compression stands the prompt that it was made of, with its newest messages."""
    shown, _ = opened
    rows = shown.locator("#steps tbody tr").all_inner_texts()
    before, after = zip(*(map(number_in, row.split("\t")[3:5]) for row in rows), strict=True)
    assert all(one > other for one, other in zip(before, after, strict=True))
    views, tokens = harbour[1]["views"], harbour[1]["messages"]["tokens"]
    first = harbour[1]["moves"][0]["at"]
    assert before[0] == views[0]["tokens"] + sum(tokens[:first])


def test_a_prompt_that_would_not_fit_is_called_so(browser, tmp_path):
    """Of a session that was imported and compressed once, no such prompt was ever sent."""
    messages = list(wiring.read_transcript(SAMPLE).messages)
    with ContextManager(window=8_192, session_id="harbour") as ctx:
        ctx.add_messages(messages)
        ctx.compress_conversation()
        told = session_data.page_data(ctx, ctx.store.session("harbour"), redactor=None)
    (tmp_path / "page.html").write_text(page.page_html(told), encoding="utf-8")
    shown = browser.new_page()
    shown.goto((tmp_path / "page.html").as_uri())
    assert "More than a prompt may have" not in shown.inner_text("#seen-about")
    shown.focus("#turn")
    shown.keyboard.press("ArrowLeft")
    assert "More than a prompt may have" in shown.inner_text("#seen-about")
    assert shown.inner_text("#about").startswith("511 messages"), "its id stands above"
    shown.close()


def test_what_a_conversation_holds_is_never_markup(opened):
    shown, complaints = opened
    shown.fill("#query", "onerror")
    shown.locator("#found details summary").first.click()
    assert HOSTILE in shown.inner_text("#found pre")
    assert "owned" not in shown.title()
    assert shown.locator("img").count() == 0
    assert complaints == []


def test_the_keyboard_is_enough(opened, harbour):
    shown, _ = opened
    shown.focus("#turn")
    shown.keyboard.press("Home")
    assert shown.inner_text("#turn-at").startswith("0 of")
    assert "0 messages word for word" in shown.inner_text("#seen-about")
    shown.keyboard.press("ArrowRight")
    assert shown.inner_text("#turn-at").startswith("1 of")
    shown.focus("#forth")
    shown.keyboard.press("Enter")
    first = harbour[1]["moves"][0]["at"]
    assert shown.inner_text("#turn-at") == f"{first} of 512"
    shown.locator("#seen-items summary").first.focus()
    shown.keyboard.press("Enter")
    shown.wait_for_selector("#seen-items pre")
    assert shown.locator("#seen-items pre").count() == 1


def test_a_turn_shows_what_the_model_saw_then(opened, harbour):
    """The tokens are those of `context_at` wherever a prompt is made: before each answer."""
    shown, _ = opened
    messages = list(wiring.read_transcript(SAMPLE).messages)
    with ContextManager(window=8_192, session_id="harbour") as ctx:
        ctx.goals.set(["Open the berths."])
        replay(ctx, messages, on_message=lambda *_: None)
        asked = [at for at, each in enumerate(messages) if each.role == "assistant" and at]
        for at in asked[::23]:
            told = shown.evaluate(f"""() => {{
                const slider = document.getElementById("turn");
                slider.value = {at};
                slider.dispatchEvent(new Event("input"));
                return document.getElementById("seen-about").textContent;
            }}""")
            assert told.startswith(f"{ctx.time.context_at(at).tokens:,} of 8,192"), at


@pytest.mark.parametrize(("width", "theme"), LOOKS[: size(2, 4)])
def test_contrast_roles_and_names(browser, harbour, theme, width):
    from axe_playwright_python.sync_playwright import Axe

    shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    shown.goto(harbour[0].as_uri())
    shown.locator("#checkpoints summary").first.click()
    shown.fill("#query", "berth")
    shown.wait_for_selector("#found li")
    found = Axe().run(shown)
    report = found.generate_report()
    wide = shown.evaluate("document.documentElement.scrollWidth")
    steps = shown.evaluate("document.querySelector('#steps table').getBoundingClientRect().right")
    shown.close()
    assert found.violations_count == 0, report
    assert wide <= width, "nothing is cut on a narrow screen"
    assert steps <= width, "nor do the steps have to be moved"
