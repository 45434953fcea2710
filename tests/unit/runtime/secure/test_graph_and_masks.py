import itertools

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
    neighbours = graph.circle_graph(range(50), 12, b"keys")
    assert all(len(set(near)) == 12 and site not in near for site, near in neighbours.items())
    assert all(site in neighbours[other] for site, near in neighbours.items() for other in near)


def test_the_circle_follows_the_keys_and_nothing_else():
    assert graph.circle_graph(range(50), 12, b"keys") == graph.circle_graph(range(50), 12, b"keys")
    assert graph.circle_graph(range(50), 12, b"keys") != graph.circle_graph(range(50), 12, b"other keys")


def test_few_sites_get_the_complete_graph_with_the_cohort_as_threshold():
    assert graph.choose_degree(10, 1, 2) == (9, 8)
    assert graph.choose_degree(100, 1, 0, complete=True) == (99, 100)


@pytest.mark.parametrize("n_sites", [30, 100, 1000])
@pytest.mark.parametrize("colluding, leaving", [(0.05, 0.0), (0.05, 0.05), (0.1, 0.02), (0.02, 0.15)])
def test_the_chosen_degree_is_the_smallest_that_keeps_every_rule(n_sites, colluding, leaving):
    c, d = max(1, int(colluding * n_sites)), int(leaving * n_sites)

    def possible(degree):
        holds = (graph.holders_suffice(degree + 1, t, c, d) for t in range(1, degree + 2 - d))  # t <= holders - d: alive
        return degree > c + d and any(holds)

    degree, threshold = graph.choose_degree(n_sites, c, d)
    assert SecureSettings.choose(n_sites, 4, 32, c, n_sites - d).threshold == threshold
    smallest = next(k for k in range(2, 2 * n_sites, 2) if possible(k))
    assert degree == (smallest if smallest < n_sites // 2 else n_sites - 1)


def connected(neighbours, left):
    seen, stack = set(), [next(iter(left))]
    while stack:
        site = stack.pop()
        if site not in seen:
            seen.add(site)
            stack += [other for other in neighbours[site] if other in left]
    return seen == left


@pytest.mark.parametrize("n_sites, degree", [(7, 2), (9, 4), (11, 4), (12, 6)])
def test_no_choice_of_fewer_sites_than_the_degree_takes_a_circle_apart(n_sites, degree):
    """All of them; the twin: with as many as the degree a server that sees the graph can."""
    neighbours, sites = graph.circle_graph(range(n_sites), degree, b"any order"), set(range(n_sites))

    def survives(gone):
        return all(connected(neighbours, sites - set(some)) for some in itertools.combinations(range(n_sites), gone))

    assert survives(degree - 1)
    assert not survives(degree)


def partial_totals(n_sites, degree, threshold):
    """How often a server with one colluder and one site it lies to can isolate part of the honest inputs.

    Honest member i masks with E_i. A set of inputs can be opened alone iff every mask in it is known (towards the
    colluder) or cancels inside it; the smallest such set around i is found by following masks. The lied-to site v was
    shown lists of the server's choice: any E_v of at least threshold - 1 others (graph.py).
    """
    neighbours, found = graph.circle_graph(range(n_sites), degree, b"any order"), 0
    colluder = 0  # all places on the circle are alike
    for v in range(1, n_sites):
        others = [site for site in range(n_sites) if site != v]
        for size in range(threshold - 1, threshold + 1):
            for chosen in itertools.combinations(others, size):
                masks = {site: set(neighbours[site]) - {colluder} for site in others if site != colluder}
                masks[v] = set(chosen) - {colluder}
                found += any(closed != set(masks) for closed in openable(masks))
    return found


def openable(masks):
    for start in masks:
        inside, stack, blinded = set(), [start], False
        while stack:
            site = stack.pop()
            if site not in inside:
                inside.add(site)
                blinded |= any(site not in masks[other] for other in masks[site])  # a mask that never cancels
                stack += masks[site]
        if not blinded:
            yield inside


def test_a_site_that_was_lied_to_is_protected_by_the_threshold_and_only_by_it():
    degree, threshold = graph.choose_degree(10, 1, 1)
    assert (degree, threshold) == (4, 4) and threshold > 1 + 1
    assert partial_totals(10, degree, threshold) == 0
    assert partial_totals(10, degree, 2) > 0  # the twin: a threshold of colluders + dropouts


def test_impossible_tolerances_are_refused():
    cases = [(10, 8, 8), (1, 1, 1), (10, 0, 10), (6, 1, 3), (10, 1, 5), (10, 1, 11)]
    for n_sites, colluders, min_cohort in cases:
        with pytest.raises(OptionError):
            SecureSettings.choose(n_sites, 4, 32, colluders, min_cohort)
    with pytest.raises(OptionError):
        SecureSettings.choose(10, 4, 65)


@pytest.mark.parametrize("changed", [{"threshold": 12}, {"threshold": 22}, {"degree": 10}, {"degree": 21}, {"degree": 54}])
def test_settings_that_break_a_rule_of_the_graph_cannot_be_made(changed):
    good = {"n_sites": 60, "length": 8, "bits": 24, "colluders": 3, "min_cohort": 52, "degree": 20, "threshold": 13}
    SecureSettings(**good)
    with pytest.raises(OptionError, match="expected"):
        SecureSettings(**good | changed)
