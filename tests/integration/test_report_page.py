"""The demo's page in a real browser: no console error, no request, the verdict and the charts visible on phone and desk."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support.require import require

from taskveil.audits import audit_configured
from taskveil.cli.demo import private_run, table
from taskveil.cli.demo import run as compare_hospitals
from taskveil.report import ledger_page, report_folder, write_comparison
from taskveil.report.audience import Audience
from taskveil.report.board import write_board
from taskveil.report.gallery_page import write_gallery

pytestmark = pytest.mark.browser
ARTEFACTS = Path(__file__).parents[2] / "test-artefacts"
WIDTHS = {"phone": (390, 844), "desk": (1400, 900)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("demo")
    estimator = private_run(0, place)
    (place / "audit.json").write_text(json.dumps(audit_configured(estimator, trials=20, seed=0).to_dict()))
    compared = compare_hospitals(seed=0, repeats=2)
    assert len({r["method"] for r in compared["results"]}) == 4 and "together" in table(compared)  # every row has its words
    write_comparison(compared, place, estimator)
    return place


@pytest.fixture(scope="module")
def browser():
    require("browser")
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


def opened(browser, path: Path, size: tuple[int, int], scheme: str = "light"):
    """The page after its charts are drawn, with all it complained about and asked for."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    heard: list[str] = []
    page.on("console", lambda m: heard.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: heard.append(f"error: {e}"))
    page.on("request", lambda r: heard.append(f"request: {r.url[:80]}") if not r.url.startswith(("file:", "data:")) else None)
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.drawn")
    return page, heard


@pytest.mark.parametrize("width", WIDTHS)
def test_the_demo_page_shows_its_verdict_and_its_charts(browser, folder, width):
    page, heard = opened(browser, folder / "report.html", WIDTHS[width])
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"report-{width}.png", full_page=True)
    assert heard == []
    assert "at most epsilon 1" in page.inner_text("#verdict") and page.locator("#verdict").is_visible()
    boxes = [c.bounding_box() for c in page.locator(".chart .main-svg:first-child").all() if c.is_visible()]
    assert len([b for b in boxes if b and b["width"] > 200 and b["height"] > 100]) >= 5
    drawn = {c.get_attribute("data-chart") for c in page.locator(".chart").all()}
    assert {"curves", "gain", "budget", "noise", "audit"} < drawn and len(drawn) >= 7  # the rest: the shared structure
    assert page.evaluate(CONTRAST) >= 7
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width][0]  # nothing sticks out sideways
    page.context.close()


def test_the_page_stays_under_six_megabytes(folder):
    assert (folder / "report.html").stat().st_size < 6_000_000


def test_dark_and_print_have_contrast_and_the_keyboard_reaches_the_tables(browser, folder):
    """Ink against card keeps at least 7 to 1."""
    page, heard = opened(browser, folder / "report.html", WIDTHS["desk"], "dark")
    page.screenshot(path=ARTEFACTS / "report-dark.png", full_page=True)
    ratios = [page.evaluate(CONTRAST)]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details table").first.is_visible()
    page.emulate_media(media="print")
    ratios.append(page.evaluate(CONTRAST))
    assert heard == [] and min(ratios) >= 7
    page.context.close()


@pytest.mark.parametrize("audience", [Audience("public"), Audience("owner", "hospital-003")], ids=["public", "owner"])
def test_pages_for_owner_and_public_draw_too(browser, folder, audience):
    page, heard = opened(browser, report_folder(folder, audience), WIDTHS["phone"])
    page.screenshot(path=ARTEFACTS / f"report-{audience.kind}.png", full_page=True)
    assert heard == [] and "at most epsilon 1" in page.inner_text("#verdict")
    assert int(page.evaluate("document.documentElement.dataset.drawn")) >= 2
    page.context.close()


CONTRAST = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = name => {
    const n = parseInt(style.getPropertyValue(name).trim().slice(1), 16);
    const part = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(n >> 16 & 255) + 0.7152 * part(n >> 8 & 255) + 0.0722 * part(n & 255);
  };
  const [a, b] = [light("--ink"), light("--card")].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""


OVERLAPS = """() => {
  const texts = [...document.querySelectorAll("#picture text")].map(t => [t.textContent, t.getBoundingClientRect()]);
  const shared = (a, b, from, to) => Math.max(0, Math.min(a[to], b[to]) - Math.max(a[from], b[from]));
  const area = (a, b) => shared(a, b, "left", "right") * shared(a, b, "top", "bottom");
  return texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([, b]) => area(a, b) > 15).map(([two]) => [one, two]));
}"""


def test_every_picture_of_the_gallery_is_drawn_and_no_word_lies_over_another_on_a_telephone_or_on_paper(browser, tmp_path):
    """Names of panels lay over the ticks above them, a legend over the names of bars; on paper names over each other."""
    pages = [path for path in write_gallery(tmp_path) if path.suffix == ".html"]
    assert len(pages) == 7
    for path in pages:
        page, heard = opened(browser, path, WIDTHS["phone"], "dark")
        assert heard == [] and page.locator(".barlayer path, .boxlayer path, .heatmaplayer image").count(), path.name
        assert page.evaluate(OVERLAPS) == [], path.name
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS["phone"][0]
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
        page.set_viewport_size({"width": 720, "height": 900})
        page.emulate_media(media="print")
        page.wait_for_timeout(400)  # until the picture has the width of the sheet
        page.evaluate("draw()")
        assert page.evaluate(OVERLAPS) == [], f"{path.name} on paper"
        page.context.close()


@pytest.mark.parametrize(("width", "media"), [(390, "screen"), (1400, "screen"), (700, "print")])
def test_the_ledger_and_the_board_stay_inside_a_telephone_and_a_sheet(browser, folder, tmp_path, width, media):
    """Names of runs and times are long: a table of them ran out of its frame."""
    entries = [{"at": "2026-11-16T09:02:06.164934+00:00", "run": 32 * "f", "what": "reserve", "spent": s} for s in (1.0, 2.5)]
    sentence = {"unit": "task", "neighbours": "replace-one", "observer": "other-tasks", "rule": "renyi"}
    account = {"account": "clinics", "limit": 3.0, "delta": 1e-5, "spent": 2.5, "next_run_fits": True, "runs_left": 1, **sentence}
    ledger = tmp_path / "ledger.html"
    ledger.write_text(ledger_page.page([{**account, "history": entries}]))
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.emulate_media(media=media)
    for path in (ledger, write_board(folder / "model" if (folder / "model").is_dir() else folder)):
        page.goto(path.as_uri())
        edges = "[...document.querySelectorAll('body *')].map(e => e.getBoundingClientRect().right)"
        assert page.evaluate(f"Math.max(...{edges})") <= width, path.name
