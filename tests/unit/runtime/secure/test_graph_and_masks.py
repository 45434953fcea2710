import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskveil.errors import OptionError
from taskveil.runtime.secure import graph, masks
from taskveil.runtime.secure.settings import SecureSettings


@given(st.integers(1, 64), st.data())
def test_the_ring_keeps_signed_integers_it_can_hold(bits, data):
    ring, half = masks.Ring(bits), 1 << (bits - 1)
    values = data.draw(st.lists(st.integers(-half, half - 1), min_size=1, max_size=9))
    encoded = ring.encode(np.array(values, dtype=np.int64))
    assert encoded.dtype == ring.dtype and (bits == 64 or int(encoded.max()) < 1 << bits)
    assert ring.centre(encoded).tolist() == values
    total = ring.fold(encoded + encoded)  # wraps like the integers modulo 2^bits
    assert [int(t) for t in total] == [2 * v % (1 << bits) for v in values]


def test_masks_cancel_in_every_ring():
    for bits in (3, 8, 13, 16, 22, 32, 40, 64):
        ring = masks.Ring(bits)
        total = ring.encode(np.arange(-3, 4) % (1 << min(bits, 20)))
        before = total.copy()
        masks.add_mask(total, bytes(31) + b"k", ring)
        assert not np.array_equal(ring.fold(total), before)
        masks.add_mask(total, bytes(31) + b"k", ring, positive=False)
        assert np.array_equal(ring.fold(total), before)


def test_sparse_graphs_are_regular_and_symmetric():
    neighbours = graph.draw_graph(list(range(50)), 12)
    assert all(len(set(near)) == 12 and task not in near for task, near in neighbours.items())
    assert all(task in neighbours[other] for task, near in neighbours.items() for other in near)


def test_few_tasks_get_the_complete_graph_with_the_cohort_as_threshold():
    assert graph.choose_degree(10, 1, 2) == (9, 8)
    assert graph.failure_probability(10, 1, 2, 9, 8) == 0.0


@pytest.mark.parametrize("n_tasks", [200, 1000, 5000])
def test_the_chosen_degree_meets_its_failure_probability_and_one_step_less_does_not(n_tasks):
    colluders, dropouts = n_tasks // 20, n_tasks // 20
    degree, threshold = graph.choose_degree(n_tasks, colluders, dropouts)
    assert graph.failure_probability(n_tasks, colluders, dropouts, degree, threshold) <= 2.0**-40
    assert colluders * degree / n_tasks < threshold <= degree
    smaller = graph.choose_threshold(n_tasks, colluders, dropouts, degree - 2, 41, 20)
    broken = graph.disconnection_probability(n_tasks, colluders + dropouts, degree - 2) > 2.0**-41
    assert broken or smaller is None


def test_the_degree_grows_with_the_logarithm_of_the_number_of_tasks():
    degrees = [graph.choose_degree(n, n // 20, n // 20)[0] for n in (250, 1000, 4000, 16000)]
    steps = np.diff(degrees)
    assert all(0 <= step <= 6 for step in steps)  # each step multiplies the tasks by four
    assert degrees[-1] < 50


def test_the_disconnection_bound_covers_simulated_graphs():
    """Bound 0.16 for 60 tasks, 24 gone, degree 8; 2000 drawn graphs stay below it (binomial tail < 1e-6 at
    0.22)."""
    rng = np.random.default_rng(1)
    bound = graph.disconnection_probability(60, 24, 8)
    broken = 0
    for _ in range(2000):
        neighbours = graph.draw_graph(list(range(60)), 8)
        left = set(rng.permutation(60)[:36].tolist())
        broken += not connected(neighbours, left)
    assert 0 < broken / 2000 <= bound


def connected(neighbours, left):
    seen, stack = set(), [next(iter(left))]
    while stack:
        task = stack.pop()
        if task not in seen:
            seen.add(task)
            stack += [other for other in neighbours[task] if other in left]
    return seen == left


def test_impossible_tolerances_are_refused():
    with pytest.raises(OptionError):
        graph.choose_degree(10, 5, 5)
    with pytest.raises(OptionError):
        SecureSettings.choose(10, 4, 32, colluders=8, min_cohort=8)
    with pytest.raises(OptionError):
        SecureSettings.choose(1, 4, 32, colluders=0)
    with pytest.raises(OptionError):
        SecureSettings.choose(10, 4, 65)
