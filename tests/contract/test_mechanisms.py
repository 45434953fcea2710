"""Every mechanism: only Bounded values are released, the charge comes first, events belong to scales."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.errors import BudgetExceeded, OptionError
from taskveil.privacy.contributions import DiagonalSum, OuterSum, TaskGram, TaskStack, VectorSum
from taskveil.privacy.mechanisms import MECHANISMS, mechanism_from_dict
from taskveil.privacy.plan import Budget, PlannedRelease, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount, release, release_together
from taskveil.privacy.units import Neighbours

SHAPES = [VectorSum((4,), 1.5), OuterSum(4, 1.5), DiagonalSum(4, 1.5), TaskGram(3, 4, 1.5), TaskStack(3, (4,), 1.5)]
# Shares of a secure sum and the selection among runs add no noise to a sum; they have their own suites.
ELSEWHERE = {n for n in MECHANISMS if n.startswith("shared-") or MECHANISMS.get(n).family == "select"}
NAMES = [name for name in MECHANISMS if name not in ELSEWHERE]
FITTING = [(n, c) for n in NAMES for c in SHAPES if MECHANISMS.get(n).accepts(c)]


def planned_with(name, contribution, neighbours=Neighbours.REPLACE_ONE):
    variant = "paper" if MECHANISMS.get(name).family == "paper" else "sound"
    mechanism = MECHANISMS.get(name).calibrated(contribution, neighbours, 0.5, variant)
    return PlannedRelease("S", 1, contribution, mechanism, mechanism.event(contribution, neighbours))


class Watched:
    """A noise source that counts how often it was asked."""

    voids_certificate = True

    def __init__(self):
        self.asked = 0
        self._inner = insecure_seeded_noise(0)

    def at(self, round, name, task=None):
        self.asked += 1
        return self._inner.at(round, name, task)


class Refusing:
    """An account without budget."""

    def commit(self, *planned):
        raise BudgetExceeded("nothing left")


class Recording:
    """An account that notes how often noise had been drawn when it was charged."""

    def __init__(self, source):
        self.source, self.noise_before_charge = source, []

    def commit(self, *planned):
        self.noise_before_charge += [self.source.asked] * len(planned)
        return planned[-1].id


def messages(contribution):
    return np.random.default_rng(0).standard_normal((3, *contribution.message_shape))


def way(name):
    return "local-model" if name in ("model-laplace", "paper-model-laplace") else "curator"


def ids(value):
    return value if isinstance(value, str) else value.kind


@pytest.mark.parametrize(("name", "contribution"), FITTING, ids=ids)
def test_only_bounded_values_are_released(name, contribution):
    source = Watched()
    for unclipped in (messages(contribution), np.zeros(contribution.total_shape), None):
        with pytest.raises(TypeError, match="only clipped values"):
            release(planned_with(name, contribution), unclipped, Recording(source), source, way(name))
    assert source.asked == 0


def charges_first(release_function, name, contribution) -> bool:
    """The check: charged before any noise was drawn, and a refusal leaves the source untouched."""
    source = Watched()
    account = Recording(source)
    planned, bounded = planned_with(name, contribution), contribution.clip(messages(contribution))
    release_function(planned, bounded, account, source, way(name))
    refused = Watched()
    with pytest.raises(BudgetExceeded):
        release_function(planned, bounded, Refusing(), refused, way(name))
    return account.noise_before_charge == [0] and source.asked > 0 and refused.asked == 0


@pytest.mark.parametrize(("name", "contribution"), FITTING, ids=ids)
def test_the_charge_comes_before_the_noise_and_a_refusal_draws_none(name, contribution):
    assert charges_first(release, name, contribution)


def test_the_check_rejects_a_release_that_draws_noise_before_it_charges():
    def careless(planned, bounded, account, source, aggregation):
        stream = source.at(planned.round, planned.name)
        value = planned.mechanism.add(planned.contribution, planned.contribution.total(bounded), stream)
        account.commit(planned)
        return value

    assert not charges_first(careless, "gaussian", VectorSum((4,), 1.5))


def charges_both_first(release_both):
    """Whether two releases of a round are charged together before the noise of either; a refusal draws none."""
    contribution, source = VectorSum((4,), 1.5), Watched()
    planned = planned_with("gaussian", contribution)
    bounded, account, refused = contribution.clip(messages(contribution)), Recording(source), Watched()
    release_both([(planned, bounded, source), (planned, bounded, source)], account)
    with pytest.raises(BudgetExceeded):
        release_both([(planned, bounded, refused), (planned, bounded, refused)], Refusing())
    return account.noise_before_charge == [0, 0] and source.asked > 0 and refused.asked == 0


def test_releases_of_one_round_are_all_charged_before_the_noise_of_the_first():
    assert charges_both_first(lambda wanted, account: list(release_together(wanted, account)))


def test_the_check_rejects_releases_that_are_charged_one_by_one():
    assert not charges_both_first(lambda wanted, account: [release(p, b, account, s) for p, b, s in wanted])


@pytest.mark.parametrize(("name", "contribution"), FITTING, ids=ids)
def test_a_released_value_has_the_shape_of_the_total(name, contribution):
    source = insecure_seeded_noise(1)
    planned = planned_with(name, contribution)
    made = release(planned, contribution.clip(messages(contribution)), Recording(Watched()), source, way(name))
    assert made.value.shape == contribution.total_shape and np.isfinite(made.value).all()
    assert made.event == planned.event


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("name", "contribution"), FITTING, ids=ids)
def test_a_calibrated_mechanism_costs_at_most_its_parameter_and_hardly_less(name, contribution, neighbours):
    kind = MECHANISMS.get(name)
    if kind.family not in ("gaussian", "pure"):
        return
    event = kind.calibrated(contribution, neighbours, 0.5).event(contribution, neighbours)
    if kind.family == "gaussian":
        assert 0.5 <= event.noise_multiplier <= 0.5 * (1 + 1e-6)
    else:
        assert 0.5 * (1 - 1e-6) <= event.pure_epsilon() <= 0.5


@pytest.mark.parametrize(("name", "contribution"), FITTING, ids=ids)
def test_replace_one_never_needs_less_noise_than_add_remove(name, contribution):
    kind = MECHANISMS.get(name)
    if kind.family in ("gaussian", "pure"):
        scales = [kind.calibrated(contribution, n, 0.5).scale for n in (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE)]
        assert scales[0] < scales[1]


@pytest.mark.parametrize(("name", "contribution"), FITTING, ids=ids)
def test_every_mechanism_survives_a_round_trip_through_plain_data(name, contribution):
    mechanism = planned_with(name, contribution).mechanism
    assert mechanism_from_dict(mechanism.to_dict()) == mechanism


@pytest.mark.parametrize("name", [n for n in NAMES if MECHANISMS.get(n).family == "paper"])
def test_unsound_noise_cannot_be_reached_from_a_sound_method(name):
    contribution = next(c for c in SHAPES if MECHANISMS.get(name).accepts(c))
    with pytest.raises(OptionError, match="variant"):
        Budget(1.0, 1e-5, mechanism=name)
    with pytest.raises(OptionError, match=r"variant|aggregation"):
        make_plan([Request("S", 1, contribution, mechanism=name)], Budget(1.0, 1e-5))
    with pytest.raises(OptionError, match="variant"):
        MECHANISMS.get(name).calibrated(contribution, Neighbours.REPLACE_ONE, 1.0, "sound")


def test_noise_on_messages_refuses_to_be_added_to_a_sum():
    contribution = OuterSum(4, 1.5)
    planned = planned_with("model-laplace", contribution)
    with pytest.raises(OptionError, match="own message"):
        release(planned, contribution.clip(messages(contribution)), Recording(Watched()), insecure_seeded_noise(0))


def test_a_release_clipped_for_another_contribution_is_refused_before_the_charge():
    source = Watched()
    account = Recording(source)
    wider = VectorSum((4,), 99.0)
    with pytest.raises(OptionError, match="was planned for"):
        release(planned_with("gaussian", VectorSum((4,), 1.5)), wider.clip(np.ones((1, 4))), account, source)
    assert account.noise_before_charge == [] and source.asked == 0


def test_a_release_that_was_not_reserved_is_refused():
    contribution = VectorSum((4,), 1.5)
    with pytest.raises(BudgetExceeded, match="not reserved"):
        release(planned_with("gaussian", contribution), contribution.clip(np.ones((1, 4))), MemoryAccount(), Watched())


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_what_adds_no_noise_to_a_sum_cannot_be_planned_as_if_it_did(name):
    with pytest.raises(OptionError):
        make_plan([Request("S", 1, VectorSum((4,), 1.5))], Budget(1.0, 1e-5, mechanism=name))
