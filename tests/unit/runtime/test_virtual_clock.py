"""Asynchronous runs are reproducible: by seed, and by replaying the recorded schedule."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.async_reference import make_block, plan_of, public_of, run

from taskveil.errors import OptionError
from taskveil.methods.async_mtl import AsyncMTL
from taskveil.runtime.virtual_clock import Delays


def test_a_recorded_schedule_replays_to_the_same_models():
    block, method = make_block(), AsyncMTL(rounds=6)
    plan = plan_of(method, public_of(block), epsilon=1.0)
    first = run(method, block, plan)
    again = run(method, block, plan, schedule=first.schedule)
    np.testing.assert_array_equal(first.models.coef, again.models.coef)


def test_another_order_of_arrivals_gives_other_models():
    block, method = make_block(), AsyncMTL(rounds=6)
    plan = plan_of(method, public_of(block), epsilon=1.0)
    first = run(method, block, plan)
    other = run(method, block, plan, schedule=sorted(first.schedule))
    assert np.abs(first.models.coef - other.models.coef).max() > 0


def test_delays_depend_on_seed_and_node_only():
    one, two = Delays(3, seed=1), Delays(3, seed=1)
    two.next(0)
    two.next(0)
    assert [one.next(2), one.next(2)] == [two.next(2), two.next(2)]


def test_delays_of_the_paper_lie_between_0_and_15_ms():
    drawn = [Delays(1, seed=s).next(0) for s in range(200)]
    assert 0 <= min(drawn) and max(drawn) <= 0.015 and max(drawn) > 0.012


def test_heavy_tails_are_heavy():
    drawn = np.array([Delays(1, "pareto", 0.001, seed=s).next(0) for s in range(2000)])
    assert np.median(drawn) < 0.003 and drawn.max() > 0.1


def test_unknown_delays_are_refused():
    with pytest.raises(OptionError, match="delays are"):
        Delays(2, "sometimes")


def test_staleness_is_recorded():
    block, method = make_block(), AsyncMTL(rounds=6)
    record = run(method, block, plan_of(method, public_of(block), epsilon=1.0))
    delays = [a.delay for a in record.extra["trace"]]
    assert record.extra["largest_delay"] == max(delays) > 0
    assert record.extra["mean_delay"] == pytest.approx(np.mean(delays))


def test_synchronous_rounds_wait_for_the_slowest():
    block, method = make_block(), AsyncMTL(rounds=5, delays=("pareto", 0.001))
    plan = plan_of(method, public_of(block), epsilon=1.0)
    together = run(method, block, plan, synchronous=True)
    apart = run(method, block, plan)
    assert together.extra["largest_delay"] == 0
    assert together.extra["virtual_seconds"] > apart.extra["virtual_seconds"]
