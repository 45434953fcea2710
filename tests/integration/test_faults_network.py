"""`make faults-network`: kills and damaged messages over real Flower. Nothing lost, nothing spent twice, no run dead.

25 kills of a site and 25 of the server, in three runs of six rounds: at a random moment after something has happened a site and
the server die, a few seconds apart in either order, and both come back together: a killed node is let in again by Flower after
some 40 s, and a message takes 7 to 11 s, so that kills one by one would take twice as long. Then a server that sends damaged
questions beside the right ones, and a site that answers with rubbish, 50 messages and more.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.integration.test_federation import committed, planned
from tests.support.federation import SITES, Trial, misbehaving
from tests.support.require import require

from taskveil.privacy.certificate import Certificate

pytestmark = [pytest.mark.network, pytest.mark.kills]

KILLS, ROUNDS = (9, 8, 8), 6  # kills of a site, and as many of the server, in each run
LOW_RANK = f'method = "low-rank"\nepsilon = 5.0\naggregation = "local"\n[run.options]\nrounds = {ROUNDS}'
SUBSPACE = 'method = "subspace"\nepsilon = 5.0\naggregation = "local"\n[run.options]\nrounds = 3'
EARLIER = ("answered before", "has ended")  # refusals that say how far a site is, which order of arrival decides


def progress(trial: Trial) -> tuple:
    """What has happened so far, as files tell."""
    files = [trial.folder / "run" / "progress.npz", *(trial.state(site) / "last.npz" for site in SITES)]
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in files)


def over(trial: Trial) -> bool:
    return (trial.folder / "results" / "run.json").exists()


def check_books(trial: Trial, kills: Counter) -> dict:
    """Certificate, models, and every site charged for every release once, or once more for a kill in between."""
    Certificate.from_json((trial.folder / "results" / "certificate.json").read_text()).verify().require()
    for site in trial.sites:
        with np.load(trial.state(site) / "models.npz") as models:
            assert np.isfinite(models["coef"]).all()
        assert planned(trial) <= committed(trial, site) <= planned(trial) + kills[site]
    return json.loads((trial.folder / "results" / "run.json").read_text())


def kill_both(trial: Trial, site: str, chance: random.Random) -> None:
    """The site and the server, in either order; then both are started again."""
    pair = chance.sample(["serve", site], 2)
    for name in pair:
        trial.kill_everything_of(name)
        time.sleep(chance.uniform(0.0, 3.0))
    for name in pair:
        trial.serve() if name == "serve" else trial.join(name)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("run", range(len(KILLS)))
def test_kills_of_sites_and_server_lose_nothing_and_spend_nothing_twice(tmp_path, run):
    require("flower")
    chance, kills, begun = random.Random(run), Counter(), time.monotonic()
    with Trial(tmp_path, LOW_RANK, limit=50.0, deadline=90) as trial:
        trial.serve()
        for site in SITES:
            trial.join(site)
        for _ in range(KILLS[run]):
            before = progress(trial)
            trial.wait(lambda before=before: progress(trial) != before or over(trial), 900)
            if over(trial):
                break
            time.sleep(chance.uniform(0.0, 6.0))
            victim = chance.choice(SITES)
            kill_both(trial, victim, chance)
            kills.update([victim, "serve"])
        trial.finish(1800)
        done = check_books(trial, kills)
        assert done["steps"] == ROUNDS and kills["serve"] == KILLS[run], kills
        trial.wait(lambda: trial.left_running() == [], 30)
    print(f"run {run}: {dict(kills)} in {time.monotonic() - begun:.0f} s")


def lines(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.timeout(3600)
def test_damaged_questions_are_refused_alike_by_sites_with_other_rows_and_cost_nothing(tmp_path):
    """A lying server; at least 40 damaged questions over the run. A site's guard is never needed: it writes no line."""
    require("flower")
    log = tmp_path / "lies"
    with Trial(tmp_path, SUBSPACE, min_sites=1, deadline=400) as trial:
        trial.serve(**misbehaving("lying-server", log, count=4))
        for site in SITES:
            trial.join(site)
        trial.finish(3000)
        check_books(trial, Counter())
        assert not any((trial.state(site) / "errors.log").exists() for site in SITES)
    seen = lines(log)
    assert sum(line.get("sent") == "question" for line in seen) >= 40
    assert {line["reply"] for line in seen if "reply" in line} <= {"refused", "message"}
    said: dict[int, set[tuple[str, str]]] = {}
    for line in seen:
        if "reply" in line and not any(words in line["reason"] for words in EARLIER):
            said.setdefault(line["asked"], set()).add((line["reply"], line["reason"]))
    assert said and all(len(reactions) == 1 for reactions in said.values())
    print(Counter(reaction for reactions in said.values() for reaction in reactions))


@pytest.mark.timeout(3600)
def test_a_site_that_answers_with_rubbish_is_absent_and_the_run_goes_on(tmp_path):
    require("flower")
    log = tmp_path / "lies"
    with Trial(tmp_path, LOW_RANK, min_sites=2, deadline=120) as trial:
        trial.serve()
        trial.join("north", **misbehaving("liar", log))
        for site in SITES[1:]:
            trial.join(site)
        trial.finish(3000)
        done = json.loads((trial.folder / "results" / "run.json").read_text())
        assert done["steps"] == ROUNDS
        assert all(committed(trial, site) == planned(trial) for site in SITES)
    rubbish = sum(line.get("sent") == "reply" for line in lines(log))
    assert rubbish >= ROUNDS and sum("site 0" in line for line in done["refusals"]) >= 1
    assert not any("site 1" in line or "site 2" in line for line in done["refusals"])
