"""Algorithm 1 of Xie et al. 2017 as printed, many runs at once: the runs of a batch share data and order of arrival.

    node     q <- q - a1 (grad L(q) at p + q, + lambda q);  sends grad l(p + q + z1) + z2        (lines 9-14)
    server   puts it into column t of S;  P <- prox_{mu |.|_*}(P - a2 S);  sends p_t back          (lines 15-18)

z1 and z2 have density exp(-beta |z|) (eq. 12) with beta = epsilon/S of Lemmas 1-2 and Theorem 3.6. Eq. 5 calls mu "a coefficient
obtained by the step size and the regularization parameters": section 4.1's mu is the threshold itself, so the penalty on P is mu / a2.
The losses are the paper's: log(1 + exp(-y s)) and (s - y)^2. q starts at the task's own model, S and P at zero. `rate`: section
3.4's remedy, a share of the rows drawn for each message; the noise then hides a row among that many.

The library's `variant="paper"` takes the same steps one message at a time; a test compares both with a loop written from the box.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.async_mtl.presets import PRESETS
from taskveil.methods.async_mtl.tasks import OwnProblem
from taskveil.tasks.block import TaskBlock

Array = np.ndarray
LONGEST_DELAY = 0.015  # seconds, section 4.1


@dataclass
class Runs:
    """One entry per run of the batch. Zero sensitivity factors mean no noise."""

    step: Array  # a1 = a2
    threshold: Array  # mu
    first: Array  # 1/epsilon_1, zero without noise
    second: Array  # 1/epsilon_2
    rate: float = 1.0

    @classmethod
    def of(cls, step: Array, threshold: Array, first: list[float | None], second: list[float | None], rate: float = 1.0) -> Runs:
        inverse = [np.array([0.0 if e is None else 1.0 / e for e in part]) for part in (first, second)]
        return cls(np.asarray(step, dtype=float), np.asarray(threshold, dtype=float), *inverse, rate)

    def __len__(self) -> int:
        return len(self.step)


@dataclass
class State:
    """Arrays (runs, tasks, features)."""

    P: Array
    Q: Array
    S: Array
    sent: Array  # p_t as node t last received it


class Algorithm1:
    """One data set, one batch."""

    def __init__(self, block: TaskBlock, ridge: float, runs: Runs, rng: np.random.Generator, model_bound: float = 1.0) -> None:
        self.block, self.ridge, self.runs, self.rng = block, ridge, runs, rng
        self.squares = block.kind == "regression"
        self.rows = [
            (np.asarray(block.X[r], dtype=float), np.asarray(block.y[r, 0], dtype=float))
            for r in map(block.rows, range(block.n_tasks))
        ]
        self.sensitivity = 4 * (model_bound + 1) if self.squares else 2.0  # of n times the mean gradient, C1 = C2 = 1
        self.state = self._start()

    def _start(self) -> State:
        zero = np.zeros((len(self.runs), self.block.n_tasks, self.block.n_features))
        own = alone(self.block, self.ridge)
        return State(zero.copy(), zero + own, zero.copy(), zero.copy())

    def arrive(self, t: int, noise: tuple[Array, Array] | None = None, drawn: Array | None = None) -> None:
        """Node t's next message and what the server does with it. Tests give the noise (unit scale) and the rows drawn."""
        s, runs = self.state, self.runs
        X, y = self.rows[t]
        if drawn is None and runs.rate < 1.0:
            drawn = self.rng.random(len(y)) < runs.rate
        if drawn is not None:
            X, y = X[drawn], y[drawn]
        size = max(runs.rate * len(self.rows[t][1]), 1.0)
        z1, z2 = noise if noise is not None else (self._noise(), self._noise())
        scale = self.sensitivity / size
        a = runs.step[:, None]
        q = s.Q[:, t]
        q = q - a * (self._gradient(X, y, s.sent[:, t] + q, size) + self.ridge * q)
        s.Q[:, t] = q
        inner = a * scale * runs.first[:, None] * z1
        s.S[:, t] = self._gradient(X, y, s.sent[:, t] + q + inner, size) + scale * runs.second[:, None] * z2
        s.P = shrink(s.P - a[:, :, None] * s.S, runs.threshold)
        s.sent[:, t] = s.P[:, t]

    def _gradient(self, X: Array, y: Array, w: Array, size: float) -> Array:
        scores = w @ X.T
        slopes = 2.0 * (scores - y) if self.squares else -y / (1.0 + np.exp(np.minimum(y * scores, 700.0)))
        return slopes @ X / size

    def _noise(self) -> Array:
        """Density proportional to exp(-|z|): a uniform direction times a Gamma(d) length."""
        shape = (len(self.runs), self.block.n_features)
        direction = self.rng.standard_normal(shape)
        length = self.rng.standard_gamma(shape[1], (shape[0], 1))
        return direction * (length / np.linalg.norm(direction, axis=1, keepdims=True))

    def run(self, messages: int, watch: Callable[[int, State], None], at: list[int]) -> State:
        """Until the slowest node has sent `messages` (the others go on meanwhile); `watch` is called when it has sent each of `at`."""
        due = list(at)
        for slowest, t in arrivals(self.block.n_tasks, messages, self.rng):
            while due and slowest >= due[0]:
                watch(due.pop(0), self.state)
            self.arrive(t)
        for number in due:
            watch(number, self.state)
        return self.state


def arrivals(tasks: int, messages: int, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """(messages the slowest node has sent so far, whose arrives now): delays are uniform, nobody waits (section 4.1)."""
    queue = [(float(d), t) for t, d in enumerate(rng.uniform(0, LONGEST_DELAY, tasks))]
    heapq.heapify(queue)
    sent = np.zeros(tasks, dtype=int)
    while (slowest := int(sent.min())) < messages:
        now, t = heapq.heappop(queue)
        yield slowest, t
        sent[t] += 1
        heapq.heappush(queue, (now + float(rng.uniform(0, LONGEST_DELAY)), t))


def shrink(M: Array, threshold: Array) -> Array:
    """prox of threshold |.|_*, run by run: singular values fall by the threshold. By the small Gram matrix of the tasks."""
    squares, U = np.linalg.eigh(M @ M.transpose(0, 2, 1))
    values = np.sqrt(np.maximum(squares, 0.0))
    kept = np.maximum(1.0 - threshold[:, None] / np.maximum(values, 1e-300), 0.0)
    return (U * kept[:, None, :]) @ (U.transpose(0, 2, 1) @ M)


def alone(block: TaskBlock, ridge: float) -> Array:
    """Each task's own model (tasks, features): the mean loss plus ridge/2 |q|^2."""
    squares = block.kind == "regression"
    strength = ridge / 4 if squares else ridge / 2  # the library's squared loss has a half, its |q|^2 none
    problem = OwnProblem(block, LOSSES.get("squared" if squares else "logistic"), PRESETS.get("aso"), strength, False)
    return problem.solve(np.zeros((block.n_tasks, 1, block.n_features)))[0][:, 0]
