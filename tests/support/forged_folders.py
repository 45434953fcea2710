"""Saved runs that tests edit as a forger would, and what `taskveil certify` says of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from taskveil.cli.main import run as command
from taskveil.estimators import certify
from taskveil.estimators.storage import saved_run
from taskveil.privacy import signing
from taskveil.privacy.contributions import contribution_from_dict
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.mechanisms import mechanism_from_dict
from taskveil.privacy.plan import event_of
from taskveil.privacy.seal import SEAL, seal_of
from taskveil.privacy.units import Neighbours


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """model (charged to budget.db), seeded (another run, with seeded noise), and a key pair."""
    place = tmp_path_factory.mktemp("runs")
    url, data = f"sqlite:///{place / 'budget.db'}", tv.get_synthetic("tiny").train
    for observer in ("other-tasks", "server"):
        Book(url).set_limit(Key("h", observer=observer), 5.0, 1e-5)
    run = tv.TaskRegressor("low-rank", epsilon=1.0, aggregation="local", observer="server", ledger=url, account="h")
    run.set_params(method__rounds=3).fit(data).save(place / "model")
    tv.TaskRegressor("low-rank", epsilon=1.0, insecure_noise_seed=1).fit(data).save(place / "seeded")
    tv.TaskRegressor("subspace", epsilon=2.0).fit(data).save(place / "other")
    signing.make_key(place / "officer")
    signing.make_key(place / "forger")
    return place


class Folder:
    """A copy of a saved run, as plain data that can be edited."""

    def __init__(self, place: Path, path: Path, run: str = "model"):
        shutil.copytree(place / run, path)
        self.place, self.path = place, path
        self.certificate = json.loads((path / "certificate.json").read_text())
        self.model = json.loads((path / "model.json").read_text())
        with np.load(path / "arrays.npz") as stored:
            self.arrays = {name: stored[name] for name in stored.files}

    def write(self, *files: str) -> None:
        for file in files or ("certificate", "model", "arrays"):
            if file == "arrays":
                np.savez(self.path / "arrays.npz", **self.arrays)
            else:
                (self.path / f"{file}.json").write_text(json.dumps(getattr(self, file)))

    def seal(self, *files: str) -> None:
        """Carry the seal of the edited contents in these files."""
        seal = seal_of(self.certificate, self.model, self.arrays)
        self.certificate[SEAL] = seal if "certificate" in files else self.certificate[SEAL]
        self.model[SEAL] = seal if "model" in files else self.model[SEAL]
        self.arrays[SEAL] = np.asarray(seal) if "arrays" in files else self.arrays[SEAL]
        self.write(*files)

    def made_again(self) -> None:
        """The certificate that follows from the edited record, by our own function: what a forger who knows it would write."""
        method, record, preparation = saved_run(self.model, self.arrays)
        self.certificate = json.loads(certify.certificate(method, record, preparation).to_json()) | {SEAL: ""}


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        command([str(a) for a in arguments])
    return int(ended.value.code or 0)


def check(path: Path, *options: object) -> int:
    return call("certify", path, *options)


def ten_times_the_noise(releases) -> None:
    """Each with the event that its mechanism then gives."""
    for release in releases:
        release["mechanism"]["scale"] *= 10
        mechanism, contribution = mechanism_from_dict(release["mechanism"]), contribution_from_dict(release["contribution"])
        event = event_of(mechanism, contribution, Neighbours.REPLACE_ONE, release["rate"], "local")
        release["event"] = json.loads(json.dumps(event.to_dict()))


def noisier_plan(f: Folder) -> None:
    ten_times_the_noise(f.model["plan"]["releases"])


def epsilon_a_tenth(f: Folder) -> None:
    noisier_plan(f)
    f.made_again()


def release_dropped_everywhere(f: Folder) -> None:
    f.model["executed"].pop()
    f.made_again()
