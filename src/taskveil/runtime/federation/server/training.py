"""The server's run of a federation: wait for sites, drive the plan, keep checkpoints, write results.

    FOLDER/
      federation.toml      public, the same file everybody has
      run/                 mode 0700: holds messages before noise; emptied when the run has ended
      run/federation.json  fingerprint of the federation.toml this run began with
      run/nodes.json       Flower's node id of every registered site
      run/progress.npz     state after the last whole step; replaced in one rename
      run/watch.json       what the server noticed about its sites
      run/heartbeat        touched while the run is alive
      results/billboard.npz, certificate.json, run.json
      status.json, .html   for whoever runs the server

`train` runs inside Flower's ServerApp process. Killed at any moment and started again it goes on after the last stored step:
sites repeat the bytes they sent, so nothing is released twice.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import EnvironmentMissing, InputError, SecureSumRefused
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.certificate import Certificate, build_certificate
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.randomness import NoiseSource, system_noise
from taskveil.privacy.seal import SEAL, seal_of
from taskveil.privacy.units import Observer
from taskveil.runtime.checkpoint import board_from, board_parts, write_arrays, write_atomically
from taskveil.runtime.federation.config import Federation, load_federation
from taskveil.runtime.federation.processes import only_one
from taskveil.runtime.federation.server.driver import Driver
from taskveil.runtime.federation.server.run_folder import keep_refusal, read_nodes
from taskveil.runtime.federation.server.watch import Watch, WatchedCarrier
from taskveil.runtime.federation.site.decisions import COVERED, NOT_COVERED
from taskveil.runtime.federation.site.owner import plan_digest
from taskveil.runtime.round import Position
from taskveil.runtime.run import Run, executed_releases
from taskveil.saved import read_described, total, under

log = logging.getLogger("taskveil.federation")
HEARTBEAT = 2.0


def train(folder: str | Path, online: Callable[[], dict[int, bytes]], carrier_to: Callable[[list[int], float], Any]) -> None:
    """One whole run, or the rest of one. `online` lists Flower's nodes; `carrier_to` makes a carrier to node ids that keeps
    messages for the deadline at least."""
    folder = Path(folder)
    federation = load_federation(folder / "federation.toml")
    (folder / "run").mkdir(exist_ok=True)
    # Two runs at once would mix their questions; the second one ends here, and a dead one leaves no lock behind.
    with only_one(folder / "run" / "training", "a run of this federation"), Heartbeat(folder / "run" / "heartbeat"):
        nodes = read_nodes(folder / "run" / "nodes.json")
        ids = [nodes[m.name] for m in federation.members]
        plan, source = federation.plan(), system_noise()
        watch = make_watch(federation, plan, folder / "run")
        store = ProgressStore(folder / "run", plan, federation)
        carrier = WatchedCarrier(carrier_to(ids, federation.rules.deadline), watch)
        driver = make_driver(federation, plan, source, carrier, store.save)
        driver.on_refusal, driver.progress = watch.refusal, watch.progress
        try:
            position = store.load()
            if position is None or not finished(position, plan):  # sites that have heard the end do not come back
                _wait_for_sites(federation, ids, online, watch)
            done = driver.run(position)
        except (InputError, SecureSumRefused) as error:  # for good: it would come again, and a masked message is sent once
            keep_refusal(folder / "run" / "refused.json", error)
            raise
        write_results(folder / "results", federation, plan, done, source, driver)


def finished(at: Position, plan: Plan) -> bool:
    """Whether all messages are in, and only the end is to be told."""
    rounds = len(plan.rounds())
    return at.billboards[-1].done or len(at.schedule) >= rounds * (len(at.sent) if any(at.sent) else 1)


def make_driver(federation: Federation, plan: Plan, source: NoiseSource, carrier: Any, save: Any) -> Driver:
    run = Run(federation.method(), federation.public(), plan, source=source)  # sites charge; this is the server's own book
    members = [federation.positions(m.name) for m in federation.members]
    roster = federation.roster() if plan.budget.aggregation == "secure" else None
    return Driver(run, carrier, members, federation.rules, save, roster)


def make_watch(federation: Federation, plan: Plan, folder: Path) -> Watch:
    """Eyes for whoever runs the server; what a number of rounds costs follows from the public plan."""
    private = plan.budget.epsilon is not None and plan.budget.variant == "sound"
    spent = lru_cache(plan.spent_after)
    members = federation.members
    return Watch(
        folder / "watch.json", [m.name for m in members], [len(m.tasks) for m in members], federation.rules.deadline,
        lambda rounds: spent(rounds) if private and rounds else None,
    )  # fmt: skip


class Heartbeat:
    """Touches a file while a run is alive, so that `taskveil serve` notices when it is not."""

    def __init__(self, path: Path) -> None:
        self.path, self._stop = path, threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()

    def _beat(self) -> None:
        while True:
            self.path.touch()
            if self._stop.wait(HEARTBEAT):
                return


class ProgressStore:
    """Checkpoints of the server: billboards, server state, who has sent how many messages."""

    def __init__(self, folder: Path, plan: Plan, federation: Federation) -> None:
        self.path = folder / "progress.npz"
        self.plan, self.digest = plan, plan_digest(plan, federation.public())

    def save(self, at: Position) -> None:
        arrays: dict[str, np.ndarray] = {f"state/{k}": np.asarray(v) for k, v in at.state.items()}
        boards = []
        for i, board in enumerate(at.billboards):
            described, values = board_parts(board, f"board{i}/", f"accepted{i}")
            arrays |= values
            boards.append(described)
        schedule = [s if s is None or isinstance(s, int) else [int(t) for t in s] for s in at.schedule]
        about = {
            "digest": self.digest, "boards": boards, "schedule": schedule, "sent": at.sent,
            "executed": [p.id for p in at.executed],
        }  # fmt: skip
        write_arrays(self.path, arrays, about)

    def load(self) -> Position | None:
        if not self.path.exists():
            return None
        with total(str(self.path)):
            return self._load(*read_described(self.path))

    def _load(self, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Position | None:
        if about["digest"] != self.digest:
            return None  # the files of another plan, which `serve` refuses before it comes to this
        boards = [board_from(b, arrays, f"board{i}/", f"accepted{i}") for i, b in enumerate(about["boards"])]
        planned = {p.id: p for p in self.plan.releases}
        schedule = [np.asarray(s) if isinstance(s, list) else s for s in about["schedule"]]
        executed = [planned[i] for i in about["executed"]]
        return Position(under(arrays, "state/"), boards, executed, schedule, about["sent"])


def write_results(folder: Path, federation: Federation, plan: Plan, done: Position, source: NoiseSource, driver: Driver) -> None:
    """What the server may keep and show: the last billboard, the certificate, who took part. All of it is public."""
    folder.mkdir(exist_ok=True)
    randomness = source.describe()
    if not randomness.get("samplers"):  # all noise was drawn at the sites
        randomness = {**randomness, "samplers": ["operating system, at the sites"]}
    about = {
        "name": federation.name, "method": federation.run.get("method", "subspace"),
        "sites": [m.name for m in federation.members],
        "federation": federation.digest,
        "steps": len(done.schedule), "messages": done.sent, "refusals": driver.refusals, "finished": time.time(),
        "executed": [p.id for p in done.executed], "randomness": randomness,
    }  # fmt: skip
    about = json.loads(json.dumps(about))
    arrays = {k: np.asarray(v) for k, v in done.billboards[-1].values.items()}
    certificate = certificate_of(federation, plan, done.executed, randomness)
    seal = seal_of(json.loads(certificate.to_json()), about, arrays)
    write_arrays(folder / "billboard.npz", {**arrays, SEAL: np.asarray(seal)})
    write_atomically(folder / "certificate.json", replace(certificate, seal=seal).to_json().encode())
    write_atomically(folder / "run.json", json.dumps({**about, SEAL: seal}, indent=2).encode())


def certificate_of(federation: Federation, plan: Plan, made: Sequence[PlannedRelease], randomness: dict[str, Any]) -> Certificate:
    """The certificate of what was executed; noise drawn at the sites is described as the sites' package draws it."""
    method = federation.method()
    disclosure = method.disclosure(federation.public(), plan)
    executed = replace(plan, releases=tuple(made)) if plan.budget.epsilon is not None else plan
    observers = [
        *AGGREGATIONS.get(plan.budget.aggregation).observers,
        *(Observer(o) for o in disclosure.observers if not (federation.own_units() and o == "public")),
    ]
    assumptions = [
        "federation.toml is public: the sites, their tasks, and all it declares",
        "every site runs this software unchanged and keeps its state folder; a site that does not protects only others",
        *disclosure.assumptions,
    ]
    seconds = federation.rules.answer_at
    uncovered = [] if seconds else [NOT_COVERED]
    assumptions += [COVERED.format(seconds=seconds)] if seconds else []
    return build_certificate(
        method.name, executed, randomness,
        public=["the names of the tasks", "columns, label sets, ranges and options"], assumptions=assumptions,
        not_protected=[*disclosure.not_protected, "a site's own model, which it keeps", *uncovered],
        observers=list(dict.fromkeys(observers)),
    )  # fmt: skip


def certificate_again(folder: Path, about: dict[str, Any]) -> Certificate:
    """The certificate made again from federation.toml and the record in results/run.json, for `taskveil certify`."""
    federation = load_federation(folder / "federation.toml")
    plan = federation.plan()
    made = executed_releases(about["executed"], {p.id: p for p in plan.releases})
    return certificate_of(federation, plan, made, about["randomness"])


def _wait_for_sites(federation: Federation, ids: list[int], online: Callable[[], dict[int, bytes]], watch: Watch) -> None:
    """Until all sites are there, or, after the deadline, at least `min_sites` of them."""
    end = time.monotonic() + federation.rules.deadline
    while True:
        here = set(ids) & set(online())
        watch.waiting([m.name for m, node in zip(federation.members, ids, strict=True) if node in here])
        if len(here) == len(ids) or (time.monotonic() > end and len(here) >= federation.rules.min_sites):
            return
        if time.monotonic() > end:
            raise EnvironmentMissing(
                f"{len(here)} of {len(ids)} sites are connected, at least {federation.rules.min_sites} are needed. "
                "No message was requested. Start `taskveil join` at the sites and `taskveil serve` again."
            )
        time.sleep(0.5)
