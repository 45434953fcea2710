"""Asynchronous multi-task learning: the optimum without noise, the accounting with it, the paper's claim refuted."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.async_reference import make_block, objective, plan_of, public_of, run, synchronous_optimum
from tests.support.small import related_tasks

from taskveil.errors import OptionError
from taskveil.estimators import TaskRegressor
from taskveil.methods.async_mtl import AsyncMTL
from taskveil.methods.async_mtl.presets import PRESETS
from taskveil.methods.async_mtl.server import Relaxation, arock
from taskveil.privacy.events import SampledGaussianEvent
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime.virtual_clock import longest_prefix, message_limits

STRENGTHS = {"shared_penalty": 0.02, "own_penalty": 0.04}


def gap(method: AsyncMTL, block, **more) -> float:
    plan = plan_of(method, public_of(block), unit=more.pop("unit", "record"))
    record = run(method, block, plan, **more)
    P = record.billboards[-1].values["shared"]
    found = objective(method, block, P, record.models.coef - P, record.models.intercept)
    return found - synchronous_optimum(method, block)


@pytest.mark.parametrize(("preset", "delays"), zip(PRESETS.names(), [("uniform", 0.015), ("pareto", 0.001)] * 2, strict=True))
def test_without_noise_every_preset_reaches_the_synchronous_optimum_under_random_delays(preset, delays):
    method = AsyncMTL(preset, refine=False, rounds=1500, delays=delays, tol=1e-4, **STRENGTHS)
    assert abs(gap(method, make_block(n_tasks=5))) < 1e-4


def test_without_noise_classification_reaches_the_synchronous_optimum():
    method = AsyncMTL("dirty", refine=False, rounds=1500, tol=1e-5, **STRENGTHS)
    assert abs(gap(method, make_block(n_tasks=4, kind="classification"))) < 1e-4


def test_the_semi_exact_update_reaches_the_same_optimum():
    method = AsyncMTL("aso", refine=False, rounds=800, **STRENGTHS)
    assert abs(gap(method, make_block(n_tasks=4, rows=20), unit="task")) < 1e-4


def test_the_proved_relaxation_reaches_the_optimum_too():
    method = AsyncMTL("aso", refine=False, rounds=3000, relaxation="delays", tol=1e-4, **STRENGTHS)
    assert abs(gap(method, make_block(n_tasks=5))) < 1e-4


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_reapplying_stale_gradients_does_not_reach_it(share):
    """The paper's server (Alg. 1) at steps 1/L and 0.3/L diverges, ours at 1/L converges: docs/theory/asynchronous.md#wrong."""
    block = make_block(n_tasks=12)
    curvature = AsyncMTL().task_side(block, public_of(block), plan_of(AsyncMTL(), public_of(block))).problem.curvature()
    method = AsyncMTL("aso", refine=False, rounds=60, step=share / curvature.max(), **STRENGTHS)
    optimum = synchronous_optimum(method, block)

    def found(variant: str) -> float:
        record = run(method, block, plan_of(method, public_of(block), variant=variant))
        P = record.billboards[-1].values["shared"]
        return objective(method, block, P, record.models.coef - P, record.models.intercept)

    assert not found("paper") - optimum < 10.0
    assert found("sound") - optimum < 0.1


def test_arock_shortens_late_messages_more():
    eta = arock(np.array([0, 10, 1000]), 25)
    assert eta[0] == pytest.approx(0.9) and eta[1] == pytest.approx(0.9 / 5) and np.all(np.diff(eta) < 0)


def test_the_safeguard_hands_over_to_the_proved_rule_when_the_residual_stops_falling():
    rule = Relaxation("safeguarded", 2)
    watch = rule.start()
    for _ in range(300):
        rule.observe(np.array([0, 1]), np.array([1.0, 1.0]), watch)
    assert rule.eta(np.array([10]), watch)[0] < 0.2
    steady = rule.start()
    for k in range(300):
        rule.observe(np.array([0, 1]), np.array([0.9**k, 0.9**k]), steady)
    assert rule.eta(np.array([10]), steady)[0] == pytest.approx(0.9)


def test_a_node_that_is_away_does_not_trigger_the_safeguard():
    rule = Relaxation("safeguarded", 2)
    watch = rule.start()
    rule.observe(np.array([1]), np.array([1.0]), watch)
    for _ in range(2000):
        rule.observe(np.array([0]), np.array([1.0]), watch)
    assert rule.eta(np.array([10]), watch)[0] == pytest.approx(0.9)


# ------------------------------------------------------------------ privacy


def test_every_message_is_one_sampled_gaussian_event_and_the_whole_transcript_composes_by_pld():
    """Compared with dp-accounting's own PLD accountant over the planned number of messages."""
    import dp_accounting
    from dp_accounting import pld

    method = AsyncMTL(rounds=12, row_rate=0.5)
    plan = plan_of(method, public_of(make_block()), epsilon=2.0)
    events = {r.event for r in plan.releases}
    assert len(events) == 1 and isinstance(next(iter(events)), SampledGaussianEvent)
    (event,) = events
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    accountant.compose(event.dp_event(), 12)
    assert accountant.get_epsilon(1e-5) == pytest.approx(2.0, rel=0.02)
    assert plan.epsilon() <= 2.0
    forgotten = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    forgotten.compose(event.dp_event(), 1)  # the paper's accounting: one message only
    assert forgotten.get_epsilon(1e-5) < 1.0


def test_the_noise_has_the_planned_scale_and_half_of_it_is_noticed():
    """The zero message of 400 tasks: chi-square test at 1e-6 on 400 x 5 draws, which rejects half the noise."""
    from scipy.stats import chi2

    block = make_block(n_tasks=400, rows=2, n_features=4)
    block = block.with_targets(np.zeros((block.n_rows, 1)))
    method = AsyncMTL(rounds=1, row_rate=0.5)
    plan = plan_of(method, public_of(block), epsilon=1.0)
    drawn = []
    for task in range(400):
        planned = plan.releases[0]
        stream = insecure_seeded_noise(5).at(1, "gradient", task)
        drawn.append(planned.mechanism.noise(planned.contribution.total_shape, stream))
    scale = plan.releases[0].event.noise_multiplier * plan.releases[0].contribution.bound
    statistic = float(np.square(np.array(drawn) / scale).sum())
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 2000)
    assert low < statistic < high
    assert not low < statistic / 4 < high


def test_one_record_moves_a_message_by_at_most_the_clipping_norm():
    block = make_block()
    X = block.X.copy()
    X[0] = 1e6  # the worst record there is
    method = AsyncMTL(rounds=1, row_rate=1.0)
    plan = plan_of(method, public_of(block), epsilon=1.0)
    bound = plan.releases[0].contribution.bound
    from taskveil.runtime.round import bounded_rows

    sums = []
    for rows in (block, block.with_rows(X)):
        side = method.task_side(rows.take([0]), public_of(block), plan)
        view = method.server_side(public_of(block), plan).start()[1].view(np.array([0]))
        _, message = side.step(side.start(), view)
        sums.append(bounded_rows(plan.releases[0], message["gradient"], insecure_seeded_noise(0), [0]).value)
    moved = np.linalg.norm(sums[0] - sums[1])
    assert moved <= 2 * bound
    unclipped = [np.einsum("nr,nd->rd", m.slopes, m.X) for m in _messages(method, plan, block, X)]
    assert np.linalg.norm(unclipped[0] - unclipped[1]) > 2 * bound  # the check rejects a message that was not clipped


def _messages(method, plan, block, X):
    for rows in (block, block.with_rows(X)):
        side = method.task_side(rows.take([0]), public_of(block), plan)
        view = method.server_side(public_of(block), plan).start()[1].view(np.array([0]))
        yield side.step(side.start(), view)[1]["gradient"]


def test_no_private_state_enters_a_message_where_the_unit_is_the_record():
    """Two histories with the same billboard give the same message: the task side keeps a counter and nothing else."""
    block = make_block()
    method = AsyncMTL(rounds=3)
    side = method.task_side(block.take([0]), public_of(block), plan_of(method, public_of(block), epsilon=1.0))
    assert set(side.start()) == {"messages"}


def test_semi_exact_is_refused_where_the_unit_is_the_record():
    with pytest.raises(OptionError, match="semi_exact keeps un-noised private state"):
        plan_of(AsyncMTL(semi_exact=True), public_of(make_block()), epsilon=1.0)


def test_nodes_with_smaller_budgets_stop_earlier():
    block = make_block(n_tasks=3)
    method = AsyncMTL(rounds=16, budgets=(2.0, 1.5, 1.0), row_rate=0.5)
    plan = plan_of(method, public_of(block), epsilon=2.0)
    record = run(method, block, plan)
    sent = record.extra["messages_per_task"]
    assert sent[0] == 16 and sent[0] > sent[1] > sent[2] > 0
    rounds = [r for _, r in plan.rounds()]
    assert longest_prefix(plan, rounds, 1.5) == sent[1]
    from taskveil.privacy.accountants import best_epsilon

    assert best_epsilon(plan.charges()[: sent[1]], plan.budget.delta)[0] <= 1.5
    assert best_epsilon(plan.charges()[: sent[1] + 1], plan.budget.delta)[0] > 1.5


def test_the_account_is_charged_for_the_longest_sequence_of_one_node():
    from taskveil.privacy.release import MemoryAccount

    block, account = make_block(n_tasks=4), MemoryAccount()
    method = AsyncMTL(rounds=5)
    record = run(method, block, plan_of(method, public_of(block), epsilon=1.0), account=account)
    assert len(account.spent()) == 5 == len(record.executed)
    assert len(record.schedule) == 20


def test_the_two_noise_form_is_pure_dp_and_alternates_own_and_shared_gradients():
    method = AsyncMTL(rounds=4, noises=2)
    plan = plan_of(method, public_of(make_block()), epsilon=2.0, delta=0.0, mechanism="l2-laplace")
    assert [r.name for r in plan.releases[:4]] == ["own-gradient", "gradient"] * 2
    assert sum(r.event.pure_epsilon() for r in plan.releases) == pytest.approx(2.0, rel=1e-6)
    record = run(method, make_block(), plan)
    assert np.isfinite(record.models.coef).all()


def test_the_paper_variant_prints_the_true_epsilon_over_ten_thousand_messages():
    block = make_block(n_tasks=3)
    public = public_of(block)
    method = AsyncMTL(rounds=10_000)
    plan = plan_of(method, public, epsilon=0.5, variant="paper", neighbours="replace-one")
    assert plan.budget.epsilon == pytest.approx(5000.0)
    (first, *_) = method.under("record", "paper").disclosure(public, plan).refutations
    assert "10000 messages" in first and "5000" in first
    noise = plan.releases[1]
    assert noise.mechanism.scale == pytest.approx(2 * noise.contribution.bound / 0.25, rel=1e-6)


def test_the_two_noises_of_a_message_may_share_its_epsilon_unequally():
    method = AsyncMTL(rounds=2, first_share=0.2)
    plan = plan_of(method, public_of(make_block()), epsilon=1.0, variant="paper", neighbours="replace-one")
    assert [r.event.pure_epsilon() for r in plan.releases[:2]] == pytest.approx([0.2, 0.8], rel=1e-6)
    with pytest.raises(OptionError, match="first_share"):
        plan_of(AsyncMTL(first_share=1.0), public_of(make_block()), epsilon=1.0)


def test_theorem_3_6_sensitivity_for_regression_and_lemma_2_for_classification():
    """Theorem 3.6 is for (s - y)^2; our squared loss is half of it, and so is the sensitivity."""
    for kind, expected in (("regression", 4 * 1.5 * (1.5 * 2.0 + 1) / 2), ("classification", 2 * 1.5)):
        public = public_of(make_block(kind=kind))
        method = AsyncMTL(rounds=1, row_bound=1.5, model_bound=2.0)
        plan = plan_of(method, public, epsilon=1.0, variant="paper", neighbours="replace-one")
        assert plan.releases[1].contribution.sensitivity("replace-one").l2 == pytest.approx(expected)


def test_a_paper_run_has_a_certificate_that_does_not_hold():
    est = TaskRegressor(AsyncMTL(rounds=3), variant="paper", unit="record", epsilon=1.0).fit(related_tasks(n_tasks=3))
    assert not est.certificate_.holds
    assert "composes nothing" in str(est.certificate_)


def test_refined_models_are_named_as_unprotected_and_unrefined_ones_may_be_published():
    tasks = related_tasks(n_tasks=4)
    common = {"unit": "record", "epsilon": 2.0, "delta": 1e-3}
    refined = TaskRegressor(AsyncMTL(rounds=3), **common).fit(tasks).certificate_
    assert any("refined models" in text for text in refined.not_protected)
    assert any("even if it is published" in text for text in refined.assumptions)
    plain = TaskRegressor(AsyncMTL(rounds=3, refine=False), observer="public", **common).fit(tasks)
    assert "public" in {str(s.observer) for s in plain.certificate_.statements}
    np.testing.assert_array_equal(plain.models_.coef, plain.record_.models.coef)  # not replaced by one fitted on rows
    with pytest.raises(OptionError):
        TaskRegressor(AsyncMTL(rounds=3), observer="public", **common).fit(tasks)


def test_record_level_runs_refuse_scaling_by_own_statistics():
    with pytest.raises(OptionError, match="own statistics"):
        TaskRegressor("async", unit="record", scaling="own").fit(related_tasks(n_tasks=3))


def test_limits_are_the_whole_plan_without_private_budgets():
    plan = plan_of(AsyncMTL(rounds=5), public_of(make_block()), epsilon=1.0)
    assert message_limits(plan, AsyncMTL(), 3).tolist() == [5, 5, 5]
