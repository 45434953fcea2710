"""The virtual clock: reproducible, fitted to measurements, and honest about who answered."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.ponomarenko_2023.compute_times import (
    SHARES,
    ComputeTimes,
    benchmark_waiting_time,
    fit_compute_times,
    heterogeneous_hardware,
    waiting_time,
)
from tests.support.svm_runs import related_block, run

from taskveil.errors import OptionError
from taskveil.methods.svm.method import Svm
from taskveil.runtime.federation.server.waiting_time import agreed_waiting_time, benchmark_seconds
from taskveil.runtime.run import Run

ROWS = np.linspace(100, 300, 20)


@pytest.mark.parametrize("share", SHARES[:-1])
@pytest.mark.parametrize("hardware", [None, heterogeneous_hardware(20)])
def test_the_waiting_time_lets_the_wanted_share_answer(share, hardware):
    times = ComputeTimes(hardware=hardware, seed=1)
    wait = waiting_time(times, ROWS, 500, share)
    answered = [np.mean(times.draw(t, ROWS, 500) <= wait) for t in range(300)]
    assert np.mean(answered) == pytest.approx(share, abs=0.03)


def test_waiting_for_all_and_waiting_for_the_slowest_benchmark():
    times = ComputeTimes(spread=0.05)
    assert waiting_time(times, ROWS, 500, 1.0) == np.inf
    wait = benchmark_waiting_time(times, ROWS, 500)
    assert np.mean([np.all(times.draw(t, ROWS, 500) <= wait) for t in range(100)]) > 0.8
    with pytest.raises(OptionError):
        waiting_time(times, ROWS, 500, 0.0)


def test_the_coordinator_takes_the_longest_report_or_the_one_that_a_share_stays_below():
    reports = [0.4, 0.1, 0.3, 0.2]
    assert agreed_waiting_time(reports) == 0.4 and agreed_waiting_time(reports, 0.5) == 0.3
    for wrong in ([], [0.1, float("nan")], [0.0, 1.0]):
        with pytest.raises(OptionError, match="benchmark"):
            agreed_waiting_time(wrong)


def test_a_benchmark_takes_longer_on_a_larger_public_size():
    """Twenty times the rows: even a busy machine keeps the order."""
    assert 0.0 < benchmark_seconds(100, 20, repeats=1) < benchmark_seconds(4000, 20, repeats=5)


def test_times_are_keyed_by_seed_and_round_and_scale_with_hardware():
    times = ComputeTimes(seed=4)
    np.testing.assert_array_equal(times.draw(3, ROWS, 10), times.draw(3, ROWS, 10))
    assert not np.array_equal(times.draw(3, ROWS, 10), times.draw(4, ROWS, 10))
    fast = ComputeTimes(seed=4, hardware=np.full(20, 10.0))
    np.testing.assert_allclose(times.draw(3, ROWS, 10), 10.0 * fast.draw(3, ROWS, 10))
    assert np.all(ComputeTimes(spread=5.0).draw(0, ROWS, 10) > 0)


def test_mean_and_spread_are_fitted_to_measurements():
    rng = np.random.default_rng(0)
    rows, features = rng.integers(50, 500, 400), rng.integers(10, 600, 400)
    truth = ComputeTimes(base=1e-3, per_cell=2e-8, spread=0.1)
    seconds = truth.means(rows, 1) * 0.0 + (1e-3 + 2e-8 * rows * features) * (1 + 0.1 * rng.standard_normal(400))
    fitted = fit_compute_times(rows, features, seconds)
    assert fitted.per_cell == pytest.approx(2e-8, rel=0.1)
    assert fitted.spread == pytest.approx(0.1, rel=0.2)


def test_a_run_with_the_clock_repeats_to_the_last_digit():
    block = related_block(n_tasks=6)
    one, two = (run(Svm(rounds=20), block, 0.5) for _ in range(2))
    np.testing.assert_array_equal(one.models.coef, two.models.coef)
    assert one.seconds == two.seconds


def test_waiting_for_everybody_is_the_plain_loop():
    from tests.support.svm_runs import NO_PRIVACY, public_of

    from taskveil.privacy.plan import make_plan
    from taskveil.privacy.randomness import insecure_seeded_noise
    from taskveil.runtime import in_process

    block, method = related_block(), Svm(tol=1e-6)
    public = public_of(block)
    plan = make_plan(method.requests(public, NO_PRIVACY), NO_PRIVACY)
    plain = in_process.run(Run(method, public, plan, source=insecure_seeded_noise(1)), block)
    np.testing.assert_array_equal(run(method, block, 1.0).models.coef, plain.models.coef)
