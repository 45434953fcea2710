"""Real Flower on loopback: the commands of deploy/ as they stand there, and a run with a slow, a dead and a lying site."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support import deployment
from tests.support.federation import SITES, Trial
from tests.support.require import require

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]
RUN = 'method = "mean"\nepsilon = 1.0\naggregation = "local"\n[run.options]\nrounds = 2'
ODD_SITE = """
import importlib.abc, importlib.machinery, os, sys, time

class AfterImport(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "taskveil.runtime.federation.site.decisions":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module
        def patched(module):
            run(module)
            good = module.answer_for
            def answer_for(site):
                handle = good(site)
                def answer(data):
                    reply = handle(data)
                    time.sleep(float(os.environ.get("SLOW_SITE", "0")))
                    return b"[[[[ a lie" if os.environ.get("LYING_SITE") else reply
                return answer
            module.answer_for = answer_for
        spec.loader.exec_module = patched
        return spec

sys.meta_path.insert(0, AfterImport())
"""


def test_the_commands_of_the_deployment_files_run_a_federation(tmp_path):
    """Paths are mapped to folders here; everything else is as in the container and in the units."""
    home = tmp_path / "home"
    home.mkdir()
    with Trial(tmp_path, RUN) as trial:
        for name in SITES:
            at = trial.folder / "sites" / name
            shutil.copy(trial.folder / "federation.toml", at / "federation.toml")
            text = (at / "site.toml").read_text().replace('"../../federation.toml"', '"federation.toml"')
            (at / "site.toml").write_text(text)
            shutil.copy(trial.folder / f"{name}.csv", at / "rows.csv")
        places = {"/data/federation.toml": trial.folder / "federation.toml"}
        trial.start("serve", mapped(deployment.container_command("server")[1:], places), HOME=str(home))
        for i, name in enumerate(SITES):
            at = trial.folder / "sites" / name
            command = deployment.unit_command("site", name) if i else deployment.container_command("site")
            below = {"/data": at, "/rows": at, f"/var/lib/taskveil/{name}": at}
            trial.start(name, mapped(command[1:], below), HOME=str(home))
        trial.finish(420)
        assert not trial.left_running()
        assert not list(home.iterdir()), "nothing is written outside the folders that are writable in a container"
        assert (trial.folder / "results" / "certificate.json").exists()
        assert {p.name for p in (trial.folder / "run").iterdir()} == {"lock", "superlink.log"}
        assert (trial.folder / "run").stat().st_mode & 0o077 == 0


def mapped(arguments: list[str], places: dict[str, Path]) -> list[str]:
    def one(part: str) -> str:
        for place, here in places.items():
            if part == place or part.startswith(place + "/"):
                return str(here) + part[len(place) :]
        return part

    return [one(part) for part in arguments]


def test_a_slow_a_dead_and_a_lying_site_show_on_the_servers_page_during_the_run(tmp_path):
    require("browser")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "sitecustomize.py").write_text(ODD_SITE)
    odd = os.pathsep.join([str(tmp_path / "odd"), os.environ.get("PYTHONPATH", "")])
    with Trial(tmp_path, RUN, deadline=60, min_sites=1) as trial:
        trial.serve()
        trial.join("north", PYTHONPATH=odd, SLOW_SITE="32")
        trial.join("south")
        trial.join("west", PYTHONPATH=odd, LYING_SITE="1")
        trial.wait(lambda: "running" in phase(trial.folder), 240)
        trial.kill_everything_of("south")
        wanted = {"north": ("slow",), "south": ("lost", "silent"), "west": ("lying",)}
        trial.wait(lambda: all(s["state"] in wanted[s["name"]] for s in status(trial.folder)["sites"]), 300)
        words = seen(trial.folder / "status.html")
        for text in ("slow", "dead or cut off", "breaks the rules"):
            assert text in words
        trial.wait(lambda: (trial.folder / "results" / "run.json").exists(), 300)


def status(folder: Path) -> dict:
    try:
        return json.loads((folder / "status.json").read_text())
    except FileNotFoundError:
        return {"phase": "", "sites": [{"name": "north", "state": "none"}]}


def phase(folder: Path) -> str:
    return str(status(folder)["phase"])


def seen(page: Path) -> str:
    """The page's text in a real browser; pictures on request."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1400, "height": 900})
        view.goto(page.as_uri())
        if os.environ.get("TASKVEIL_PICTURES"):
            view.screenshot(path=Path(os.environ["TASKVEIL_PICTURES"]) / "status-during-a-run.png", full_page=True)
        words = view.inner_text("body")
        browser.close()
    return words
