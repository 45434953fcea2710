"""scaling="private": what is sent, what it finds, what it costs, and that nothing else gets through."""

from __future__ import annotations

import math

import numpy as np
import pytest

import taskveil as tv
from taskveil import methods
from taskveil.errors import OptionError
from taskveil.methods import units_of_tasks
from taskveil.methods.base import PublicInfo, View
from taskveil.methods.common_scale import CommonScale, own_plan
from taskveil.methods.common_units import PUBLISHED, in_common_units
from taskveil.methods.units_of_records import MOMENTS, RecordUnits
from taskveil.methods.units_of_tasks import CENTRE, DECADES, RANGE, SCALE, VALUE_PART, TaskUnits, centre_message, scale_message
from taskveil.privacy.plan import Budget, make_plan
from taskveil.tasks.block import TaskBlock

UNITS = np.array([1000.0, 1.0, 0.01])
CENTRES = np.array([4000.0, 0.0, -0.02])


def table(n_tasks=300, rows=4, seed=0, kind="regression"):
    """Tiny tasks with one common model, columns in very different units, and the task of every row."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_tasks * rows, 3))
    score = z @ [1.0, -1.0, 0.5] + 0.5 * rng.standard_normal(len(z))
    y = 50.0 * score + 200.0 if kind == "regression" else np.where(score > 0, "yes", "no")
    return CENTRES + UNITS * z, y, np.repeat(np.arange(n_tasks), rows).astype(str)


def fitted(method="subspace", *, epsilon=20.0, runtime="in_process", kind="regression", data=None, **options):
    X, y, task = data or table(kind=kind)
    make = tv.TaskRegressor if kind == "regression" else tv.TaskClassifier
    return make(method, epsilon=epsilon, delta=1e-5, scaling="private", insecure_noise_seed=1, runtime=runtime, **options).fit(
        X, y, task=task
    )


def block_of(X, y, sizes):
    return TaskBlock(np.asarray(X, float), np.asarray(y, float), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def view_of(round_, scale=1.0, scaled=1.0, centre=0.0, centred=1.0, columns=3, **values):
    units = (np.full(columns, v) for v in (scale, scaled, centre, centred))
    return View(round_, {**dict(zip(PUBLISHED, units, strict=True)), **values})


WILD = [
    [[1e150, 0.0], [-1e150, 1.0]], [[1e-160, 5.0], [2e-160, 5.0]], [[7.0, 7.0]], [[0.0, 0.0], [0.0, 0.0]], [[1e200, 1e200]] * 3,
]  # fmt: skip


@pytest.mark.parametrize("rows", WILD)
def test_a_message_is_finite_and_no_longer_than_one_whatever_the_rows_are(rows):
    block = block_of(rows, np.linspace(-1e100, 1e100, len(rows)), [len(rows)])
    sent = [scale_message(block), centre_message(block, view_of(1, scale=1e-4))]
    for message in sent:
        assert np.isfinite(message).all() and np.sqrt((message**2).sum()) <= 1 + 1e-12


def test_without_noise_the_released_units_are_those_of_the_columns():
    est = fitted(epsilon=None)
    board = est.record_.billboards[-1].values
    assert board["common/scaled"].all() and board["common/centred"].all()
    np.testing.assert_allclose(board["common/scale"][:3], UNITS, rtol=0.1)  # 300 tasks of 4 rows: 0.03 in log10
    np.testing.assert_allclose((board["common/centre"][:3] - CENTRES) / UNITS, 0.0, atol=0.2)  # 1,200 rows: 0.03 each


def test_logs_of_deviations_are_unbiased_in_tasks_of_few_rows():
    """20,000 normal tasks of two rows: mean log within 6 standard errors (false alarm below 1e-6); uncorrected it is 0.28 off."""
    rng = np.random.default_rng(0)
    block = block_of(rng.standard_normal((40_000, 1)), rng.standard_normal(40_000), [2] * 20_000)
    sent = scale_message(block)[:, 0, 0] * math.sqrt(2 / VALUE_PART) * DECADES
    error = sent.std() / math.sqrt(sent.size)
    assert abs(sent.mean()) < 6 * error < 0.05


def test_columns_nobody_sees_vary_keep_every_tasks_own_units():
    X, y, task = table()
    X[:, 1] = np.repeat(np.arange(300.0), 4)  # constant within every task
    est = fitted(data=(X, y, task))
    board = est.record_.billboards[-1].values
    assert board["common/scaled"].tolist() == [1.0, 0.0, 1.0, 1.0]
    np.testing.assert_allclose(est.scaling_.shift[:, 1], np.arange(300.0))


def test_common_units_beat_own_units_where_tasks_are_tiny():
    X, y, task = table(seed=1)
    Xt, yt, _ = table(rows=20, seed=2)
    tt = np.repeat(np.arange(300), 20).astype(str)
    error = {}
    for scaling in ("own", "private"):
        est = tv.TaskRegressor(epsilon=10.0, delta=1e-5, scaling=scaling, insecure_noise_seed=0).fit(X, y, task=task)
        assert est.scaling_.mode == scaling
        error[scaling] = np.mean((est.predict(Xt, task=tt) - yt) ** 2) / yt.var()
    assert error["private"] < 0.8 * error["own"]


@pytest.mark.parametrize("name", ["subspace", "mean", "pooled", "low-rank", "group-sparse", "svm"])
def test_both_runtimes_give_the_same_models(name):
    here, there = fitted(name), fitted(name, runtime="flower")
    assert here.scaling_.mode == "private"
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_saved_model_predicts_adapts_and_verifies(tmp_path, kind):
    est = fitted(kind=kind, epsilon=30.0)
    X, y, task = table(kind=kind, seed=3)
    est.save(tmp_path / "model")
    back = tv.load(tmp_path / "model")
    assert np.array_equal(est.predict(X, task=task), back.predict(X, task=task))
    new = back.adapt(X[:40], y[:40])
    assert new.score(X[40:80], y[40:80], task=np.full(40, "new task")) > 0.5
    assert len(est.gain_) == 300 and np.isfinite(est.gain_.error_shared).all()
    assert back.method_.share == 0.1 and back.method_.name == "subspace"


def test_a_run_continues_from_its_checkpoint(tmp_path):
    whole = fitted()
    again = fitted(run_dir=tmp_path)
    resumed = fitted(run_dir=tmp_path)  # everything was done: nothing is released twice
    np.testing.assert_array_equal(whole.coef_, again.coef_)
    np.testing.assert_array_equal(again.coef_, resumed.coef_)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_the_declared_share_of_the_budget_is_spent_and_listed(share):
    est = tv.TaskRegressor(epsilon=20.0, delta=1e-5, scaling="private", scaling_share=share)
    X, y, task = table()
    est.fit(X, y, task=task)
    rho = {p.id: p.event.zcdp() for p in est.record_.plan.releases}
    bought = rho[f"1/{SCALE}"] + rho[f"2/{CENTRE}"]
    assert bought / sum(rho.values()) == pytest.approx(share, rel=1e-6)
    certificate = est.certificate_
    assert certificate.verify() and certificate.statements[0].epsilon <= 20.0
    assert any(f"{SCALE}, {CENTRE}" in line and "charged" in line for line in certificate.assumptions)
    assert not any("own statistics, which are never sent" in line for line in certificate.assumptions)


def test_the_plan_spends_no_more_than_without_common_units():
    public = PublicInfo(1000, 5, 1, "regression")
    for aggregation in ("curator", "local"):
        budget = Budget(1.0, 1e-5, aggregation=aggregation)
        plan = make_plan(CommonScale(methods.get("subspace")).requests(public, budget), budget)
        assert 0.99 < plan.epsilon() <= 1.0


def test_whether_it_pays_is_decided_by_public_sizes():
    budget = Budget(1.0, 1e-5)
    method = CommonScale(methods.get("subspace"))
    assert method.affordable(PublicInfo(2410, 3, 1, "regression"), budget)
    assert not method.affordable(PublicInfo(139, 27, 1, "regression"), budget)
    est = fitted(epsilon=0.1)
    assert est.scaling_.mode == "own" and "not bought" in est.warnings_[0]
    assert not {SCALE, CENTRE} & {p.name for p in est.record_.plan.releases}


REFUSED = [
    ({"unit": "record", "method": "mean"}, "declared outer ranges"),
    ({"unit": "record", "method": "mean", "bounds": {"features": {"*": [-1, 1]}}}, "declared outer ranges"),
    ({"variant": "paper", "method": "low-rank"}, "variant='sound'"),
    ({"method": "async"}, "does not go with method 'async'"),
    ({"normalise": "row"}, "normalise"),
    ({"scaling_share": 1.5}, "scaling_share"),
    ({"observer": "public"}, "public"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_it_cannot_do_is_refused_with_a_remedy(options, words):
    with pytest.raises(OptionError, match=words):
        fitted(**options)


# ------------------------------------------------------------- isolation: task 0 is replaced, billboards are held fixed


def outcome(first_rows):
    """Messages of both rounds and of the method, and finished models, of all tasks but task 0."""
    X, y, _ = table(6, 5)
    n = len(first_rows)
    block = block_of(np.vstack([first_rows, X[5:]]), np.concatenate([np.linspace(0, 1, n), y[5:]]), [n, *[5] * 5])
    public, budget = PublicInfo(6, 3, 1, "regression"), Budget(50.0, 1e-5)
    method = CommonScale(methods.get("subspace", rounds=2))
    plan = make_plan(method.requests(public, budget), budget)
    side = method.task_side(block, public, plan)
    _, inner = method.inner.server_side(public, own_plan(plan)).start()
    sent, state = [], side.start()
    for number in range(2 + TaskUnits.rounds):
        view = view_of(number, 2.0, float(number != 1), 0.1, 1.0, 4, **(inner.values if number >= TaskUnits.rounds else {}))
        state, message = side.step(state, view)
        sent += [value[1:] for value in message.values()]
    models = side.finish(state, view_of(TaskUnits.rounds + 2, 2.0, 0.0, 0.1, 0.0, 4, **inner.values))
    return [*sent, models.coef[1:], models.intercept[1:]]


REPLACEMENTS = [
    np.full((1, 3), 1e150), np.full((7, 3), 1e-160), np.zeros((400, 3)), np.random.default_rng(5).standard_normal((5, 3)) * 1e6,
]  # fmt: skip


@pytest.mark.parametrize("rows", REPLACEMENTS)
def test_what_one_task_holds_reaches_the_others_through_the_billboard_alone(rows):
    before = outcome(table(6, 5)[0][:5])
    for here, there in zip(before, outcome(rows), strict=True):
        assert np.array_equal(here, there)


def test_units_taken_over_all_tasks_would_be_found_out(monkeypatch):
    """Twin: a spread common to the block, never released, gives every other task's messages away."""
    honest = units_of_tasks.own_statistics

    def pooled(block, loss="squared"):
        mean, deviation, seen = honest(block, loss)
        return mean, np.broadcast_to(deviation.mean(axis=0), deviation.shape), seen

    monkeypatch.setattr(units_of_tasks, "own_statistics", pooled)
    with pytest.raises(AssertionError):
        test_what_one_task_holds_reaches_the_others_through_the_billboard_alone(REPLACEMENTS[3])


def test_a_server_cannot_break_a_task_by_the_units_it_publishes():
    X, y, _ = table(3, 4)
    block = block_of(X, y, [4] * 3)
    for scale in (0.0, 1e-300, 1e300):
        for units in (TaskUnits(), RecordUnits()):
            scaling = units.scaling(block, view_of(2, scale, 1.0, RANGE, 1.0, 4).values)
            assert np.isfinite(in_common_units(block, scaling).X).all()


# --------------------------------------------------------------------------------------- unit record: rows, not tasks

WIDE = {"features": {"x0": [-4_000, 12_000], "x1": [-8, 8], "x2": [-0.1, 0.06]}, "target": [-500, 900]}


def by_records(name="mean", data=None, **options):
    X, y, task = data or table(40, 200)
    options = {"epsilon": 5.0, "delta": 1e-6, "bounds": WIDE, "insecure_noise_seed": 1, **options}
    return tv.TaskRegressor(name, unit="record", scaling="private", **options).fit(X, y, task=task)


def test_record_units_refine_wide_declared_ranges():
    est = by_records()
    assert est.record_.plan.releases[0].name == MOMENTS and est.certificate_.statements[0].epsilon <= 5.0
    np.testing.assert_allclose(est.scaling_.scale[0], UNITS, rtol=0.25)  # noise of a variance: 0.002, the variances: 1/64
    np.testing.assert_allclose((est.scaling_.shift[0] - CENTRES) / UNITS, 0.0, atol=0.5)
    assert (est.scaling_.scale == est.scaling_.scale[0]).all()  # nothing of a task's own


def test_one_row_moves_one_bounded_summand_of_the_record_message():
    X, y, _ = table(4, 5)
    rows, other = X / [20_000, 20, 0.5], X / [20_000, 20, 0.5]
    other[7] = 1e150
    public = PublicInfo(4, 3, 1, "regression", task_rows=(5,) * 4)
    plan = make_plan(CommonScale(methods.get("mean")).requests(public, b := Budget(1.0, 1e-6, unit="record")), b)
    sums = []
    for X_ in (rows, other):
        sent = RecordUnits().message(block_of(X_, y / 2000, [5] * 4), view_of(0, columns=4), None, None)[MOMENTS]
        sums.append(plan.releases[0].contribution.sum_factored_rows(sent.X, sent.slopes, sent.offsets).value)
    moved = np.linalg.norm(np.reshape(sums[0] - sums[1], (4, -1)), axis=1)
    assert moved[[0, 2, 3]].max() == 0.0 and 0 < moved[1] <= 2.0


def test_too_few_rows_keep_the_declared_ranges():
    est = by_records(data=table(3, 5), epsilon=0.5)
    assert est.scaling_.mode == "declared" and "not bought" in est.warnings_[0]
