"""What a server and a site say about themselves: every odd site as what it is, and nothing private."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.async_reference import make_block
from tests.support.require import require
from tests.support.sites import run_of

from taskveil import methods
from taskveil.cli.main import run
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import system_noise
from taskveil.privacy.release import SharedAccount
from taskveil.runtime import in_process, wire
from taskveil.runtime.federation import status
from taskveil.runtime.federation.server.driver import Driver, Rules
from taskveil.runtime.federation.server.watch import Watch, WatchedCarrier
from taskveil.runtime.federation.site.owner import Site
from taskveil.runtime.federation.status import page, seen_as
from taskveil.runtime.run import Run
from taskveil.runtime.wire import Packet

NAMES = ["good", "slow", "late", "dead", "cut-off", "lying", "refusing"]
STATES = {"good": "answering", "slow": "slow", "late": "slow", "dead": "lost", "cut-off": "silent", "lying": "lying",
          "refusing": "refusing"}  # fmt: skip
DEADLINE = 1.2
SECRET = "48151623"


class OddCarrier:
    """Real sites in threads; each answers in its own way."""

    def __init__(self, sites: dict[str, Site]) -> None:
        self.sites, self.box, self.lock = sites, list[tuple[int, bytes | None]](), threading.Lock()

    def send(self, site: int, data: bytes) -> None:
        threading.Thread(target=self._answer, args=(site, data), daemon=True).start()

    def _answer(self, site: int, data: bytes) -> None:
        name = NAMES[site]
        reply: bytes | None = self.sites[name].handle(data)
        time.sleep({"slow": 0.6 * DEADLINE, "late": 1.3 * DEADLINE}.get(name, 0.0))
        if name == "cut-off":
            return
        reply = {"dead": None, "lying": b"\x00 [[[[ not a message"}.get(name, reply)
        with self.lock:
            self.box.append((site, reply))

    def receive(self, seconds: float) -> list[tuple[int, bytes | None]]:
        end = time.monotonic() + min(seconds, 0.02)
        while time.monotonic() < end and not self.box:
            time.sleep(0.002)
        with self.lock:
            box, self.box = self.box, []
        return box


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Watch:
    """Two real rounds with every kind of site."""
    block = make_block(n_tasks=len(NAMES))
    public = PublicInfo(len(NAMES), block.n_features, 1, "regression", declared_bounds=True)
    method, budget = methods.get("mean", rounds=2), Budget(2.0, 1e-5, aggregation="local")
    plan = make_plan(method.requests(public, budget), budget)
    other = make_plan(method.requests(public, budget), Budget(3.0, 1e-5, aggregation="local"))
    in_process.run(Run(method, public, plan, source=system_noise()), block)  # compiles what the clock must not count
    sites = {
        n: Site(n, Run(method, public, other if n == "refusing" else plan, SharedAccount()), block.take([t]), [t])
        for t, n in enumerate(NAMES)
    }
    path = tmp_path_factory.mktemp("watch") / "watch.json"
    watch = Watch(path, NAMES, [1] * len(NAMES), DEADLINE, lambda r: plan.spent_after(r) if r else None)
    carrier = WatchedCarrier(OddCarrier(sites), watch)
    members = [[t] for t in range(len(NAMES))]
    rules = Rules(deadline=DEADLINE, min_sites=1, attempts=1)
    driver = Driver(Run(method, public, plan, progress=watch.progress), carrier, members, rules)
    driver.on_refusal = watch.refusal
    driver.run()
    watch.write(now=True)
    return watch


def test_every_site_shows_as_what_it_is(watched):
    stored = json.loads(watched.path.read_text())
    assert {s["name"]: s["state"] for s in stored["sites"]} == STATES
    counts = {s["name"]: s for s in stored["sites"]}
    assert counts["good"]["answered"] == counts["good"]["asked"] == 3  # two rounds and the end
    assert counts["lying"]["answered"] == 0 and counts["lying"]["lying"] >= 2
    assert counts["dead"]["lost"] >= 2 and counts["cut-off"]["silent"] >= 2 and counts["refusing"]["refusing"] >= 2
    assert stored["round"] == stored["rounds"] == 2 and stored["spent"] == pytest.approx(2.0, rel=1e-3)


def test_before_its_first_answer_a_site_shows_whether_it_is_there_and_was_asked():
    """It said 'not asked yet' of sites that were connected, and of sites that had been asked."""
    assert seen_as({"name": "a", "state": "not asked yet"}, ["b"])[1] == "not there yet"
    assert seen_as({"name": "b", "state": "not asked yet"}, ["b"])[1] == "connected"
    assert seen_as({"name": "b", "state": "not asked yet", "waiting_since": 1.0}, ["b"])[1] == "asked, no answer yet"
    assert seen_as({"name": "b", "state": "lost"}, ["b"])[1] == "dead or cut off"


def content(watched: Watch, **more: Any) -> dict[str, Any]:
    stored = json.loads(watched.path.read_text())
    plan = {"epsilon": 2.0, "delta": 1e-5, "unit": "task", "neighbours": "replace-one", "observer": "server", "rounds": 3}
    made = {"role": "server", "name": "trial", "phase": "running", "reason": None, "plan": plan, "accounts": [], **stored, **more}
    return {**made, "versions": {"taskveil": "0"}}


def test_the_page_and_the_command_name_them_all_and_exit_1(watched, tmp_path, capsys):
    status.StatusFile(tmp_path).write(content(watched), now=True)
    html = (tmp_path / "status.html").read_text()
    for words in ("dead or cut off", "breaks the rules", "says no", "slow", "http-equiv=refresh"):
        assert words in html
    with pytest.raises(SystemExit) as ended:
        run(["status", str(tmp_path)])
    said = capsys.readouterr().out
    assert ended.value.code == 1 and said.count("ALARM") == 4
    for name in ("dead", "cut-off", "lying", "refusing"):
        assert f"site {name} " in said
    with pytest.raises(SystemExit) as ended:
        run(["status", str(tmp_path), "--json"])
    assert len(json.loads(capsys.readouterr().out)["alarms"]) == 4


def test_a_healthy_server_exits_0_and_one_nobody_writes_for_exits_1(watched, tmp_path, capsys):
    healthy = [s for s in content(watched)["sites"] if s["state"] == "answering"]
    status.StatusFile(tmp_path).write(content(watched, sites=healthy), now=True)
    assert status.read(tmp_path)["alarms"] == []
    stored = json.loads((tmp_path / "status.json").read_text())
    (tmp_path / "status.json").write_text(json.dumps({**stored, "updated": time.time() - 60}))
    assert any("not running" in text for text in status.read(tmp_path)["alarms"])
    (tmp_path / "status.json").write_text(json.dumps({**stored, "updated": time.time() - 60, "phase": "finished"}))
    assert status.read(tmp_path)["alarms"] == []


def test_words_of_a_site_cannot_become_code_on_the_page(watched):
    evil = "<script>alert(1)</script>"
    sites = [{"name": evil, "tasks": 1, "state": "lying", "reason": evil}]
    refusals = [{"time": 0.0, "site": evil, "reason": evil}]
    html = page({**content(watched, sites=sites, refusals=refusals, name=evil), "alarms": [evil]})
    assert evil not in html and "&lt;script&gt;" in html and "<script" not in html


def test_counts_go_on_after_a_restart(watched):
    again = Watch(watched.path, NAMES, [1] * len(NAMES), DEADLINE, lambda r: None)
    assert again.sites[0].asked == watched.sites[0].asked and again.round == 2
    watched.path.with_name("broken.json").write_text('{"sites": 3}')
    assert Watch(watched.path.with_name("broken.json"), ["a"], [1], 1.0, lambda r: None).sites[0].asked == 0


def test_the_words_of_a_site_do_not_decide_what_it_is_taken_for():
    """A site that refuses in the server's own words for a late answer is refusing, not slow."""
    parts = run_of()
    driver = Driver(Run(*parts), None, [[0]])
    seen: list[str] = []
    driver.on_refusal = lambda site, reason, kind: seen.append(kind)
    for words in ("no valid answer before the deadline", "a doubled or late message", "the message failed on the way"):
        driver.read(0, wire.encode(Packet("refused", {"reason": words})), 0, driver.rounds[0])
    driver.read(0, wire.encode(Packet("message", {"plan": driver.digest, "number": 7})), 0, driver.rounds[0])
    driver.read(0, b"", 0, driver.rounds[0])
    driver.read(0, None, 0, driver.rounds[0])
    assert seen == ["refusing"] * 3 + ["slow", "lying", "lost"]


@pytest.mark.parametrize("damage", ["{", "[]", '{"role": "magic"}', "[" * 100_000])
def test_a_damaged_status_is_refused_in_one_line(damage, tmp_path, capsys):
    (tmp_path / "status.json").write_text(damage)
    with pytest.raises(SystemExit) as ended:
        run(["status", str(tmp_path)])
    assert ended.value.code == 2 and capsys.readouterr().err.count("\n") == 1


def test_a_site_counts_what_it_sent_and_refused_and_never_a_value(tmp_path):
    for number in (0, 0, 1):
        status.note_answer(tmp_path, number, None)
    status.note_answer(tmp_path, None, "this site agreed to another plan")
    stored = json.loads((tmp_path / "answers.json").read_text())
    assert stored["answered"] == 2 and stored["refusals"][0]["reason"] == "this site agreed to another plan"


@pytest.mark.browser
def test_the_page_fits_its_window_by_day_and_by_night(watched, tmp_path):
    require("browser")
    from playwright.sync_api import sync_playwright

    account = {"account": "north", "unit": "task", "observer": "server", "limit": 2.0, "spent": 2.0, "left": 0.0}
    (tmp_path / "status.html").write_text(
        page({**content(watched, accounts=[account]), "alarms": status.alarms(content(watched, accounts=[account]))})
    )
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width, scheme in ((390, "light"), (390, "dark"), (1400, "light"), (1400, "dark")):
            view = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            view.goto((tmp_path / "status.html").as_uri())
            assert view.evaluate("document.documentElement.scrollWidth") <= width
            background = view.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (background == "rgb(255, 255, 255)") == (scheme == "light")
            assert view.locator("text=breaks the rules").first.is_visible()
            if os.environ.get("TASKVEIL_PICTURES"):
                view.screenshot(path=Path(os.environ["TASKVEIL_PICTURES"]) / f"status-{width}-{scheme}.png", full_page=True)
        browser.close()


def test_a_status_of_a_run_holds_no_row(tmp_path):
    """Planted twin: the same scan finds the value in a file that does hold it."""
    rows = np.full((5, 2), float(SECRET))
    status.StatusFile(tmp_path).write(
        {"role": "site", "name": "n", "phase": "taking part", "sites": [], "accounts": [], "refusals": [], "plan": {},
         "reason": None, "round": 0, "rounds": 1}, now=True)  # fmt: skip
    assert not holders(tmp_path)
    (tmp_path / "planted.json").write_text(json.dumps(rows.tolist()))
    assert holders(tmp_path) == ["planted.json"]


def holders(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if SECRET.encode() in p.read_bytes()]
