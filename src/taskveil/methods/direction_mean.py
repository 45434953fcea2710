"""The mean of the tasks' models, released as a mean direction and a mean length.

Task i sends (cos a) u_i and (sin a) q_i in one vector: u_i the direction of its model (a unit vector over
all outputs), q_i in [-1, 1] the logarithm of its length, cut off three decades apart and in units of its
own target's spread. The vector has norm at most one whatever the rows are, so the sum is a VectorSum with
bound 1: l2 sensitivity 1 (add-remove), 2 (replace-one); the runtime clips it to that norm again. A task
without a usable model sends zero.

Why not clip the models themselves: the right clipping norm depends on units and on how alike tasks are,
which nobody may look up. Directions need no norm, a few tasks with large coefficients cannot drown the
others, and one extra coordinate (8 % of the squared message) buys the length back.
"""

from __future__ import annotations

import math

import numpy as np

from taskveil.methods.shared_prior import denoised_mean, unit_messages
from taskveil.privacy.contributions import VectorSum

LENGTH_PART = 0.3  # sin a
DIRECTION_PART = math.sqrt(1.0 - LENGTH_PART**2)
DECADES = 1.5  # lengths between 10^-1.5 and 10^1.5
USUAL = 0.4  # decades by which lengths are believed to lie around one: noise beyond it says nothing of them


def contribution(n_outputs: int, n_features: int) -> VectorSum:
    """What is summed: a model's direction and the logarithm of its length, of norm one together."""
    return VectorSum((n_outputs * n_features + 1,), 1.0)


def messages(models: np.ndarray) -> np.ndarray:
    """(m, r, d) -> (m, r d + 1), each of norm at most one."""
    both = directions_and_lengths(models)
    return np.concatenate([DIRECTION_PART * both[:, :-1], LENGTH_PART * both[:, -1:]], axis=1)


def directions_and_lengths(models: np.ndarray) -> np.ndarray:
    """(m, r, d) -> (m, r d + 1): a unit vector, and the logarithm of its length in [-1, 1]."""
    m = models.shape[0]
    directions = unit_messages(models).reshape(m, -1)
    flat = np.where(np.isfinite(models), models, 0.0).reshape(m, -1)
    lengths = np.abs((flat * directions).sum(axis=1))  # |w| = w'u, without squares that overflow
    logs = np.log10(np.clip(lengths, 10.0**-DECADES, 10.0**DECADES)) / DECADES
    sends = np.any(directions != 0.0, axis=1)
    return np.concatenate([directions, (logs * sends)[:, None]], axis=1)


def estimate(total: np.ndarray, deviation: float, n_tasks: float, shape: tuple[int, int]) -> tuple[np.ndarray, float]:
    """The mean model (r, d) from the noisy sum of messages over n_tasks (expected) tasks, and its log
    doubt.
    """
    deviation /= DIRECTION_PART
    direction, doubt = denoised_mean(total[:-1].reshape(shape) / DIRECTION_PART, deviation, n_tasks)
    return direction * length(float(total[-1]) / LENGTH_PART, deviation, n_tasks), doubt


def length(logs: float, deviation: float, n_tasks: float) -> float:
    """The usual length from the noisy sum of log lengths; `deviation`: of the noise in the sum of directions."""
    noise = DECADES * deviation * DIRECTION_PART / LENGTH_PART / n_tasks
    return float(10.0 ** (DECADES * float(np.clip(logs / n_tasks, -1.0, 1.0)) / (1.0 + (noise / USUAL) ** 2)))


def accumulated(state: dict[str, np.ndarray], move: np.ndarray, doubt: float) -> tuple[np.ndarray, np.ndarray]:
    """The centre after one more release, and its doubt: that of the most certain release so far."""
    if not np.any(move):
        return state["mean"], state["mean_doubt"]
    first = not np.any(state["mean"])
    return state["mean"] + move, np.array(doubt if first else max(doubt, float(state["mean_doubt"])))
