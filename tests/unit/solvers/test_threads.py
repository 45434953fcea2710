import multiprocessing
import os
import time
import weakref
from threading import Thread

import numpy as np
import pytest

from taskveil import threads


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setattr(threads, "SMALL", 0)
    monkeypatch.setenv("TASKVEIL_THREADS", "3")


def visits(sizes) -> list[int]:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    seen = np.zeros(len(sizes), int)

    def work(first, last):
        seen[first:last] += 1

    threads.over_tasks(work, offsets, 10)
    return seen.tolist()


@pytest.mark.parametrize("sizes", [[5] * 40, [1], [1000] + [1] * 30, [1] * 30 + [1000], [0, 0, 3, 0], [2, 2]])
def test_every_task_is_worked_on_exactly_once(sizes, three_threads):
    assert visits(sizes) == [1] * len(sizes)


def test_an_error_in_a_thread_reaches_the_caller(three_threads):
    def work(first, last):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        threads.over_tasks(work, np.arange(50), 10)


def test_callers_in_several_threads_and_inside_one_another_all_finish(three_threads):
    def outer(rows):
        return sum(threads.in_parts(lambda inner: inner.stop - inner.start, 12))

    def caller():
        totals.append(threads.in_parts(outer, 40))

    totals: list = []
    callers = [Thread(target=caller) for _ in range(6)]
    for one in callers:
        one.start()
    for one in callers:
        one.join(20)
    assert totals == [[12] * 4] * 6


def test_items_are_made_as_they_are_needed_and_results_keep_their_order(three_threads):
    made, done = [], []

    def items():
        for k in range(30):
            made.append(k)
            assert k - len(done) < 2 * 3 + 1, "not more than a few ahead of the work"
            yield k

    assert threads.each(lambda k: done.append(k) or k * k, items()) == [k * k for k in range(30)]
    assert made == list(range(30)) and sorted(done) == made


def test_a_waiting_helper_keeps_nothing_of_the_caller_alive(three_threads):
    class Large:
        pass

    large = Large()
    gone = weakref.ref(large)
    threads.in_parts(lambda rows, kept=large: time.sleep(0.01), 40)
    del large
    end = time.monotonic() + 5
    while gone() is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork only")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_threads_of_its_own(three_threads):
    """The object survives a fork, its threads do not: waiting for them would hang."""
    assert visits([5] * 40) == [1] * 40
    context = multiprocessing.get_context("fork")
    child = context.Process(target=lambda: os._exit(0 if visits([5] * 40) == [1] * 40 else 1))
    child.start()
    child.join(20)
    assert child.exitcode == 0


def test_helpers_keep_silent_where_the_caller_does(three_threads):
    """NumPy's error state belongs to a thread; a warning from a helper would be a word about somebody's rows."""
    with np.errstate(over="ignore", divide="raise"):
        states = threads.each(lambda _: (time.sleep(0.01), np.geterr())[1], range(12))
    assert all(s["over"] == "ignore" and s["divide"] == "raise" for s in states)
