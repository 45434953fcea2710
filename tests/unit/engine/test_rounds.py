"""The jitted round: exact sums, equal weights, one compilation, clients that cannot fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from taskveil.engine import rounds, store  # noqa: E402
from taskveil.engine.clients import Clients  # noqa: E402
from taskveil.engine.features import FeatureMap  # noqa: E402
from taskveil.engine.models import build  # noqa: E402
from taskveil.engine.rounds import Cohort, LocalWork, Round, capacity  # noqa: E402
from taskveil.engine.walk import Walk  # noqa: E402
from taskveil.errors import OptionError  # noqa: E402
from taskveil.privacy.partial_sums import MOST_MESSAGES, grid_of  # noqa: E402
from taskveil.tasks.block import TaskBlock  # noqa: E402

WORK = LocalWork(steps=3, batch_size=4, learning_rate=0.3, pull=0.5)


ROWS = 36  # of nine clients: blocks of one shape are compiled once


def ragged(n_clients: int = 9, seed: int = 0, sizes=None) -> TaskBlock:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, n_clients) if sizes is None else np.asarray(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], 5))
    y = np.where(np.arange(3) == rng.integers(0, 3, offsets[-1])[:, None], 1.0, -1.0)
    return TaskBlock(X, y, offsets, kind="classification")


@pytest.fixture(scope="module")
def model():
    return build("softmax", 5, 3, "classification")


@pytest.fixture(scope="module")
def compiled(model):
    return Round(model, WORK)


def asked(compiled, model, block, clients, bound=0.2, rate=None):
    """(clients, what a round is asked with)."""
    models = store.empty_models(block.n_tasks, model.n_parameters)
    nobody, one = np.zeros(block.n_tasks, bool), np.ones((block.n_tasks, 1))
    side = Clients(block, FeatureMap(None, 5), model, 0)
    return side, (compiled, models, nobody, model.start(0)[None], one, np.asarray(clients), rate, 1, bound)


def sum_of(compiled, model, block, clients, rate=None):
    side, asking = asked(compiled, model, block, clients, rate=rate)
    return side.begin_sum(*asking, 1.0)[1]() * grid_of(0.2)


def messages_of(compiled, model, block, clients, bound=0.2):
    side, asking = asked(compiled, model, block, clients, bound)
    return side.each_message(*asking)[1]


def test_the_sum_is_that_of_the_single_messages_and_each_fits_the_bound(compiled, model):
    total, messages = (found(compiled, model, ragged(), range(9)) for found in (sum_of, messages_of))
    np.testing.assert_allclose(total[0], messages.sum(axis=0), atol=1e-12)
    assert np.linalg.norm(messages, axis=1).max() <= 0.2
    assert np.linalg.norm(messages, axis=1).min() > 0.05


def test_one_client_moves_the_sum_by_at_most_the_bound(compiled, model):
    """Exactly, whatever the float32 rounding: sums are made on integers."""
    block = ragged()
    everybody = sum_of(compiled, model, block, range(9))
    for k in range(9):
        others = sum_of(compiled, model, block, [i for i in range(9) if i != k])
        assert np.linalg.norm(everybody - others) <= 0.2


def test_the_sum_does_not_depend_on_order_or_pieces(compiled, model):
    block = ragged(40)
    straight = sum_of(compiled, model, block, range(40))
    turned = sum_of(compiled, model, block, range(40)[::-1])
    np.testing.assert_array_equal(straight, turned)
    pieces = sum_of(compiled, model, block, range(40), rate=0.05)  # capacity 11: four pieces
    np.testing.assert_array_equal(straight, pieces)
    assert (straight / grid_of(0.2) == np.round(straight / grid_of(0.2))).all()


def test_the_sum_is_the_same_to_the_last_bit_however_many_are_clipped_at_a_time(compiled, model, monkeypatch):
    at_once = sum_of(compiled, model, ragged(), range(9))
    monkeypatch.setattr(rounds, "IN_CACHE", 0)
    np.testing.assert_array_equal(sum_of(Round(model, WORK), model, ragged(), range(9)), at_once)


@pytest.mark.parametrize("accelerator", [False, True])
def test_more_clients_than_whole_numbers_hold_are_refused_however_few_are_added_at_a_time(model, accelerator):
    k, p = MOST_MESSAGES + 1, model.n_parameters
    shapes = [(1, p), (k, p), (k,), (k, 1), (k,), (k, 3, 4), (k, 3, 4)]
    cohort = Cohort(*(np.zeros(shape, np.int32 if i == 5 else np.float32) for i, shape in enumerate(shapes)))
    with pytest.raises(OptionError, match="at most 2047 messages"):
        Round(model, WORK, accelerator=accelerator)(cohort, (np.zeros((4, 5), np.float32), np.zeros(4, np.int32)), 1.0)


def test_a_client_with_many_rows_weighs_no_more_than_one_with_few(compiled, model):
    """Twin: weights by sample count would make the large client's part seven times larger."""
    sizes = np.array([ROWS - 8, *[1] * 8])
    messages = messages_of(compiled, model, ragged(sizes=sizes), range(9), bound=0.01)
    np.testing.assert_allclose(np.linalg.norm(messages, axis=1), 0.01, rtol=1e-3)
    weighed = messages * (sizes / sizes.mean())[:, None]
    assert np.linalg.norm(weighed, axis=1).max() > 5 * 0.01


def test_clients_without_rows_and_rows_that_are_not_finite_send_nothing(compiled, model):
    block = ragged(sizes=[ROWS - 5, 0, 5, *[0] * 6])
    X = block.X.copy()
    X[ROWS - 4] = np.inf
    messages = messages_of(compiled, model, replace(block, X=X), range(9))
    assert np.abs(messages[0]).max() > 0
    np.testing.assert_array_equal(messages[1:], 0.0)


def test_an_empty_cohort_sums_to_zero(compiled, model):
    np.testing.assert_array_equal(sum_of(compiled, model, ragged(), np.zeros(0, int)), 0.0)


def test_nothing_is_compiled_again_for_other_cohorts_rows_step_sizes_or_bounds(model):
    fresh = Round(model, WORK)
    block = ragged(40)
    side = Clients(block, FeatureMap(None, 5), model, 0)
    models, one = store.empty_models(40, model.n_parameters), np.ones((40, 1))
    rng = np.random.default_rng(0)
    for t in range(1, 7):
        work = replace(WORK, learning_rate=0.1 * t, pull=1.0 / t)
        cohort = np.flatnonzero(rng.random(40) < 0.2)
        models, _ = side.begin_sum(
            fresh.with_work(work), models, np.ones(40, bool), model.start(0)[None], one, cohort, 0.2, t, 0.1 * t, 1.0 / t
        )
    assert fresh.traces == 1
    wider = Round(model, replace(WORK, steps=4))
    assert wider.traces == 0, "the counter counts what it says: another shape is another compilation"


def test_a_cohorts_arrays_have_a_public_size_and_nobody_is_dropped():
    assert capacity(10_000, 0.0064, 64) == 56 and capacity(100, None, 512) == 100
    assert capacity(100, 0.1, 512) == 28  # 10 + 6 sqrt(9)
    assert capacity(10_000, 0.0512, 1024, spare=2) == 557  # 512 + 2 sqrt(486), on an accelerator


def test_an_accelerators_way_and_a_cpus_way_agree(model):
    """All clients at once, or a few at a time: the same messages within float32."""
    block = ragged(20)
    sums = [sum_of(Round(model, WORK, accelerator=a), model, block, range(20)) for a in (True, False)]
    np.testing.assert_allclose(sums[0], sums[1], atol=1e-4)


def test_a_client_at_the_billboard_without_a_gradient_stays_there_to_the_last_bit():
    """Twin: the same step written as a quotient rounds every weight anew, changed or not."""
    target, eta, pull = np.random.default_rng(0).random(1000, np.float32), np.float32(0.1), np.float32(0.5)
    np.testing.assert_array_equal(Walk(target, eta, pull).moved(target, np.zeros_like(target), target), target)
    assert np.any((target + eta * pull * target) / (1 + eta * pull) != target)
