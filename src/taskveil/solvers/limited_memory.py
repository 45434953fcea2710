"""Limited-memory BFGS, one evaluation at a time: for objectives whose every evaluation is a round of communication.

The caller evaluates value and gradient at `point`; `advance` answers with the next point to evaluate. A step that does not
decrease the objective enough (Armijo) is shortened by quadratic interpolation, otherwise the pair of changes enters the
memory and the two-loop recursion gives the next direction (Nocedal & Wright 2006, Alg. 7.4, 3.5). The objective need
only be convex with a Lipschitz gradient: pairs without curvature are left out.

The state is a dict of arrays with a first axis over independent problems, so that it can be checkpointed.
"""

from __future__ import annotations

import numpy as np

State = dict[str, np.ndarray]
ARMIJO = 1e-4
MOST_CUTS = 10


def start(point: np.ndarray, memory: int, first_step: float) -> State:
    """point (problems, size): the first to evaluate; `first_step` is the step along minus the first gradient."""
    r, d = point.shape
    return {
        "point": point.copy(),
        "base": point.copy(),
        "gradient": np.zeros((r, d)),
        "direction": np.zeros((r, d)),
        "moves": np.zeros((r, memory, d)),
        "changes": np.zeros((r, memory, d)),
        "used": np.zeros(r, dtype=np.int64),
        "cuts": np.zeros(r, dtype=np.int64),
        "value": np.full(r, np.inf),
        "slope": np.zeros(r),
        "step": np.ones(r),
        "first_step": np.full(r, first_step),
    }


def advance(state: State, values: np.ndarray, gradients: np.ndarray) -> State:
    """The state with the next points, given values (problems,) and gradients (problems, size) at the current ones."""
    state = {name: array.copy() for name, array in state.items()}
    for p in range(values.size):
        _advance_one({name: array[p : p + 1] for name, array in state.items()}, float(values[p]), gradients[p])
    return state


def _advance_one(s: State, value: float, gradient: np.ndarray) -> None:
    """One problem; every array of `s` has a first axis of length one and is changed in place."""
    base, step, slope = float(s["value"][0]), float(s["step"][0]), float(s["slope"][0])
    enough = not np.isfinite(base) or value <= base + ARMIJO * step * slope + 1e-13 * abs(base)
    if not enough and s["cuts"][0] < MOST_CUTS:
        bend = 2.0 * (value - base - step * slope)
        s["step"][0] = step * min(max(-slope * step / bend, 0.1), 0.5)
        s["cuts"][0] += 1
        s["point"][0] = s["base"][0] + s["step"][0] * s["direction"][0]
        return
    if not enough:  # the model of curvature is useless here: forget it and start again from the best point
        s["used"][0] = 0
        gradient, value = s["gradient"][0].copy(), base
    else:
        if np.isfinite(base):
            _remember(s, s["point"][0] - s["base"][0], gradient - s["gradient"][0])
        s["base"][0], s["gradient"][0], s["value"][0] = s["point"][0], gradient, value
    direction = -_times_inverse(s, gradient)
    slope = float(direction @ gradient)
    if not slope < 0.0:
        s["used"][0] = 0
        direction = -s["first_step"][0] * gradient
        slope = float(direction @ gradient)
    s["direction"][0], s["slope"][0], s["step"][0], s["cuts"][0] = direction, slope, 1.0, 0
    s["point"][0] = s["base"][0] + direction


def _remember(s: State, move: np.ndarray, change: np.ndarray) -> None:
    if move @ change <= 1e-12 * float(change @ change) * s["first_step"][0]:
        return
    used, memory = int(s["used"][0]), s["moves"].shape[1]
    if used == memory:
        s["moves"][0, :-1], s["changes"][0, :-1] = s["moves"][0, 1:].copy(), s["changes"][0, 1:].copy()
        used -= 1
    s["moves"][0, used], s["changes"][0, used] = move, change
    s["used"][0] = used + 1


def _times_inverse(s: State, gradient: np.ndarray) -> np.ndarray:
    """The inverse Hessian model times a vector (two-loop recursion)."""
    used = int(s["used"][0])
    q = gradient.copy()
    if used == 0:
        return s["first_step"][0] * q
    S, Y = s["moves"][0, :used], s["changes"][0, :used]
    curvature = np.einsum("kd,kd->k", S, Y)
    weights = np.zeros(used)
    for k in range(used - 1, -1, -1):
        weights[k] = (S[k] @ q) / curvature[k]
        q -= weights[k] * Y[k]
    q *= curvature[-1] / (Y[-1] @ Y[-1])
    for k in range(used):
        q += S[k] * (weights[k] - (Y[k] @ q) / curvature[k])
    return q
