"""Every refusal of the private core, one line each: what must not pass, and the words that say why.

A check that is dropped lets something through here; the words also tell that the right check spoke.
"""

from __future__ import annotations

import math
import tempfile

import numpy as np
import pytest

from taskveil.errors import (
    BudgetExceeded,
    CheckFailed,
    DataError,
    EnvironmentMissing,
    LedgerUnavailable,
    OptionError,
    SecureSumRefused,
    UnknownName,
)
from taskveil.privacy import aggregation, calibrate, guarantees, integer_tables, partial_sums
from taskveil.privacy.accountants import ACCOUNTANTS
from taskveil.privacy.bounds import Bounded, check_norm, clip_rows
from taskveil.privacy.certificate import Certificate, Verification
from taskveil.privacy.contribution import seal_clipped_sum
from taskveil.privacy.contributions import (
    DiagonalSum,
    OuterSum,
    RowSum,
    TaskGram,
    TaskStack,
    VectorSum,
    contribution_from_dict,
)  # fmt: skip
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import CappedEvent, Charge, GaussianEvent, PureEvent, SampledGaussianEvent, SelectEvent
from taskveil.privacy.ledger.book import Book, Key
from taskveil.privacy.ledger.database import check_there, refuse_newer
from taskveil.privacy.mechanisms.model_laplace import ModelLaplace
from taskveil.privacy.mechanisms.paper_l2_laplace import PaperL2Laplace
from taskveil.privacy.mechanisms.paper_wishart import PaperWishart
from taskveil.privacy.mechanisms.shared import SharedGaussian
from taskveil.privacy.plan import Budget, Plan, Request, make_plan
from taskveil.privacy.quantise import Grid
from taskveil.privacy.randomness import insecure_seeded_noise, system_noise
from taskveil.privacy.release import MemoryAccount, release
from taskveil.privacy.secure_events import SharedSkellamEvent, gaussian_share_distance
from taskveil.privacy.secure_options import SecureOptions

VECTOR, OUTER, NOISE = VectorSum((3,), 1.0), OuterSum(3, 1.0), system_noise()
TOTAL = seal_clipped_sum(VECTOR, np.full(3, 0.1), 2)
MESSAGES = VECTOR.clip(np.full((2, 3), 0.1))
SECURE = SecureOptions.for_tasks(10)


def planned(what=VECTOR, request=None, **budget):
    options = {"epsilon": 1.0, "delta": 1e-5, **budget}
    return make_plan([Request("S", 1, what, **(request or {}))], Budget(**options))


def released(plan, bounded, way="curator"):
    account = MemoryAccount()
    account.reserve(plan)
    return release(plan.releases[0], bounded, account, insecure_seeded_noise(0), way)


def reserved_twice():
    account = MemoryAccount()
    account.reserve(planned())
    account.reserve(planned())


def book():
    return Book(f"sqlite:///{tempfile.mkdtemp()}/ledger.db")


PLANS = {
    "budget above all": (lambda: Budget(math.inf, 1e-5), OptionError, "epsilon must be positive"),
    "variant": (lambda: Budget(1.0, 1e-5, variant="new"), OptionError, "unknown variant"),
    "paper noise in a budget": (lambda: Budget(1.0, 1e-5, mechanism="paper-wishart"), OptionError, "is not private"),
    "paper noise in a request": (lambda: planned(OUTER, {"mechanism": "paper-wishart"}), OptionError, "is not private"),
    "no noise in a request": (lambda: planned(request={"mechanism": "none"}), OptionError, "adds no noise"),
    "one task above the whole": (
        lambda: Budget(1.0, 1e-5, task_epsilons=(0.5, 2.0)), OptionError, "epsilon is the largest of them"
    ),
    "weight zero": (lambda: Request("S", 1, VECTOR, weight=0.0), OptionError, "weight"),
    "weight infinite": (lambda: Request("S", 1, VECTOR, weight=math.inf), OptionError, "weight"),
    "rate above one": (lambda: Request("S", 1, VECTOR, rate=1.5), OptionError, "sampling rate"),
    "plan of another version": (lambda: Plan.from_dict({**planned().to_dict(), "version": 2}), DataError, "version"),
    "noise on models for a curator": (lambda: planned(mechanism="model-laplace"), OptionError, "does not go with"),
    "noise that does not fit": (lambda: planned(mechanism="two-sided-wishart"), OptionError, "does not fit"),
    "Gaussian without delta": (lambda: planned(delta=0.0, mechanism="gaussian"), OptionError, "delta=0"),
    "twice in a round": (lambda: make_plan([Request("S", 1, VECTOR)] * 2, Budget(1.0, 1e-5)), OptionError, "requested twice"),
    "rows for tasks": (lambda: planned(RowSum((3,), 1.0)), OptionError, "bounds a record"),
    "sampled Gram": (lambda: planned(TaskGram(5, 3, 1.0), {"rate": 0.5}), OptionError, "cannot be sampled"),
    "cap in secret": (lambda: planned(request={"most": 2, "rate": 0.5}), OptionError, "cap on participations"),
    "cap for everybody": (lambda: planned(request={"most": 2}, aggregation="local"), OptionError, "cap on participations"),
    "two caps": (
        lambda: make_plan(
            [Request("S", 1, VECTOR, rate=0.5, most=1), Request("T", 1, VECTOR, rate=0.5, most=2)],
            Budget(1.0, 1e-5, aggregation="local"),
        ), OptionError, "one kind of release",
    ),
}  # fmt: skip

MESSAGES_AND_SUMS = {
    "parts of a sum": (lambda: VECTOR.each(TOTAL), OptionError, "already a sum"),
    "wrong shape": (lambda: VECTOR.clip(np.ones((2, 4))), DataError, "expects messages"),
    "plain total": (lambda: VECTOR.total(np.ones((2, 3))), TypeError, "made by contribution.clip"),
    "clipped for another": (lambda: VectorSum((3,), 2.0).total(MESSAGES), OptionError, "was clipped for"),
    "Gram of some": (lambda: (g := TaskGram(3, 2, 1.0)).total(g.clip(np.ones((2, 1, 2)))), DataError, "all 3 tasks"),
    "stack of some": (lambda: (s := TaskStack(3, (2,), 1.0)).total(s.clip(np.ones((2, 2)))), DataError, "all 3 tasks"),
    "sum of another shape": (lambda: seal_clipped_sum(VECTOR, np.zeros(4), 1), DataError, "expected a vector sum"),
    "sum of matrices": (lambda: seal_clipped_sum(DiagonalSum(3, 1.0), np.zeros(3), 1), DataError, "expected a vector sum"),
    "sum too long": (lambda: seal_clipped_sum(VECTOR, np.full(3, 9.0), 1), DataError, "exceeds"),
    "sum not finite": (lambda: seal_clipped_sum(VECTOR, np.full(3, np.nan), 1), DataError, "not finite"),
    "unknown contribution": (lambda: contribution_from_dict({"kind": "x"}), DataError, "unknown contribution"),
    "rows after the fact": (lambda: RowSum((3,), 1.0).clip(np.ones((2, 3))), OptionError, "after the fact"),
    "Bounded by hand": (lambda: Bounded(np.ones(3), VECTOR, False, None), TypeError, "only by clipping"),
    "norm zero": (lambda: check_norm(0.0), OptionError, "clipping norm"),
    "rows of three dimensions": (lambda: clip_rows(np.ones((2, 2, 2)), 1.0), DataError, "2-d"),
    "too many messages": (lambda: partial_sums.sum_on_grid(np.zeros((2048, 1), np.float32), 1.0), OptionError, "at most 2047"),
    "released as it is": (lambda: released(planned(), np.ones((2, 3))), TypeError, "only clipped values"),
    "released for another": (lambda: released(planned(VectorSum((3,), 2.0)), MESSAGES), OptionError, "was planned for"),
    "released sum": (lambda: released(planned(), TOTAL, "local"), OptionError, "only the sum over tasks"),
    "no shares": (lambda: aggregation.secure_messages(planned().releases[0], MESSAGES, NOISE, None), OptionError, "shares"),
    "sum of models": (
        lambda: aggregation._local_model(planned(aggregation="local-model").releases[0], TOTAL, NOISE, None),
        OptionError, "not their sum",
    ),
    "models without noise": (
        lambda: aggregation._local_model(planned(epsilon=None).releases[0], MESSAGES, NOISE, None),
        OptionError, "needs a private plan",
    ),
    "shares of other tasks": (
        lambda: aggregation.secure_messages(
            planned(aggregation="secure", secure=SECURE).releases[0], MESSAGES, NOISE, None
        ),
        SecureSumRefused, "the plan is for 10 tasks",
    ),
    "a sum nobody could have made": (lambda: _finished_sum(2**60), SecureSumRefused, "larger than all tasks"),
    "a long sum of small parts": (lambda: _finished_sum(None), SecureSumRefused, "larger than all tasks"),
    "message beyond its norm": (
        lambda: Grid(2, 1.0, 2.0**-10, "norm").to_integers(np.full(2, 50.0), _words()), OptionError, "exceeds the norm",
    ),
}  # fmt: skip

ACCOUNTING = {
    "count": (lambda: Charge(PureEvent(1.0), -1), OptionError, "count"),
    "half a count": (lambda: Charge(PureEvent(1.0), 1.5), OptionError, "count"),
    "rate": (lambda: SampledGaussianEvent(1.0, 1.5), OptionError, "sampling rate"),
    "cap": (lambda: CappedEvent(PureEvent(1.0), 0), OptionError, "whole number"),
    "runs": (lambda: SelectEvent((Charge(PureEvent(1.0)),), 0.5), OptionError, "mean_runs"),
    "event": (lambda: event_from_dict({"kind": "x"}), DataError, "unknown event"),
    "event of another version": (lambda: event_from_dict({**PureEvent(1.0).to_dict(), "version": 9}), DataError, "version 9"),
    "noise": (lambda: GaussianEvent(0.0), OptionError, "noise_multiplier must be"),
    "pure epsilon": (lambda: PureEvent(0.0), OptionError, "epsilon must be positive"),
    "endless epsilon": (lambda: PureEvent(float("inf")), OptionError, "epsilon must be positive"),
    "delta": (lambda: guarantees.check_delta(1.0), OptionError, "delta must be"),
    "new delta": (lambda: guarantees.check_new_delta(0.5), OptionError, "nothing is promised"),
    "mu without delta": (lambda: guarantees.gaussian_mu(1.0, 0.0), OptionError, "delta > 0"),
    "target missed": (lambda: calibrate.verify_target([Charge(PureEvent(2.0))], 1.0, 0.0), OptionError, "above its target"),
    "Q": (lambda: calibrate.geometric(3, 0.0), OptionError, "Q must be"),
    "weights": (lambda: calibrate.largest_base_epsilon([1.0, -1.0], 1.0, 1e-5), OptionError, "weights"),
    "no weights": (lambda: calibrate.largest_base_epsilon([], 1.0, 1e-5), OptionError, "weights"),
    "rounds": (lambda: calibrate.uniform(0), OptionError, "rounds"),
    "unknown to the accountant": (
        lambda: ACCOUNTANTS.get("pure").epsilon([Charge(GaussianEvent(1.0))], 1e-5), OptionError, "cannot account"
    ),
    "two plans at once": (reserved_twice, BudgetExceeded, "still open"),
    "not reserved": (lambda: MemoryAccount().commit(planned().releases[0]), BudgetExceeded, "was not reserved"),
    "seed": (lambda: insecure_seeded_noise(-1), OptionError, "seed"),
    "integer law": (lambda: integer_tables.noise_table("x", 1.0), OptionError, "unknown integer noise"),
    "integer variance": (lambda: integer_tables.noise_table("skellam", 0.0), OptionError, "deviation"),
    "no certificate": (lambda: Certificate.from_json("[]"), DataError, "a table of names"),
    "does not hold": (lambda: Verification(False, ("x",)).require(), CheckFailed, "does not hold"),
}  # fmt: skip

SHARES = {
    "one task": (lambda: SecureOptions.for_tasks(1), OptionError, "at least two sites"),
    "cohort of colluders": (lambda: SecureOptions.for_tasks(10, colluders=5, min_cohort=5), OptionError, "can lose at most"),
    "options in a list": (lambda: SecureOptions.parse(10, ["colluders"]), OptionError, "takes named options"),
    "unknown option": (lambda: SecureOptions.parse(10, {"colours": 3}), OptionError, "got colours"),
    "sites of a federation": (lambda: SecureOptions.parse(3, {"sites": [3]}, [1, 2]), OptionError, "got sites"),
    "no colluders": (lambda: SecureOptions(10, 0, 10).check(), OptionError, "from 1 to 9"),
    "nothing but colluders": (lambda: SecureOptions(10, 10, 10).check(), OptionError, "from 1 to 9"),
    "sites that miss tasks": (lambda: SecureOptions.for_tasks(10, sites=[4, 5]), OptionError, "adding up to 10"),
    "a site without tasks": (lambda: SecureOptions.for_tasks(10, sites=[10, 0]), OptionError, "adding up to 10"),
    "half a site": (lambda: SecureOptions.for_tasks(10, sites=[9.5, 0.5]), OptionError, "adding up to 10"),
    "coarse grid": (lambda: SecureOptions.for_tasks(10, grid_bits=3), OptionError, "grid_bits"),
    "law": (lambda: SecureOptions.for_tasks(10, law="x"), OptionError, "law must be one of"),
    "share": (lambda: SecureOptions.for_tasks(10, colluders=1.5), OptionError, "share of the sites"),
    "options": (lambda: planned(aggregation="secure"), OptionError, "number of tasks"),
    "paper": (lambda: planned(aggregation="secure", secure=SECURE, variant="paper"), OptionError, "variant='sound'"),
    "no delta": (lambda: planned(aggregation="secure", secure=SECURE, delta=0.0), OptionError, "delta > 0"),
    "tiny delta": (lambda: planned(aggregation="secure", secure=SECURE, delta=1e-12), OptionError, "delta is too small"),
    "noise that cannot be shared": (
        lambda: planned(aggregation="secure", secure=SECURE, mechanism="laplace"), OptionError, "cannot be shared"
    ),
    "no sum": (lambda: planned(TaskGram(10, 3, 1.0), aggregation="secure", secure=SECURE), OptionError, "not a sum over tasks"),
    "no options": (lambda: SharedGaussian.calibrated(VECTOR, "replace-one", 1.0), OptionError, "needs aggregation='secure'"),
    "Skellam": (lambda: SharedSkellamEvent(0.0, 1.0, 1.0), OptionError, "positive variance"),
    "more than 64 bits": (
        lambda: planned(aggregation="secure", secure=SecureOptions(10**13, 1, 10**13)), OptionError, "64 bits",
    ),
    "narrow shares": (lambda: gaussian_share_distance(1.0, 3, 5), OptionError, "too narrow"),
    "rows by norm": (lambda: _rows_by_norm(), OptionError, "condition must be 'error'"),
    "Wishart as printed": (
        lambda: PaperWishart.calibrated(OuterSum(3, 1.0), "add-remove", 1.0, "sound"), OptionError, "variant"
    ),
    "l2-Laplace as printed": (lambda: PaperL2Laplace.calibrated(VECTOR, "add-remove", 1.0, "sound"), OptionError, "variant"),
    "rows as models": (lambda: ModelLaplace.calibrated(RowSum((3,), 1.0), "add-remove", 1.0), OptionError, "unit='task'"),
}  # fmt: skip

BOOKS = {
    "nameless": (lambda: Key("", "task", "replace-one", "server"), OptionError, "name"),
    "unknown observer": (lambda: Key("a", "task", "replace-one", "nobody"), OptionError, "expected one of other-tasks"),
    "limit": (lambda: book().set_limit(KEY, math.inf, 1e-5), OptionError, "limit epsilon"),
    "rule": (lambda: book().set_limit(KEY, 1.0, 1e-5, rule="renyi"), OptionError, "a rule is chosen by the first run"),
    "nothing to reserve in": (lambda: book().reserve(KEY, [Charge(PureEvent(0.1))], 1e-5), UnknownName, "no account"),
    "nothing to commit to": (lambda: book().commit(KEY, "run", "1/S", PureEvent(0.1)), UnknownName, "no account"),
    "no account": (lambda: book().spent(KEY), UnknownName, "no account"),
    "which account": (lambda: book().key_for(None, "task", "replace-one", "other-tasks"), OptionError, "0 accounts"),
    "unknown account": (lambda: book().key_for("b", "task", "replace-one", "other-tasks"), UnknownName, "no account 'b'"),
    "no URL": (lambda: Book("budget.db"), OptionError, "given as a URL"),
    "ledger in memory": (lambda: Book("sqlite://"), OptionError, "forgets what was spent"),
    "ledger of two lines": (lambda: Book("sqlite:///a\nb.db"), OptionError, "a text of 1 to 4096 characters on one line"),
    "ledger that is not there": (lambda: check_there("sqlite:////nowhere/at/all.db"), OptionError, "there is no ledger at"),
    "newer ledger": (lambda: refuse_newer({"step from the future"}), LedgerUnavailable, "newer version"),
    "never reserved": (lambda: _opened().commit(KEY, "run", "1/S", PureEvent(0.1)), BudgetExceeded, "never reserved"),
}
KEY = Key("a", "task", "replace-one", "other-tasks")


def _words():
    from taskveil.privacy.integer_sampler import KeyStream

    return KeyStream(bytes(32))


def _finished_sum(value):
    """A secure total with one coordinate of `value`, or with every coordinate just inside its own limit."""
    what = VectorSum((400,), 1.0)
    mechanism = planned(what, aggregation="secure", secure=SECURE).releases[0].mechanism
    inside = int(mechanism.limits(what)[0])
    return mechanism.finish(what, np.full(400, inside) if value is None else np.eye(1, 400, dtype=np.int64)[0] * value)


def _rows_by_norm():
    from taskveil.privacy.mechanisms.shared import grid_sensitivity

    return grid_sensitivity(Grid(3, 1.0, 2.0**-10, "norm"), RowSum((3,), 1.0), "replace-one")


def _opened():
    opened = book()
    opened.set_limit(KEY, 1.0, 1e-5)
    return opened


ALL = {
    f"{area}: {name}": case
    for area, cases in (
        ("plan", PLANS), ("sum", MESSAGES_AND_SUMS), ("accounting", ACCOUNTING), ("shares", SHARES), ("books", BOOKS),
    )
    for name, case in cases.items()
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_what_must_not_pass_is_refused_in_words(name):
    attempt, error, words = ALL[name]
    with pytest.raises(error, match=words):
        attempt()


def test_a_secure_sum_needs_a_carrier(monkeypatch):
    monkeypatch.setattr(aggregation, "_integer_sums", [])
    plan = planned(aggregation="secure", secure=SECURE)
    with pytest.raises(EnvironmentMissing, match="no secure sum is installed"):
        released(plan, MESSAGES, "secure")


def test_an_account_of_another_sentence_is_not_charged():
    opened = _opened()
    with pytest.raises(OptionError, match="is kept for"):
        opened.key_for("a", "record", "replace-one", "other-tasks")
    assert opened.key_for("a", "task", "replace-one", "other-tasks") == KEY
