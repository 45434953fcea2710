"""The two oracles of a lying server: what they read from version 0.1.0, and that a site now says the same for any rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.eigenvalues import fail_as_lapack

from taskveil.audits import federation_attacks as attacks
from taskveil.errors import CheckFailed
from taskveil.runtime import wire
from taskveil.runtime.federation.site import owner as module
from taskveil.solvers import posterior


@pytest.mark.parametrize("name", sorted(attacks.ATTACKS))
def test_a_lying_server_learns_nothing_it_has_not_paid_for(name):
    outcome = attacks.ATTACKS[name](0)
    assert not outcome.differs and outcome.charged == 0
    assert outcome.relative_error > 1.0  # no better than zero would be


def as_before(monkeypatch) -> None:
    """Plant the old faults: any view is admissible, squares overflow, and a failure shows and is free."""

    def unguarded(self, number, state, view):
        try:
            new, raw = module.task_step(self.tasks, state or self.tasks.start(), view)
        except np.linalg.LinAlgError:
            raise CheckFailed("could not compute") from None
        return new, {p.name: self._bounded(p, raw[p.name], view) for p in self.rounds[number]}

    class Free:
        def __init__(self, account, releases) -> None: ...

    monkeypatch.setattr(module, "checked_view", lambda packet, rounds, *_: wire.view_from(rounds[0], packet.arrays))
    monkeypatch.setattr(posterior, "_of_ordinary_size", lambda scores, centre: (scores, centre))
    fail_as_lapack(monkeypatch)
    monkeypatch.setattr(module.Site, "_message", unguarded)
    monkeypatch.setattr(module.Site, "_models", lambda self, view: self.tasks.finish({}, view))
    monkeypatch.setattr(module.Volatile, "finished", False)
    monkeypatch.setattr(module, "Paid", Free)


@pytest.mark.parametrize("name", sorted(set(attacks.ATTACKS) - {"refusals"}))  # no step raises any more that could be refused
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_with_the_old_faults_the_rows_are_read(name, monkeypatch):
    """The twin; its figures are those that were measured on version 0.1.0."""
    as_before(monkeypatch)
    outcome, before = attacks.ATTACKS[name](0), attacks.BEFORE[name]
    assert outcome.differs and outcome.questions == before.questions
    assert outcome.relative_error == pytest.approx(before.relative_error, rel=0.01)
