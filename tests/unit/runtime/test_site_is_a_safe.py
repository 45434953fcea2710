"""Whatever a server can see of a site is a function of public things and of paid messages.

The rule: docs/theory/servers-and-sums.md#lying-server.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
from tests.support import views
from tests.support.sites import kind_of, make_site, question, run_of, secure_sites

from taskveil.methods.base import Models
from taskveil.methods.published import published
from taskveil.privacy.ledger import Book, Key, open_account
from taskveil.privacy.randomness import system_noise
from taskveil.runtime import wire
from taskveil.runtime.federation.site.owner import Site, plan_digest
from taskveil.runtime.federation.site.state import SiteState
from taskveil.runtime.secure import SecureServer, messages
from taskveil.runtime.secure.parties import party_settings
from taskveil.tasks.prepare.scaling import Scaling

ONES = np.ones((1, views.FEATURES))
BAD_VIEWS = {
    "an array is missing": {"view/mean": None},
    "an array nobody publishes": {"view/more": ONES},
    "an array of the carrier": {"secure": np.zeros(3, dtype=np.uint8)},
    "another shape": {"view/mean": np.ones((2, views.FEATURES))},
    "another type": {"view/mean": ONES.astype(np.float32)},
    "not a number": {"view/mean": ONES * np.nan},
    "infinite": {"view/mean": ONES * np.inf},
    "beyond the range": {"view/mean": ONES * 1e154},
    "a share beyond one": {"view/share": np.full(views.FEATURES, 1.5)},
    "too many truth values": {"active": np.ones(2, dtype=bool)},
    "truth values that are numbers": {"accepted": np.ones(1)},
}


class Untouchable(Site):
    """Fails the test as soon as a row is looked at."""

    @property
    def tasks(self):
        raise AssertionError("rows were touched before the view was checked")


@pytest.mark.parametrize("aggregation", ["curator", "local"])
@pytest.mark.parametrize("kind", ["step", "finish"])
@pytest.mark.parametrize("what", BAD_VIEWS)
def test_a_view_that_no_honest_server_sends_is_refused_before_a_row_is_touched(what, kind, aggregation):
    site = make_site(run_of(aggregation=aggregation))
    site.__class__ = Untouchable
    asked = question(site, kind, arrays=BAD_VIEWS[what])
    first, second = site.handle(asked), site.handle(asked)
    assert kind_of(first) == "refused" and first == second
    assert site.account.spent() == [] and site.memory.load() is None and not site.memory.finished


@pytest.mark.parametrize("round", [1, -1, -1000, -(10**30), "0", None, 0.0, True, 10**30])
def test_a_billboard_of_another_round_is_refused(round):
    site = make_site(run_of())
    for kind in ("step", "finish"):
        assert kind_of(site.handle(question(site, kind, round=round))) == "refused" or (kind, round) == ("finish", 1)
    assert site.account.spent() == []


def test_an_honest_view_is_answered_and_charged():
    """The twin of the refusals above."""
    site = make_site(run_of())
    assert kind_of(site.handle(question(site))) == "message" and site.account.spent()


# ------------------------------------------------------- once rows are touched


def failing(monkeypatch, site: Site) -> None:
    def fails(*_):
        raise FloatingPointError("row 17 has value 42.4242")

    monkeypatch.setattr(site.tasks, "step", fails)
    monkeypatch.setattr(site.tasks, "finish", fails)


@pytest.mark.parametrize("aggregation", ["curator", "local"])
def test_a_failure_inside_is_the_zero_message_paid_for_and_of_the_same_size(aggregation, monkeypatch, caplog):
    """Under 'local' with the site's own noise: exactly the honest answer of rows that have nothing to say."""
    good, bad = (make_site(run_of(aggregation=aggregation)) for _ in range(2))
    failing(monkeypatch, bad)
    asked = question(good)
    right, wrong = (site.handle(asked) for site in (good, bad))
    assert kind_of(wrong) == "message" and len(wrong) == len(right)
    assert len(good.account.spent()) == len(bad.account.spent()) == len(good.rounds[0])
    assert bad.handle(asked) == wrong
    sent = wire.decode(wrong).arrays
    for planned in bad.rounds[0]:
        noise = bad.source.at(planned.round, planned.name, 0)
        zero = np.zeros(planned.contribution.total_shape)
        expected = planned.mechanism.add(planned.contribution, zero, noise) if aggregation == "local" else 0.0
        np.testing.assert_array_equal(sent[planned.name], np.broadcast_to(expected, sent[planned.name].shape))
    assert b"42.4242" not in wrong and "42.4242" not in caplog.text
    words = "message 0: FloatingPointError in the local step; the zero message was sent instead"
    assert [record.message for record in caplog.records] == [words]


def test_a_log_that_cannot_be_written_changes_nothing_that_is_seen(monkeypatch):
    site = make_site(run_of())
    failing(monkeypatch, site)
    monkeypatch.setenv("TASKVEIL_SITE_LOG", "/no/such/folder/log")
    assert kind_of(site.handle(question(site))) == "message"


def test_a_failure_inside_a_secure_sum_enters_with_noise_alone(monkeypatch):
    parts = run_of(aggregation="secure")
    good, bad = (secure_sites(parts)[0] for _ in range(2))
    failing(monkeypatch, bad)
    invitation = first_invitation(good)
    right, wrong = (site.handle(question(site, arrays={"secure": invitation})) for site in (good, bad))
    assert kind_of(wrong) == "secure" and len(wrong) == len(right)
    assert len(bad.account.spent()) == len(bad.rounds[0])


@pytest.mark.parametrize("case", views.ROWS)
def test_kind_and_size_of_an_answer_are_the_same_for_any_rows(case):
    parts = run_of(kind="classification")
    for mix in views.MIXES:
        seen = set()
        for rows in ("plain", case):
            site = make_site(parts)
            site.block = views.rows_of(rows, "classification", 1, tasks=1)
            view = views.view_of(*parts, 0, mix, 5, n_tasks=1)
            reply = site.handle(question(site, arrays={f"view/{n}": a for n, a in view.values.items()}))
            seen.add((kind_of(reply), len(reply), len(site.account.spent())))
        assert len(seen) == 1 and next(iter(seen))[0] == "message"


def test_a_release_that_was_not_paid_with_its_message_cannot_be_noised():
    from taskveil.errors import BudgetExceeded
    from taskveil.runtime.federation.site.owner import Paid

    site = make_site(run_of())
    paid = Paid(site.account, site.rounds[0])
    paid.commit(*site.rounds[0])
    with pytest.raises(BudgetExceeded):
        paid.commit(site.rounds[0][0])


def reason_of(reply: bytes) -> str:
    packet = wire.decode(reply)
    return packet.fields["reason"] if packet.kind == "refused" else packet.kind


def test_an_earlier_message_is_not_made_again_even_where_it_would_be_paid_for(monkeypatch):
    site = make_site(run_of("mean", rounds=3))
    monkeypatch.setattr(site.account, "commit", lambda *planned: "paid")  # as a ledger does that charges it once more
    shown = published(site.method, site.public, site.plan).at(1)
    second = {f"view/{n}": views.values_of(s, "zero", np.random.default_rng(0), 1) for n, s in shown.items()}
    assert kind_of(site.handle(question(site))) == "message"
    assert kind_of(site.handle(question(site, number=1, arrays=second))) == "message"
    assert "a later one has followed" in reason_of(site.handle(question(site)))


def test_a_failed_step_keeps_the_state_of_the_message_before(monkeypatch):
    site = make_site(run_of("mean", rounds=3))
    site.memory.save(0, {"local": ONES}, b"sent")
    failing(monkeypatch, site)
    shown = published(site.method, site.public, site.plan).at(1)
    view = {f"view/{n}": views.values_of(s, "zero", np.random.default_rng(0), 1) for n, s in shown.items()}
    assert kind_of(site.handle(question(site, number=1, arrays=view))) == "message"
    np.testing.assert_array_equal(site.memory.load()[1]["local"], ONES)


def test_a_task_that_was_not_asked_sends_nothing_but_zeros():
    site = make_site(run_of(aggregation="curator"))
    reply = wire.decode(site.handle(question(site, arrays={"active": np.zeros(1, dtype=bool)})))
    assert reply.kind == "message" and not any(np.any(array) for array in reply.arrays.values())


def test_the_digest_covers_everything_public_and_the_plan():
    method, public, plan = run_of()
    other = replace(public, n_features=public.n_features + 1)
    assert plan_digest(plan, public) != plan_digest(plan, other) != plan_digest(run_of(aggregation="curator")[2], other)


# --------------------------------------------------------------------- the end


def finish_of(site: Site, mean: float) -> bytes:
    shown = published(site.method, site.public, site.plan).at(1)
    view = {f"view/{n}": views.values_of(s, "zero", np.random.default_rng(0), 1) for n, s in shown.items()}
    return question(site, "finish", arrays={**view, "view/mean": mean * ONES}, round=1)


def test_finish_is_answered_once_and_other_content_changes_nothing():
    site = make_site(run_of())
    first = site.handle(finish_of(site, 0.1))
    models = site.memory.models
    assert kind_of(first) == "done" and models is not None
    assert site.handle(finish_of(site, -0.9)) == first
    assert site.memory.models is models
    site.account.commit = lambda *planned: "paid"  # its own memory refuses, not only the account
    assert "has ended at this site" in reason_of(site.handle(question(site)))


def test_a_failure_at_the_end_keeps_what_the_task_learns_alone_and_says_done(monkeypatch, caplog):
    from taskveil.methods.local import alone_models

    good, bad = (make_site(run_of()) for _ in range(2))
    failing(monkeypatch, bad)
    asked = finish_of(good, 0.1)
    assert good.handle(asked) == bad.handle(asked)
    alone = alone_models(bad.block, bad.public)
    np.testing.assert_array_equal(bad.memory.models.coef, alone.coef)
    assert len(caplog.records) == 1 and "42.4242" not in caplog.text


def test_a_model_that_is_no_number_is_not_kept(monkeypatch):
    site = make_site(run_of())
    nothing = Models(np.full((1, 1, views.FEATURES), np.nan), np.zeros((1, 1)))
    monkeypatch.setattr(site.tasks, "finish", lambda state, view: nothing)
    site.handle(finish_of(site, 0.1))
    assert np.isfinite(site.memory.models.coef).all()


# --------------------------------------------------- two processes, and crashes


def stored_site(folder, parts, ledger: str) -> Site:
    """A site with files and a ledger, as in a federation; every call is a fresh process's view of them."""
    account = open_account(ledger, "s", parts[2], "server", "run-1")
    return make_site(parts, SiteState(folder), account, source=system_noise())


def prepared(folder, parts) -> str:
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    book = Book(ledger)
    budget = parts[2].budget
    book.set_limit(Key("s", budget.unit.value, budget.neighbours.value, "server"), 50.0, 1e-4)
    book.close()
    site = stored_site(folder, parts, ledger)
    site.account.reserve(parts[2])
    one = np.ones((1, views.FEATURES))
    site.memory.keep_rows(site.block, Scaling("own", 0 * one, one, np.zeros(1), np.ones(1), normalise=None))
    return ledger


def answer_slowly(folder, parts, ledger, lock, pipe, seconds) -> None:
    site = stored_site(folder, parts, ledger)
    step = site.tasks.step

    def slow(*given):
        time.sleep(seconds)
        return step(*given)

    site.tasks.step = slow
    if not lock:
        SiteState.lock = lambda self: contextlib.nullcontext()
    pipe.send(site.handle(question(site)))


def two_at_once(folder, lock: bool) -> tuple[list[bytes], int]:
    parts = run_of()
    ledger, context = prepared(folder, parts), get_context("fork")
    pipes, answers = [], []
    for seconds in (0.4, 1.0):  # both are at work at once, and write their files one after the other
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=answer_slowly, args=(folder, parts, ledger, lock, theirs, seconds))
        process.start()
        pipes.append((ours, process))
    for pipe, process in pipes:
        answers.append(pipe.recv())
        process.join()
    return answers, len(stored_site(folder, parts, ledger).account.committed())


def test_two_processes_give_one_answer_and_spend_once(tmp_path):
    (first, second), charges = two_at_once(tmp_path, lock=True)
    assert first == second and kind_of(first) == "message"
    assert charges == len(run_of()[2].releases)


def test_without_the_lock_two_answers_would_leave(tmp_path):
    """The twin."""
    (first, second), charges = two_at_once(tmp_path, lock=False)
    assert first != second and charges == 2 * len(run_of()[2].releases)


def killed_while_answering(folder, parts, ledger: str, at: int) -> str:
    """A forked child is killed at its `at`-th point; returns the last point it passed, '' if it came to its end."""
    log = folder / "points"
    log.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        os.environ |= {"TASKVEIL_KILL_AT": str(at), "TASKVEIL_KILL_LOG": str(log)}
        site = stored_site(folder, parts, ledger)
        site.handle(question(site))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return log.read_text().split()[-1] if os.WIFSIGNALED(status) else ""


def test_a_kill_between_charge_and_answer_costs_a_charge_more_never_one_less(tmp_path):
    parts, passed = run_of(), []
    per_message = len(parts[2].rounds()[0][1])
    for at in range(1, 20):
        folder = tmp_path / str(at)
        folder.mkdir()
        ledger = prepared(folder, parts)
        passed.append(killed_while_answering(folder, parts, ledger, at))
        charged = len(stored_site(folder, parts, ledger).account.committed())
        stored = SiteState(folder).load()
        site = stored_site(folder, parts, ledger)
        reply = site.handle(question(site))
        assert kind_of(reply) == "message"
        again = stored_site(folder, parts, ledger)
        total = len(again.account.committed())
        assert total == charged + (0 if stored is not None else per_message)
        assert stored is None or stored[2] == reply
        assert again.handle(question(again)) == reply and len(again.account.committed()) == total
        if not passed[-1]:
            break
    assert "site.charged" in passed and passed[-1] == ""


# -------------------------------------------------------------- secure refusals


def first_invitation(site: Site) -> np.ndarray:
    """A fresh round's invitation, as bytes in an array."""
    server = SecureServer(party_settings(site.rounds[0]), site.party.membership.roster)
    return np.frombuffer(messages.encode(server.start()[0]), dtype=np.uint8)


def test_a_refusal_in_a_secure_sum_is_kept_and_stands_until_a_new_round():
    site = secure_sites(run_of(aggregation="secure"))[0]
    invited = question(site, arrays={"secure": first_invitation(site)})
    entered = site.handle(invited)
    nonsense = wire.encode(wire.Packet("secure", {"plan": site.digest, "number": 0}, {"secure": np.zeros(9, dtype=np.uint8)}))
    refused = site.handle(nonsense)
    assert kind_of(entered) == "secure" and kind_of(refused) == "refused"
    assert site.handle(nonsense) == refused
    site.party.answer = lambda number, part: b"taken back"
    assert site.handle(nonsense) == refused  # from memory: the protocol is not asked again
    del site.party.answer
    assert site.handle(invited) == refused  # the same round is over for good
    other = site.handle(question(site, arrays={"secure": first_invitation(site)}))
    assert kind_of(other) == "secure" and other != entered  # nothing was masked yet: a new round may begin
    assert len(site.account.spent()) == len(site.rounds[0])


def test_a_step_of_a_round_the_site_is_not_in_is_refused():
    site = secure_sites(run_of("mean", aggregation="secure", rounds=3))[0]
    assert kind_of(site.handle(question(site, arrays={"secure": first_invitation(site)}))) == "secure"
    site.party.answer = lambda number, part: b"an answer"
    later = wire.Packet("secure", {"plan": site.digest, "number": 1}, {"secure": np.zeros(9, dtype=np.uint8)})
    assert "not in such a round" in reason_of(site.handle(wire.encode(later)))
