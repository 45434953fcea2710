"""Three sites, real Flower processes on loopback, TLS and registered nodes: a secure subspace fit from
start to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.small import related_tasks

from taskveil.privacy.certificate import Certificate
from taskveil.runtime.federation.processes import free_port
from taskveil.runtime.federation.server import serve

pytestmark = [pytest.mark.network, pytest.mark.timeout(660)]

SITES = ("north", "south", "west")
PER_SITE = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    port = free_port()
    serve.init(tmp_path, list(SITES), ["127.0.0.1"], port, "trial")
    tasks = related_tasks(n_tasks=len(SITES) * PER_SITE, rows=(20, 25), n_features=3)
    config = (tmp_path / "federation.toml").read_text()
    config = config.replace('aggregation = "local" ', 'aggregation = "secure"')
    config = re.sub(r"deadline = \d+", "deadline = 240", config)
    names = iter(tasks.task_names)
    for site in SITES:
        own = [next(names) for _ in range(PER_SITE)]
        config = config.replace(f'tasks = ["{site}"]', f"tasks = {json.dumps(own)}")
        rows = np.isin(np.array(tasks.task_names)[tasks.task_of_row()], own)
        frame = pd.DataFrame(tasks.X[rows], columns=["x0", "x1", "x2"])
        frame["y"], frame["task"] = tasks.y[rows], np.array(tasks.task_names)[tasks.task_of_row()][rows]
        frame.to_csv(tmp_path / "sites" / site / "rows.csv", index=False)
    (tmp_path / "federation.toml").write_text(config)
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    env = os.environ | {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    name = "-".join(a.strip("-").replace("/", "_")[-20:] for a in arguments[:3])
    with open(folder / f"{name}.log", "w") as log:
        return subprocess.Popen([sys.executable, "-m", "taskveil.cli", *arguments], env=env, stdout=log, stderr=subprocess.STDOUT)


def test_three_sites_complete_a_secure_subspace_fit(folder: Path):
    processes = [start(folder, "serve", "--config", str(folder / "federation.toml"))]
    for site in SITES:
        at = folder / "sites" / site
        given = ("--config", str(at / "site.toml"), "--data", str(at / "rows.csv"))
        processes.append(start(folder, "join", *given))
    end = time.monotonic() + 600  # about two minutes on a quiet machine
    try:
        while time.monotonic() < end and any(p.poll() is None for p in processes):
            time.sleep(0.5)
        codes = [p.poll() for p in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            process.wait(30)
    logs = "\n".join(f"{p.name}: {p.read_text()[-1500:]}" for p in folder.glob("*.log"))
    assert codes == [0] * 4, logs
    certificate = Certificate.from_json((folder / "results" / "certificate.json").read_text())
    assert certificate.verify()
    assert {(s.observer, s.colluders) for s in certificate.statements} == {("other-tasks", 1), ("server", 1)}
    for site in SITES:
        state = folder / "sites" / site / "state"
        with np.load(state / "models.npz") as models:
            assert models["coef"].shape[0] == PER_SITE and np.isfinite(models["coef"]).all()
        assert json.loads((state / "secure.json").read_text())["client"] == ""  # the round's secrets are gone
        assert (state / "secure.json").stat().st_mode & 0o077 == 0
