"""Releases and accounts: what is noised, what is charged, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.errors import BudgetExceeded, OptionError
from taskveil.privacy.aggregation import secure_messages
from taskveil.privacy.contribution import seal_clipped_sum
from taskveil.privacy.contributions import DiagonalSum, OuterSum, TaskStack, VectorSum
from taskveil.privacy.events import Charge
from taskveil.privacy.mechanisms import gaussian, laplace
from taskveil.privacy.mechanisms.gaussian import Gaussian, MatrixGaussian
from taskveil.privacy.mechanisms.laplace import L2Laplace, Laplace
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import grid, insecure_seeded_noise, system_noise
from taskveil.privacy.release import MemoryAccount, release, release_alongside, release_together
from taskveil.privacy.secure_options import SecureOptions

VECTOR = VectorSum((3,), 1.0)


def open_account(plan):
    account = MemoryAccount()
    account.reserve(plan)
    return account


def plan_for(contribution=VECTOR, n=2, epsilon=1.0, **options):
    return make_plan([Request("S", t + 1, contribution) for t in range(n)], Budget(epsilon, 1e-5, **options))


def test_a_release_is_the_clipped_sum_plus_the_mechanisms_noise():
    plan, source = plan_for(), insecure_seeded_noise(0)
    bounded = VECTOR.clip([[3.0, 4.0, 0.0], [0.1, 0.0, 0.0]])
    made = release(plan.releases[0], bounded, open_account(plan), source)
    noise = plan.releases[0].mechanism.noise((3,), source.at(1, "S"))
    np.testing.assert_allclose(made.value - noise, [0.7, 0.8, 0.0], atol=1e-9)
    assert (made.name, made.round, made.event) == ("S", 1, plan.releases[0].event)


def test_without_a_budget_the_clipped_sum_itself_is_released():
    plan = plan_for(epsilon=None)
    made = release(plan.releases[0], VECTOR.clip([[3.0, 4.0, 0.0]]), open_account(plan), system_noise())
    np.testing.assert_allclose(made.value, [0.6, 0.8, 0.0], rtol=1e-11)


def test_local_noise_is_drawn_for_every_task_in_full():
    """m tasks add m times the variance; the twin, noise added once, does not."""
    plan = plan_for(VectorSum((2000,), 1.0), aggregation="local")
    planned, m = plan.releases[0], 9
    bounded = planned.contribution.clip(np.zeros((m, 2000)))
    local = release(planned, bounded, open_account(plan), insecure_seeded_noise(0), "local").value
    once = release(planned, bounded, open_account(plan), insecure_seeded_noise(0), "curator").value
    s = planned.mechanism.scale
    assert np.std(local) == pytest.approx(s * np.sqrt(m), rel=0.1)
    assert np.std(once) == pytest.approx(s, rel=0.1)


def test_seeded_local_noise_belongs_to_the_task_not_to_its_place():
    plan = plan_for(aggregation="local")
    planned = plan.releases[0]
    value = [
        release(planned, VECTOR.clip(np.zeros((2, 3))), open_account(plan), insecure_seeded_noise(0), "local", names).value
        for names in (["a", "b"], ["b", "a"])
    ]
    np.testing.assert_allclose(*value, atol=1e-12)


def test_an_empty_cohort_still_releases_noise():
    plan = plan_for()
    made = release(plan.releases[0], VECTOR.clip(np.zeros((0, 3))), open_account(plan), insecure_seeded_noise(0))
    assert np.abs(made.value).min() > 0


def test_a_jitted_sum_is_released_like_its_messages():
    plan, source = plan_for(), insecure_seeded_noise(0)
    bounded = VECTOR.clip([[0.1, 0.2, 0.3], [0.4, 0.0, 0.0]])
    total = seal_clipped_sum(VECTOR, VECTOR.total(bounded), 2)
    by_sum = release(plan.releases[0], total, open_account(plan), source)
    by_messages = release(plan.releases[0], bounded, open_account(plan), source)
    assert np.array_equal(by_sum.value, by_messages.value)
    with pytest.raises(OptionError, match="one message per task"):
        release(plan.releases[1], total, open_account(plan), source, "local")


@pytest.mark.parametrize("aggregation", ["local", "secure", "local-model"])
def test_a_sum_over_tasks_is_refused_before_the_charge_where_tasks_add_their_own_noise(aggregation):
    plan = plan_for(aggregation=aggregation) if aggregation == "local" else plan_for()
    account, total = open_account(plan), seal_clipped_sum(VECTOR, np.full(3, 0.1), 2)
    with pytest.raises(OptionError, match="one message per task"):
        release(plan.releases[0], total, account, insecure_seeded_noise(0), aggregation)
    assert account.spent() == []  # refused, so not paid for
    release(plan.releases[0], total, account, insecure_seeded_noise(0), "curator")  # twin: the curator may
    assert len(account.spent()) == 1


class Watched(MemoryAccount):
    """An account and a noise source that write down what happens, in order."""

    voids_certificate = True

    def __init__(self):
        super().__init__()
        self.happened = []

    def commit(self, *planned):
        self.happened.append(f"charged {len(planned)}")
        return super().commit(*planned)

    def at(self, *key):
        self.happened.append("noise")
        return insecure_seeded_noise(0).at(*key)


def test_all_releases_of_a_round_are_charged_before_the_first_noise_is_drawn():
    plan = make_plan([Request("S", 1, VECTOR), Request("T", 1, VECTOR, weight=2.0)], Budget(1.0, 1e-5))
    watched, bounded = Watched(), VECTOR.clip(np.zeros((2, 3)))
    watched.reserve(plan)
    made = list(release_together([(p, bounded, watched) for p in plan.releases], watched))
    assert watched.happened == ["charged 2", "noise", "noise"]
    assert watched.spent() == [Charge(p.event) for p in plan.releases] and [m.name for m in made] == ["S", "T"]


def test_a_round_that_is_computed_while_its_noise_is_drawn_is_charged_before_it_is_sent_off():
    plan, watched = plan_for(n=1), Watched()
    watched.reserve(plan)

    def start():
        watched.happened.append("sent off")
        return lambda: [VECTOR.clip(np.zeros((2, 3)))]

    list(release_alongside([(plan.releases[0], watched)], start, watched))
    assert watched.happened == ["charged 1", "sent off", "noise"]


@pytest.mark.parametrize("aggregation", ["local", "local-model"])
def test_every_task_adds_noise_of_its_own(aggregation):
    """Two messages of zero: noise that all tasks share would add up to twice one of them."""
    plan = plan_for(VectorSum((8,), 1.0), 1, epsilon=0.1, aggregation=aggregation)
    both, once = (
        release(plan.releases[0], VectorSum((8,), 1.0).clip(np.zeros((n, 8))), open_account(plan), insecure_seeded_noise(0),
                aggregation).value for n in (2, 1)
    )  # fmt: skip
    assert np.linalg.norm(both - 2 * once) > 0.1 * np.linalg.norm(once)


def test_every_row_of_a_stack_gets_noise_of_its_own():
    noisy = L2Laplace(1.0).add(TaskStack(4, (3,), 1.0), np.zeros((4, 3)), insecure_seeded_noise(0).at(1, "S"))
    assert len({tuple(row) for row in noisy}) == 4


def test_shares_of_a_secure_sum_differ_from_task_to_task():
    plan = plan_for(VectorSum((8,), 1.0), 1, aggregation="secure", secure=SecureOptions.for_tasks(4))
    sent = secure_messages(plan.releases[0], VectorSum((8,), 1.0).clip(np.zeros((4, 8))), insecure_seeded_noise(0), None)
    assert len({tuple(row) for row in sent}) == 4


def added(mechanism, contribution, total):
    return mechanism.add(contribution, np.full(contribution.total_shape, total), insecure_seeded_noise(3).at(1, "S"))


SNAPPING = [(Gaussian(1.3), VectorSum((50,), 1.0)), (MatrixGaussian(1.3), OuterSum(7, 1.0)), (Laplace(1.3), DiagonalSum(50, 1.0))]


@pytest.mark.parametrize(("mechanism", "contribution"), SNAPPING)
def test_the_low_bits_of_a_sum_do_not_reach_the_release(mechanism, contribution):
    """The attack: 0.3 and its neighbour 1e-15 away lie in one cell of the grid, and may not be told apart by any bit."""
    assert np.array_equal(added(mechanism, contribution, 0.3), added(mechanism, contribution, 0.3 + 1e-15))
    further = added(mechanism, contribution, 0.3 + 4 * grid(mechanism.scale))
    assert not np.array_equal(added(mechanism, contribution, 0.3), further)


@pytest.mark.parametrize(("mechanism", "contribution"), SNAPPING)
def test_the_attack_on_low_bits_succeeds_where_the_sum_is_not_snapped(monkeypatch, mechanism, contribution):
    for module in (gaussian, laplace):
        monkeypatch.setattr(module, "snap", lambda value, scale: value)
    assert not np.array_equal(added(mechanism, contribution, 0.3), added(mechanism, contribution, 0.3 + 1e-15))


def test_a_symmetric_total_stays_symmetric_with_exact_noise():
    contribution = OuterSum(30, 1.0)
    plan = plan_for(contribution, 1)
    made = release(plan.releases[0], contribution.clip(np.ones((2, 1, 30))), open_account(plan), system_noise())
    assert np.array_equal(made.value, made.value.T)


def test_a_release_is_made_once():
    plan = plan_for()
    account, bounded = open_account(plan), VECTOR.clip(np.ones((1, 3)))
    release(plan.releases[0], bounded, account, insecure_seeded_noise(0))
    with pytest.raises(BudgetExceeded, match="already made"):
        release(plan.releases[0], bounded, account, insecure_seeded_noise(0))
    assert account.spent() == [Charge(plan.releases[0].event)]


def test_what_was_reserved_and_not_used_is_given_back_and_commits_are_not():
    account = MemoryAccount()
    plan = plan_for(n=2)
    account.reserve(plan)
    with pytest.raises(BudgetExceeded, match="still open"):
        account.reserve(plan)
    account.commit(plan.releases[0])
    account.finish()
    assert len(account.spent()) == 1
    with pytest.raises(BudgetExceeded, match="not reserved"):
        account.commit(plan.releases[1])


def test_a_commit_with_another_event_than_the_reserved_one_is_refused():
    weak, strong = plan_for(epsilon=8.0), plan_for(epsilon=0.1)
    account = open_account(strong)
    with pytest.raises(BudgetExceeded, match="not reserved"):
        account.commit(weak.releases[0])
