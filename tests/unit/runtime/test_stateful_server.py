"""A server that lies in any order: numbers again and out of turn, views at the ends of their ranges, the end too early, twice
and in between, and sites that are killed and come back from their files. Whatever it does, a number is answered once and paid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import views
from tests.support.sites import kind_of

from taskveil import methods
from taskveil.errors import CheckFailed, InputError
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.runtime import wire
from taskveil.runtime.federation.site.owner import Site
from taskveil.runtime.federation.site.state import SiteState
from taskveil.runtime.run import Run
from taskveil.runtime.wire import Packet
from taskveil.tasks.prepare.scaling import Scaling

CASES = [("subspace", "local", "classification"), ("low-rank", "curator", "regression"), ("async", "local", "regression")]
ALONE = ("fine-tune", "local", "relationship", "dp-mtrl")  # nothing is sent, or not by one site: test_agreement.py
EVERY = [
    pytest.param(name, aggregation, kind, marks=pytest.mark.faults)
    for name in methods.names() if name not in ALONE
    for aggregation in ("local", "curator")
    for kind in ("regression", "classification")
    if aggregation in methods.get(name, **views.OPTIONS.get(name, {})).aggregations
]  # fmt: skip
MOVES, CRASH = 40, 0.15


class Generous(MemoryAccount):
    """As a ledger does, it lets a release be paid for twice: that a number is answered once is for the site to see to."""

    def commit(self, *planned: Any) -> str:
        self._open |= {one.id: one for one in planned}
        return super().commit(*planned)


class Place:
    """A site whose rows are of one kind, in its own folder; `crash` forgets the process and keeps the files."""

    def __init__(self, folder: Path, parts: Any, rows: str) -> None:
        self.parts, self.folder = parts, folder
        kind, raw = parts[1].kind, parts[2].budget.unit.value == "record"
        self.block = views.rows_of(rows, kind, 3, tasks=1, raw_features=raw)
        self.account = Generous()
        self.account.reserve(parts[2])
        ones = np.ones((1, views.FEATURES))
        SiteState(folder).keep_rows(self.block, Scaling("none", 0 * ones, ones, np.zeros(1), np.ones(1)))
        self.crash()

    def crash(self) -> None:
        method, public, plan = self.parts
        source = insecure_seeded_noise(1)
        self.site = Site("s", Run(method, public, plan, self.account, source), self.block, [0], SiteState(self.folder))


def question(parts: Any, digest: str, rng: np.random.Generator) -> bytes:
    method, public, plan = parts
    rounds = len(plan.rounds())
    number = int(rng.integers(0, rounds + 1))
    shown = number if rng.random() < 0.8 else int(rng.integers(0, rounds + 2))
    mix = ("each its own", *views.MIXES)[int(rng.integers(7))]
    view = views.view_of(method, public, plan, min(shown, rounds), mix, int(rng.integers(2**31)), 1)
    arrays = wire.view_arrays(view)
    if rng.random() < 0.2:
        arrays["active"] = rng.random(1) < 0.5
    kind = "finish" if rng.random() < 0.06 else "step"
    return wire.encode(Packet(kind, {"plan": digest, "number": number, "round": shown}, arrays))


def play(folder: Path, parts: Any, seed: int) -> None:
    """One game against three sites with other rows."""
    rng = np.random.default_rng(seed)
    places = [Place(folder / rows, parts, rows) for rows in ("plain", "extreme", "constant")]
    answers: dict[int, set[bytes]] = {}
    for _ in range(MOVES):
        data = question(parts, places[0].site.digest, rng)
        for place in places:
            if rng.random() < CRASH:
                place.crash()
        replies = [place.site.handle(data) for place in places]
        assert len({(kind_of(reply), len(reply)) for reply in replies}) == 1
        if kind_of(replies[0]) == "message":
            answers.setdefault(wire.decode(data).fields["number"], set()).add(replies[0])
        else:
            assert len(set(replies)) == 1
        assert len({len(place.account.spent()) for place in places}) == 1
    assert all(len(versions) == 1 for versions in answers.values())
    assert len(places[0].account.spent()) == sum(len(places[0].site.rounds[number]) for number in answers)


@pytest.mark.parametrize(("name", "aggregation", "kind"), [*CASES, *EVERY])
def test_whatever_the_order_a_number_has_one_answer_and_no_reaction_depends_on_rows(tmp_path, name, aggregation, kind):
    try:
        parts = views.setting(name, kind, aggregation=aggregation)
    except InputError as error:  # this method does not do that
        pytest.skip(str(error))
    for game in range(2):
        play(tmp_path / str(game), parts, len(name) + game)


def test_a_site_that_forgets_what_it_sent_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(SiteState, "load", lambda self: None)
    with pytest.raises(AssertionError):
        play(tmp_path, views.setting("subspace", "regression", aggregation="local"), 8)


def test_a_site_whose_refusals_depend_on_rows_would_be_noticed(tmp_path, monkeypatch):
    """The guard of version 0.1.0: what fails inside is a refusal."""

    def step(self, number, state, view):
        if np.ptp(self.block.X[:, 1]) == 0:
            raise CheckFailed("cannot be computed")
        return honest(self, number, state, view)

    honest = Site._message
    monkeypatch.setattr(Site, "_message", step)
    with pytest.raises(AssertionError):
        play(tmp_path, views.setting("subspace", "regression", aggregation="local"), 8)
