"""How far one arrival moves its column: the relaxation eta of z_t <- z_t + eta (p_t - alpha g_t - z_t).

ARock (Peng, Xu, Yan & Yin 2016, Thm. 3) converges for eta <= c / (1 + 2 tau / sqrt(T)), c < 1, tau the largest number of
other updates between reading p_t and writing z_t, T the number of columns. Taking the delay of the message at hand
instead of the largest one keeps convergence without a bound on the delays (Hannah & Yin 2018, delay-dependent
steps), and a slow node no longer slows the others down.

The bound is a worst case. In all our runs eta = c converges too, five to ten times sooner, because tasks meet only in
the proximal map. So "safeguarded" (the default) starts with eta = c and watches the fixed-point residual
sum_t |p_t - alpha g_t - z_t|^2, which the server can compute from what it was sent: as long as it keeps falling by a
fixed factor per window the iteration converges, because a residual of zero is a solution; once it stops falling (the
delays hurt, or noise dominates) the proved rule takes over for good. Under noise that is also the right moment to
average more.
"""

from __future__ import annotations

import math

import numpy as np

from taskveil.errors import OptionError

SAFETY = 0.9  # c < 1
WINDOW = 100  # sweeps over all tasks without progress before the proved rule takes over
PROGRESS = 0.98  # the residual must fall below this share of its best value within the window
RULES = ("safeguarded", "delays")


def check(rule: object) -> None:
    """Refuse what is neither a rule nor a number in (0, 1]."""
    if rule in RULES or (isinstance(rule, (int, float)) and 0 < rule <= 1):
        return
    raise OptionError(f"relaxation must be {' or '.join(map(repr, RULES))} or a number in (0, 1]; got {rule!r}")


def arock(delays: np.ndarray, n_tasks: int) -> np.ndarray:
    """c / (1 + 2 delay / sqrt(T)) for each message."""
    return SAFETY / (1.0 + 2.0 * delays / math.sqrt(n_tasks))


class Relaxation:
    """Chooses eta; its memory is the small array `watch`, part of the server state, so that runs can be resumed.

    watch (2, n_tasks + 1): column 0 holds [1 once the proved rule has taken over, best residual]; the other columns hold
    each task's last residual and how often it was heard since the best residual was set.
    """

    def __init__(self, rule: str | float, n_tasks: int) -> None:
        check(rule)
        self.rule, self.n_tasks = rule, n_tasks

    def start(self) -> np.ndarray:
        """(2, tasks + 1): what the rule remembers, before the first message."""
        watch = np.zeros((2, self.n_tasks + 1))
        watch[0, 1:], watch[1, 0] = np.nan, np.inf
        return watch

    def eta(self, delays: np.ndarray, watch: np.ndarray) -> np.ndarray:
        """(messages,): how far the server goes for messages that are so many updates late."""
        if isinstance(self.rule, (int, float)):
            return np.full(len(delays), float(self.rule))
        if self.rule == "safeguarded" and not watch[0, 0]:
            return np.full(len(delays), SAFETY)
        return arock(delays, self.n_tasks)

    def observe(self, tasks: np.ndarray, residuals: np.ndarray, watch: np.ndarray) -> None:
        """Record |p_t - alpha g_t - z_t|^2 of the tasks that just arrived.

        A window counts only when *every* task was heard: a node that is away must not look like lack of progress.
        """
        watch[0, 1 + tasks] = residuals
        watch[1, 1 + tasks] += 1
        total = watch[0, 1:].sum()  # nan until every task has been heard once
        if total < PROGRESS * watch[1, 0]:
            watch[1, 0], watch[1, 1:] = total, 0.0
        elif watch[1, 1:].min() > WINDOW:
            watch[0, 0] = 1.0
