"""Real processes on loopback: TLS, registered nodes, two or three sites. One short run here; all of it in `make test-network`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence

import numpy as np
import pytest
from tests.support.federation import SITES, Trial
from tests.support.require import require

from taskveil.estimators.check_folder import check_folder
from taskveil.privacy.certificate import Certificate

SUBSPACE = 'method = "subspace"\nepsilon = 5.0\naggregation = "local"'
ASYNC = 'method = "async"\nepsilon = 5.0\nunit = "record"\n[run.options]\nrounds = 3'
LOW_RANK = 'method = "low-rank"\nepsilon = 5.0\naggregation = "curator"\n[run.options]\nrounds = 3'


def committed(trial: Trial, site: str) -> int:
    """Releases a site has charged in its own ledger."""
    import sqlite3

    with sqlite3.connect(trial.folder / "sites" / site / "ledger.db") as db:
        counts = db.execute("select count(*) from taskveil_entries where kind = 'commit' group by account order by 1").fetchall()
        return int(counts[-1][0]) if counts else 0  # a task-level run stands in the account for records too


def planned(trial: Trial) -> int:
    """Releases of the whole plan, as every site computes it."""
    from taskveil.runtime.federation.config import load_federation

    return len(load_federation(trial.folder / "federation.toml").plan().releases)


def check_results(trial: Trial, sites: Sequence[str] = SITES) -> dict:
    certificate = Certificate.from_json((trial.folder / "results" / "certificate.json").read_text())
    certificate.verify().require()
    assert check_folder(trial.folder / "results").problems == ()
    for site in sites:
        with np.load(trial.state(site) / "models.npz") as models:
            assert models["coef"].shape == (1, 1, 3) and np.isfinite(models["coef"]).all()
    trial.wait(lambda: trial.left_running() == [], 20)  # a killed process may take a moment to vanish
    return json.loads((trial.folder / "results" / "run.json").read_text())


@pytest.mark.flower
@pytest.mark.timeout(420)
@pytest.mark.parametrize("sites", [SITES[:2], pytest.param(SITES, marks=pytest.mark.network)], ids=len)
def test_sites_train_over_tls_and_nothing_is_left_running(sites, tmp_path):
    require("flower")
    with Trial(tmp_path, SUBSPACE, sites=sites, min_sites=len(sites)) as trial:
        trial.serve()
        trial.wait(lambda: "run started" in trial.words("serve"), 120)  # sites that come too early only try again
        for site in sites:
            trial.join(site)
        trial.finish(250)
        run = check_results(trial, sites)
        assert run["refusals"] == []
        assert [committed(trial, site) for site in sites] == [planned(trial)] * len(sites)


@pytest.mark.network
@pytest.mark.timeout(900)
def test_three_sites_train_asynchronously_and_each_is_charged_for_its_own_messages(tmp_path):
    require("flower")
    with Trial(tmp_path, ASYNC) as trial:
        trial.serve()
        for site in SITES:
            trial.join(site)
        trial.finish(600)
        run = check_results(trial)
        assert run["messages"] == [3, 3, 3]
        assert [committed(trial, site) for site in SITES] == [3, 3, 3]


@pytest.mark.network
@pytest.mark.timeout(900)
def test_a_site_that_limits_itself_refuses_before_anything_is_sent(tmp_path):
    require("flower")
    with Trial(tmp_path, SUBSPACE, limit=1.0) as trial:
        process = trial.join("north")
        trial.wait(lambda: process.poll() is not None, 60)
        assert process.returncode == 3
        assert "Nothing was sent" in trial.words("north")
        assert not (trial.state("north") / "supernode.log").exists()
        trial.wait(lambda: trial.left_running() == [], 20)


@pytest.mark.network
@pytest.mark.kills
@pytest.mark.timeout(900)
def test_a_killed_site_rejoins_and_is_charged_correctly(tmp_path):
    """SIGKILL of a site and all its processes after its first message; the run goes on and counts each message once."""
    require("flower")
    with Trial(tmp_path, ASYNC, deadline=90) as trial:
        trial.serve()
        for site in SITES:
            trial.join(site)
        trial.wait(lambda: (trial.state("west") / "last.npz").exists(), 300)
        trial.kill_everything_of("west")
        charged = committed(trial, "west")
        time.sleep(1.0)
        trial.join("west")
        trial.finish(700)
        run = check_results(trial)
        assert run["messages"] == [3, 3, 3]
        # A kill between charge and store costs one charge more, never one less.
        assert 3 <= committed(trial, "west") <= 4 and charged >= 1


@pytest.mark.network
@pytest.mark.kills
@pytest.mark.timeout(900)
def test_a_killed_server_resumes_without_asking_for_a_round_twice(tmp_path):
    require("flower")
    with Trial(tmp_path, LOW_RANK) as trial:
        trial.serve()
        for site in SITES:
            trial.join(site)
        trial.wait(lambda: (trial.folder / "run" / "progress.npz").exists(), 300)
        trial.kill_everything_of("serve")
        time.sleep(1.0)
        trial.serve()
        trial.finish(700)
        run = check_results(trial)
        assert run["steps"] == 3
        assert [committed(trial, site) for site in SITES] == [3, 3, 3]


@pytest.mark.network
@pytest.mark.timeout(600)
def test_strangers_are_refused(tmp_path):
    """An unregistered key, a wrong authority and plaintext never get as far as the fleet."""
    require("flower")
    from taskveil.runtime.federation import keys
    from taskveil.runtime.federation.processes import environment, free_port, tool

    with Trial(tmp_path, SUBSPACE) as trial:
        trial.serve()
        trial.wait(lambda: "run started" in trial.words("serve"), 120)
        other = tmp_path / "other"
        other.mkdir()
        keys.make_authority(other, "other")
        keys.make_node_key(other, "stranger")
        site, server = trial.folder / "sites" / "north", f"127.0.0.1:{trial.port}"
        attempts = {
            "unregistered key": [
                "--root-certificates",
                str(site / "ca.crt"),
                "--auth-supernode-private-key",
                str(other / "stranger.key"),
            ],
            "no key": ["--root-certificates", str(site / "ca.crt")],
            "wrong authority": [
                "--root-certificates",
                str(other / "ca.crt"),
                "--auth-supernode-private-key",
                str(site / "north.key"),
            ],
            "plaintext": ["--insecure"],
        }
        before = (trial.folder / "run" / "superlink.log").read_text().count("Activated node_id")
        for name, arguments in attempts.items():
            command = [
                tool("flower-supernode"),
                "--superlink",
                server,
                "--max-retries",
                "1",
                "--port",
                str(free_port()),
                *arguments,
            ]
            try:
                done = subprocess.run(
                    command, env=environment(tmp_path / "home"), capture_output=True, text=True, timeout=40, check=False
                )
                assert done.returncode != 0, name
            except subprocess.TimeoutExpired:
                pass  # still trying: not let in either
            after = (trial.folder / "run" / "superlink.log").read_text().count("Activated node_id")
            assert after == before, name
    trial.wait(lambda: trial.left_running() == [], 20)
