"""Thirty sites over real Flower on loopback: three slow, two that die, one that lies. In `make test-network`; needs 20 GB."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.integration.test_federation import committed, planned
from tests.support.federation import Trial, misbehaving
from tests.support.require import require

from taskveil.privacy.certificate import Certificate

SITES = [f"site-{i:02d}" for i in range(30)]
SLOW, DEAD, LIAR = SITES[3:6], SITES[10:12], SITES[20]
SUBSPACE = 'method = "subspace"\nepsilon = 3.0\naggregation = "local"\n[run.options]\nrounds = 1'
MOST_SECONDS, MOST_BYTES = 1800, 20e9


class Watch:
    """The most memory (proportional set size) that the trial's processes held together, looked at every few seconds."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.most, self._stop = trial, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(5.0):
            self.most = max(self.most, sum(map(held, self.trial.left_running())))


def held(pid: int) -> int:
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(1024 * int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    except OSError:
        return 0


@pytest.mark.network
@pytest.mark.timeout(MOST_SECONDS + 300)
def test_thirty_sites_of_which_three_are_slow_two_die_and_one_lies_finish(tmp_path):
    require("flower")
    started, log = time.monotonic(), tmp_path / "lies"
    with Trial(tmp_path, SUBSPACE, deadline=300, min_sites=20, sites=SITES) as trial, Watch(trial) as watch:
        trial.serve()
        trial.wait(lambda: "run started" in trial.words("serve"), 300)
        for site in SITES:
            role = misbehaving("slow", log, seconds=45) if site in SLOW else {}
            trial.join(site, **(misbehaving("liar", log) if site == LIAR else role))
        for site in DEAD:
            trial.wait(lambda site=site: (trial.state(site) / "supernode.log").exists(), 900)
            trial.kill_everything_of(site)
            del trial.processes[site]
        trial.finish(MOST_SECONDS)
        seconds = time.monotonic() - started
        done = json.loads((trial.folder / "results" / "run.json").read_text())
        Certificate.from_json((trial.folder / "results" / "certificate.json").read_text()).verify().require()
        for site in set(SITES) - set(DEAD):
            assert committed(trial, site) == planned(trial)
            with np.load(trial.state(site) / "models.npz") as models:
                assert np.isfinite(models["coef"]).all()
        missing = {line.split(":")[0] for line in done["refusals"]}
        assert missing == {f"site {SITES.index(site)}" for site in (*DEAD, LIAR)}
    print(f"30 sites: {seconds:.0f} s, {watch.most / 1e9:.1f} GB at most")
    assert seconds < MOST_SECONDS and watch.most < MOST_BYTES
