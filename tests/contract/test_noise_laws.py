"""Every mechanism answers for its own noise: how large a coordinate is, how large the whole, how heavy the tail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tests.contract.test_mechanisms import ELSEWHERE, FITTING, ids, planned_with

from taskveil.errors import OptionError
from taskveil.privacy.contributions import TaskStack, VectorSum
from taskveil.privacy.mechanisms import MECHANISMS
from taskveil.privacy.mechanisms.base import gaussian_tail, laplace_tail
from taskveil.privacy.randomness import insecure_seeded_noise

DRAWS = 400
LAWS = [(name, what) for name, what in FITTING if not MECHANISMS.get(name).on_messages]


def drawn(mechanism, contribution):
    source, zero = insecure_seeded_noise(5), np.zeros(contribution.total_shape)
    return np.stack([mechanism.add(contribution, zero, source.at(t, "law")) for t in range(DRAWS)])


def coordinates(noise, contribution):
    """Independent of each other or not; on the diagonal of a matrix."""
    return noise[:, np.arange(noise.shape[1]), np.arange(noise.shape[1])] if contribution.symmetric else noise.reshape(DRAWS, -1)


def deviation_is_right(mechanism, contribution, declared):
    """400 draws: a root mean square is within 25 % of the truth but with probability 1e-6 (norms of l2-Laplace noise vary most:
    by 0.6 of themselves, 0.03 after averaging). Wishart noise declares the equivalent Gaussian, up to a third more.
    """
    centred = coordinates(drawn(mechanism, contribution), contribution)
    seen = float(np.sqrt(np.mean((centred - centred.mean(axis=0)) ** 2)))
    return seen == declared == 0.0 or 0.75 * seen <= declared <= 1.25 * max(seen, 1e-300) * (1.1 if contribution.symmetric else 1)


@pytest.mark.parametrize(("name", "contribution"), LAWS, ids=ids)
def test_the_declared_deviation_is_that_of_the_noise(name, contribution):
    mechanism = planned_with(name, contribution).mechanism
    declared = mechanism.coordinate_deviation(contribution)
    assert deviation_is_right(mechanism, contribution, declared)
    if declared:
        assert not deviation_is_right(mechanism, contribution, 1.6 * declared)
        assert not deviation_is_right(mechanism, contribution, declared / 2)


@pytest.mark.parametrize(("name", "contribution"), LAWS, ids=ids)
def test_the_typical_norm_is_that_of_the_noise_within_a_factor_of_two(name, contribution):
    mechanism = planned_with(name, contribution).mechanism
    noise = drawn(mechanism, contribution)
    if contribution.symmetric:
        sizes = [np.linalg.norm(one, 2) for one in noise]
    elif name.endswith("l2-laplace"):  # the norm of one draw: of every row of a stack
        sizes = [np.linalg.norm(one[0] if isinstance(contribution, TaskStack) else one) for one in noise]
    else:
        sizes = [np.abs(one).max() for one in noise]
    assert 0.5 * np.mean(sizes) <= mechanism.typical_norm(contribution) <= 2 * np.mean(sizes)


def test_tails_are_those_of_the_laws():
    for x in (0.5, 3.0, 8.0):
        assert gaussian_tail(x) == pytest.approx(stats.norm.logsf(x))
        assert laplace_tail(x) == pytest.approx(stats.laplace(scale=math.sqrt(0.5)).logsf(x))
    heavy = {name for name in MECHANISMS if name not in ELSEWHERE and _tail(name) == laplace_tail(3.0)}
    assert heavy == {"laplace", "l2-laplace", "paper-l2-laplace"}


def _tail(name):
    return next(planned_with(n, c).mechanism.log_tail(3.0) for n, c in FITTING if n == name)


@pytest.mark.parametrize("scale", [0.01, 5.0])
def test_noise_on_messages_moves_a_sum_by_the_declared_deviation_of_every_task(scale):
    """Two thousand messages with noise of their own, clipped again; 5 % is more than ten standard errors."""
    what = VectorSum((6,), 1.5)
    mechanism = MECHANISMS.get("model-laplace")(scale)
    streams = [insecure_seeded_noise(1).at(1, "law", t) for t in range(2000)]
    noisy = what.clip(np.stack([mechanism.noise(what.message_shape, s) for s in streams])).value
    assert np.sqrt(np.mean(noisy**2)) == pytest.approx(mechanism.coordinate_deviation(what), rel=0.05)


def test_a_selection_has_no_noise_of_its_own_to_speak_of():
    selection = MECHANISMS.get("private-selection")(1.0)
    for question in (selection.coordinate_deviation, selection.typical_norm):
        with pytest.raises(OptionError, match="its runs"):
            question(VectorSum((4,), 1.0))
