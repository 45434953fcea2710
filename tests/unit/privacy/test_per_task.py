"""A budget for each task: what a task allows less it sends less of, and the certificate says so for every budget."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil import methods
from taskveil.audits import audit_estimator, mechanisms
from taskveil.audits.result import search
from taskveil.errors import OptionError
from taskveil.privacy import per_task
from taskveil.privacy.certificate import build_certificate
from taskveil.privacy.contributions import DiagonalSum, MomentSum, OuterSum, TaskGram, VectorSum, Weighted, contribution_from_dict
from taskveil.privacy.guarantees import gaussian_delta
from taskveil.privacy.per_task import counted_for, epsilons_of, task_shares
from taskveil.privacy.plan import Budget, Plan, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise

EPSILONS = (0.5, 2.0, 2.0, 1.0, 0.5)
INSIDE = [VectorSum((3,), 1.7), OuterSum(3, 1.2, 2), DiagonalSum(3, 0.7), MomentSum(3, 0.4, 0.2, 0.6)]
REFUSED = (
    "async", "relationship", "fixed-relationship", "dp-mtrl", "clustered-mean", "mocha", "pp-sgd", "fedavg", "fedprox",
    "shared-representation",
)  # fmt: skip
EXACT = {"source": "system", "exact": True}


def plan_of(inside=INSIDE[0], rounds=2, **options) -> Plan:
    budget = Budget(max(EPSILONS), 1e-5, task_epsilons=EPSILONS, **options)
    return make_plan([Request("sum", t + 1, inside) for t in range(rounds)], budget)


def test_shares_are_ratios_of_mu_and_not_of_epsilon():
    """mu_i satisfies Balle & Wang's curve at (epsilon_i, delta); the ratio is not 1 : 4."""
    shares = task_shares(EPSILONS, 1e-5)
    assert shares[1] == shares[2] == 1.0 and shares[0] == shares[4]
    top = 1 / next(c.event for c in plan_of(rounds=1).charges()).noise_multiplier
    for share, epsilon in zip(shares, EPSILONS):
        assert gaussian_delta(epsilon, share * top) == pytest.approx(1e-5, rel=1e-3)
    assert not np.isclose(shares[0], 0.25, rtol=0.1)


@pytest.mark.parametrize("inside", INSIDE, ids=lambda c: c.kind)
def test_a_task_moves_the_sum_by_its_share_at_most_and_by_that_much(inside):
    """Opposite and orthogonal replacements of each task; the twin that scales nobody moves a small budget's sum too far."""
    what = Weighted(inside, task_shares(EPSILONS, 1e-5))
    messages = np.zeros((5, *inside.message_shape))
    rng = np.random.default_rng(0)
    for task, share in enumerate(what.shares):
        stated, furthest, unscaled = counted_for(what, share).sensitivity("replace-one").l2, 0.0, 0.0
        for _ in range(60):
            here, there = messages.copy(), messages.copy()
            here[task] = 100 * rng.standard_normal(inside.message_shape)
            there[task] = rng.choice([-1, 1]) * np.roll(here[task], rng.integers(0, 3), axis=-1)
            moved = what.to_vector(what.total(what.clip(here)) - what.total(what.clip(there)))
            plain = inside.to_vector(inside.total(inside.clip(here)) - inside.total(inside.clip(there)))
            furthest, unscaled = max(furthest, np.linalg.norm(moved)), max(unscaled, what.stretch * np.linalg.norm(plain))
        assert 0.6 * stated < furthest <= stated * (1 + 1e-9)
        assert share > 0.5 or unscaled > stated


@pytest.mark.parametrize("inside", INSIDE, ids=lambda c: c.kind)
def test_the_sum_stands_for_a_sum_over_all_tasks_and_is_made_of_single_summands(inside):
    what = Weighted(inside, task_shares(EPSILONS, 1e-5))
    bounded = what.clip(np.ones((5, *inside.message_shape)) / 10)
    np.testing.assert_allclose(what.each(bounded).sum(axis=0), what.total(bounded))
    np.testing.assert_allclose(what.total(bounded), inside.total(inside.clip(np.ones((5, *inside.message_shape)) / 10)))
    assert contribution_from_dict(json.loads(json.dumps(what.to_dict()))) == what


@pytest.mark.parametrize("aggregation", ["curator", "local"])
@pytest.mark.parametrize("inside", INSIDE, ids=lambda c: c.kind)
def test_every_budget_has_a_statement_that_is_recomputed_from_its_own_events(inside, aggregation):
    certificate = build_certificate("sum", plan_of(inside, aggregation=aggregation), EXACT, task_names="abcde")
    assert certificate.verify().ok
    said = [(s.epsilon, s.tasks, s.names) for s in certificate.statements if s.observer == "other-tasks"]
    assert said == [(0.5, 2, "a, e"), (1.0, 1, "d"), (2.0, 2, "b, c")]


def test_rounding_is_counted_in_full_for_small_shares():
    """+0.8 % of epsilon at f = 0.1 on a coarse grid (docs/theory/spending.md#budget-per-task).

    The fine grid of releases keeps it below 1e-6.
    """
    plan = plan_of(VectorSum((435,), 1.0))
    for share, epsilon in zip(task_shares(EPSILONS, 1e-5), EPSILONS):
        assert epsilon * (1 - 1e-4) < plan.certified(share=share)[0] <= epsilon


@pytest.mark.parametrize("change", [{"tasks": 3}, {"share": 0.9}, {"share": None, "tasks": None}, {"epsilon": 0.4}], ids=str)
def test_a_changed_statement_about_a_budget_is_found(change):
    certificate = build_certificate("sum", plan_of(), EXACT)
    first, *others = certificate.statements
    assert not replace(certificate, statements=(replace(first, **change), *others)).verify().ok
    assert not replace(certificate, statements=tuple(others)).verify().ok  # a budget without a statement


# ---------------------------------------------------------------- attacked


def attack(scaled: bool, seed: int = 1):
    """The task with the smallest budget against its opposite, by the likelihood ratio, at its own epsilon."""
    (planned,) = plan_of(VectorSum((1,), 1.0), rounds=1, neighbours="add-remove").releases
    what = planned.contribution
    raw = np.zeros((2, 5, 1))
    raw[1, 0] = 1e3
    totals = [what.total(what.clip(r)) if scaled else what.stretch * what.inner.total(what.inner.clip(r)) for r in raw]
    case, source = mechanisms.Setting(planned, (totals[0], totals[1])), insecure_seeded_noise(seed)

    def sampler(world, begin, count):
        return mechanisms._outputs(case, source, world, begin, count)

    return search(sampler, mechanisms.scores(case), EPSILONS[0], 1e-5, 200_000)


@pytest.mark.statistical
def test_an_attack_on_a_small_budget_finds_no_more_than_it_allows_and_finds_a_forgotten_share():
    """Refutation at 1e-6, 200,000 outputs of each world."""
    assert attack(scaled=True).refutation_bound <= EPSILONS[0] < attack(scaled=False).refutation_bound


@pytest.mark.audit
def test_the_audit_of_an_estimator_attacks_its_smallest_budget(monkeypatch):
    """The twin: shares are stated but not applied."""
    est = tv.TaskRegressor("dp-aggr", epsilon={"a": 1.0, "*": 30.0}, delta=1e-5)
    found = audit_estimator(est, trials=600, seed=1)
    assert found.claimed_epsilon == 1.0 and not found.refuted
    monkeypatch.setattr(per_task.Weighted, "_weights", lambda self: np.full(len(self.shares), self.stretch))
    assert audit_estimator(est, trials=600, seed=1).refuted


# ------------------------------------------------------------- for everybody


@pytest.mark.parametrize("name", methods.names())
def test_every_method_keeps_each_budget_or_refuses_with_a_remedy(name):
    tasks = related_tasks(n_tasks=6, rows=(8, 8), n_features=3)
    method = methods.get(name, clusters=[0, 0, 0, 1, 1, 1]) if name == "clustered-mean" else name
    est = tv.TaskRegressor(method, epsilon={tasks.task_names[0]: 0.5, "*": 2.0})
    try:
        statements = est.fit(tasks).certificate_.statements
    except OptionError as refusal:
        assert "a budget per task is refused" in str(refusal) and "give one epsilon for all tasks" in str(refusal)
        assert name in REFUSED
    else:
        assert est.certificate_.verify().ok and [s.epsilon for s in statements] == ([0.0] if name == "local" else [0.5, 2.0])


def test_the_same_budget_for_all_is_one_budget():
    tasks = related_tasks(n_tasks=6, rows=(8, 8), n_features=3)
    each, one = (tv.TaskRegressor("mean", epsilon=e, insecure_noise_seed=3).fit(tasks) for e in ({"*": 1.0}, 1.0))
    np.testing.assert_allclose(each.coef_, one.coef_, rtol=1e-6, atol=1e-9)
    assert [s.tasks for s in each.certificate_.statements] == [6]


@pytest.mark.parametrize(
    "options",
    [{"unit": "record", "method": "mean"}, {"delta": 0.0}, {"aggregation": "secure"}, {"runtime": "flower"},
     {"method": methods.get("mean", rate=0.5)}],
    ids=str,
)  # fmt: skip
def test_what_has_no_proof_is_refused_before_any_release(options):
    tasks = related_tasks(n_tasks=6, rows=(8, 8), n_features=3)
    with pytest.raises(OptionError, match="give one epsilon for all tasks"):
        tv.TaskRegressor(**{"epsilon": {tasks.task_names[0]: 0.5, "*": 2.0}, **options}).fit(tasks)


def test_names_must_be_those_of_tasks_and_all_of_them():
    assert epsilons_of({"b": 0.5, "*": 2.0}, ["a", "b"]) == (2.0, 0.5)
    for given, match in (({"c": 1.0, "*": 1.0}, "no task here"), ({"a": 1.0}, "no budget for b"), ({}, "no budget for a")):
        with pytest.raises(OptionError, match=match):
            epsilons_of(given, ["a", "b"])
    with pytest.raises(OptionError, match="does not fit"):
        Weighted(TaskGram(2, 3, 1.0), (1.0, 0.5))


def test_the_command_line_reads_budgets_from_a_file(tmp_path, capsys):
    from taskveil.cli.main import run

    tasks = related_tasks(n_tasks=5, rows=(8, 8), n_features=3)
    columns = ",".join(tasks.feature_names)
    rows = [f"{tasks.task_names[t]},{','.join(map(str, x))},{y}" for t, x, y in zip(tasks.task_of_row(), tasks.X, tasks.y)]
    (tmp_path / "rows.csv").write_text("\n".join([f"site,{columns},y", *rows]))
    (tmp_path / "budgets.toml").write_text(f'"{tasks.task_names[0]}" = 0.5\n"*" = 2.0\n')
    (tmp_path / "wrong.json").write_text('{"*": -1}')
    fit = ["fit", str(tmp_path / "rows.csv"), "--task", "site", "--target", "y", "--json", "--epsilon-file"]
    with pytest.raises(SystemExit) as stop:
        run([*fit, str(tmp_path / "budgets.toml")])
    assert stop.value.code == 0
    said = json.loads(capsys.readouterr().out)["certificate"]["statements"]
    assert [(s["epsilon"], s["tasks"]) for s in said] == [(0.5, 1), (2.0, 4)]
    with pytest.raises(SystemExit) as stop:
        run([*fit, str(tmp_path / "wrong.json")])
    assert stop.value.code == 2
