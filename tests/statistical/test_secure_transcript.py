"""What a server learns from a secure sum beyond the noisy total: nothing a test can see.

Setting: four tasks; tasks 2 and 3 collude with the server, so of all masks on task 0's message only the one
it shares with task 1 is unknown. All inputs are fixed but task 0's, which is one of two; the noise inside
task 1's message makes up the difference, so that the noisy total, which the server may know, is the same in
both cases.
"""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from scipy import stats
from tests.support.mersenne_search import first_words, guess_input, seeded_mask
from tests.support.secure_runs import parties, unmasked_by_colluders

from taskveil.runtime.secure import SecureSettings, masks
from taskveil.runtime.secure import client as client_module
from taskveil.runtime.secure.run import carry

pytestmark = pytest.mark.statistical

LENGTH = 64
SETTINGS = SecureSettings.choose(4, LENGTH, 32, colluders=2, min_cohort=4)
RNG = np.random.default_rng(8)
TOTAL = RNG.integers(-1000, 1000, LENGTH)
INPUTS = [np.zeros(LENGTH, dtype=np.int64), np.full(LENGTH, 5)]  # of task 0; a shift no mask may show
OTHERS = RNG.integers(-1000, 1000, (2, LENGTH))
UNKNOWN_BITS = 12  # of the 32: milliseconds here; all 32 would take this code three hours on one core
RUNS = 20  # a coin per run: all guesses right by luck with probability 2^-20 < 1e-6


def view(bit: int, monkeypatch, expand=None) -> tuple[np.ndarray, int]:
    """Task 0's message with every known mask removed, and the first 32 bits of the unknown mask's key as a
    hint."""
    hints = {}
    original = client_module.pair_mask_key

    def remember(own, other_public, round_id, index, other):
        key = original(own, other_public, round_id, index, other)
        hints[min(index, other), max(index, other)] = int.from_bytes(key[:4], "little")
        return key

    with monkeypatch.context() as patch:
        patch.setattr(client_module, "pair_mask_key", remember)
        if expand is not None:
            patch.setattr(masks, "expand", expand)
        inputs = np.stack([INPUTS[bit], TOTAL - INPUTS[bit], *OTHERS])
        server, clients = parties(inputs, SETTINGS)
        carry(server, clients)
        assert np.array_equal(SETTINGS.ring.centre(server.total), TOTAL + OTHERS.sum(axis=0))
        return unmasked_by_colluders(server, clients, 0, {2, 3}), hints[0, 1]


def short_seeds(key: bytes, length: int, ring: masks.Ring) -> np.ndarray:
    """The planted fault: masks from the first 32 bits of the key."""
    return seeded_mask(int.from_bytes(key[:4], "little"), length)


def no_pair_masks(key: bytes, length: int, ring: masks.Ring) -> np.ndarray:
    return np.zeros(length, dtype=np.uint32)


def guesses_right(monkeypatch, expand=None) -> int:
    """In how many of RUNS rounds a seed search, or else a coin, names the input of task 0."""
    right = 0
    for _ in range(RUNS):
        bit = secrets.randbelow(2)
        residue, hint = view(bit, monkeypatch, expand)
        guess = guess_input(residue, INPUTS, hint, UNKNOWN_BITS)
        right += (secrets.randbelow(2) if guess is None else guess) == bit
    return right


def test_a_seed_search_learns_nothing_from_the_transcript(monkeypatch):
    """Null: guesses are coins; rejected when all 20 are right (1e-6). Masks from 32-bit seeds are
    rejected."""
    assert guesses_right(monkeypatch) < RUNS
    assert guesses_right(monkeypatch, short_seeds) == RUNS


def residues(monkeypatch, runs: int, expand=None) -> list[np.ndarray]:
    return [np.stack([view(bit, monkeypatch, expand)[0] for _ in range(runs)]) for bit in (0, 1)]


def smallest_p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Are residues independent of the input? KS on all words, chi-square on high and low bytes, KS on word
    averages."""
    tests = [stats.ks_2samp(first.ravel(), second.ravel(), method="asymp").pvalue]
    for shift in (24, 0):
        counts = [np.bincount((x.ravel() >> np.uint32(shift)) & np.uint32(255), minlength=256) for x in (first, second)]
        table = np.stack(counts)
        tests.append(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)
    tests.append(stats.ks_2samp(first.mean(axis=1), second.mean(axis=1)).pvalue)
    return len(tests) * min(tests)


def test_what_remains_of_a_message_is_independent_of_its_input(monkeypatch):
    """60 rounds per input, 64 words each; four tests, Bonferroni, at 1e-6. Without pairwise masks it is
    rejected."""
    assert smallest_p_value(*residues(monkeypatch, 60)) > 1e-6
    assert smallest_p_value(*residues(monkeypatch, 60, no_pair_masks)) < 1e-6


def test_masked_messages_are_uniform(monkeypatch):
    """KS against the uniform law at 1e-6 on 60 x 64 words; the unmasked input fails it."""
    first, _ = residues(monkeypatch, 60)
    uniform = stats.uniform(0, 2.0**32).cdf
    assert stats.kstest(first.ravel().astype(float), uniform).pvalue > 1e-6
    plain = SETTINGS.ring.encode(np.tile(TOTAL, 60)).astype(float)
    assert stats.kstest(plain, uniform).pvalue < 1e-6


def test_the_search_knows_the_generator_it_attacks():
    for seed in (0, 1, 123456789, 2**32 - 1):
        assert np.array_equal(first_words(np.array([seed], dtype=np.uint64))[0], seeded_mask(seed, 3))
