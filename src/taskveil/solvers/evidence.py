"""Averages of ridge models over priors, weighted by what each task's own rows say about them (the evidence).

A prior is w ~ N(c s_i, t s^2 C): a public centre c and shape C, the task's own scale s_i of its target, an
unknown strength t. For squared loss the noise variance s^2 has the prior 1/s^2 and drops out (MacKay 1992;
Minka 2000):

    log p(y | C, t) = -1/2 sum_j log(1 + t e_j) - (n_i - 1)/2 log(residual) + a constant of the task

For logistic loss y is replaced by its working response (iteratively reweighted least squares around the averaged
model), which gives the posterior mean w_t of every strength. Its evidence is Laplace's, with the true likelihood of the labels:

    log p(y | C, t) = sum_k log p(y_k | x_k'w_t) - 1/2 (w_t - c)'C^-1 (w_t - c)/t - 1/2 sum_j log(1 + t e_j)

The likelihood of working responses takes surprising labels for outliers of many deviations, and every task for a special one:
for nine hits in ten rows of a rare class it is five nats off.

Strengths are compared as signal-to-noise ratios, t times the mean of e_j per row, with a log-normal prior
around one, two decades wide for squared loss, one for logistic loss (labels say little about
scale: a wider one, or one around three, makes rare classes overconfident). Without a proper prior six rows and fourteen features
make every interpolation plausible.

Averaging instead of choosing: a task with few rows hardly prefers one prior over another, and picking the
one with the smallest leave-one-out error then costs more than it gains (28 %: docs/theory/model-protected.md#evidence). All of
this is local work: it costs no privacy as long as only the task sees it, or it leaves inside a clipped
message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, logit, logsumexp

from taskveil.solvers.padding import Stack, stacks
from taskveil.solvers.posterior import Posterior, Prior, posterior
from taskveil.solvers.ridge import LIMIT, CentredRows, centred_rows, spectrum
from taskveil.structures.blas import small_matrix_threads
from taskveil.tasks.block import TaskBlock
from taskveil.threads import each

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]
SIGNAL_TO_NOISE = np.geomspace(1e-4, 1e6, 21)
LOG_PRIOR = {
    "squared": log_softmax(-0.5 * np.square(np.log10(SIGNAL_TO_NOISE) / 2.0)),
    "logistic": log_softmax(-0.5 * np.square(np.log10(SIGNAL_TO_NOISE))),
}
REWEIGHTINGS = 6
LARGE_TASK = 20_000  # numbers of X; below this the interpreter, which runs one thread at a time, does most of the work
ORDINARY = 1e100  # features between this and its inverse can be squared and added up
SMALLEST = 1e-150
SCORE_RANGE = 6.0  # scores beyond this do not lower a row's weight further: separable tasks stay finite

Likelihood = Callable[[Array], Array]  # scores (k, g, n) of rows, as they are weighed -> log likelihood (k, g)
Solve = Callable[[CentredRows, Likelihood | None], Array]


def averaged_models(
    block: TaskBlock,
    priors: Sequence[Prior],
    loss: str,
    fit_intercept: bool = True,
    *,
    own_scale: bool = True,
    log_prior: Array | None = None,
    constant: Mask | None = None,
) -> tuple[Array, Array]:
    """Models (m, r, d) and the posterior weight of each prior (m, number of priors), a mean over outputs.

    `own_scale=False`: centres are in the units of the rows, whatever a task's own spread is. `log_prior` (number of priors,
    strengths): what is believed of each prior and strength beforehand; None: the law of strengths above. `constant` (m, r): where
    the first prior, learning alone, stands for no slope at all.
    """
    coef, logs = _averaged(block, priors, loss, fit_intercept, own_scale, log_prior, constant)
    return coef, np.exp(logsumexp(logs, axis=3)).mean(axis=1)


def log_evidence(
    block: TaskBlock, priors: Sequence[Prior], loss: str, fit_intercept: bool = True, *, log_prior: Array | None = None
) -> Array:
    """(m, number of priors, strengths): what every task's rows say of each prior and strength, up to a constant of the task."""
    _, logs = _averaged(block, priors, loss, fit_intercept, False, log_prior)
    believed = np.array([p.log_weight for p in priors])[:, None] + (LOG_PRIOR[loss] if log_prior is None else log_prior)
    found = (logs - believed).sum(axis=1)
    return np.asarray(found - found.max(axis=(1, 2), keepdims=True))


def _averaged(
    block: TaskBlock, priors: Sequence[Prior], loss: str, fit_intercept: bool, own_scale: bool, log_prior: Array | None,
    constant: Mask | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Models (m, r, d), and log posterior weights of priors and strengths (m, r, K, g)."""
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    coef, logs = np.zeros((m, r, d)), np.zeros((m, r, len(priors), len(SIGNAL_TO_NOISE)))
    beforehand = LOG_PRIOR[loss] if log_prior is None else log_prior

    def fit(stack: Stack) -> None:
        here = [prior.of(stack.tasks) for prior in priors]
        stack, size = _of_ordinary_size(stack)
        for o in range(r):
            found: list[Array] = []

            def solve(rows: CentredRows, likely: Likelihood | None, o: int = o, found: list[Array] = found) -> Array:
                none = np.zeros(len(stack.tasks), dtype=bool) if constant is None else constant[stack.tasks, o]
                w, weights = _average(rows, here, o, loss, size * _scale(rows, loss, own_scale), beforehand, none, likely)
                found[:] = [weights]
                return w

            coef[stack.tasks, o] = _fit(stack, o, loss, fit_intercept, solve) / size[:, None]
            logs[stack.tasks, o] = found[0]

    _each_stack(block, fit)
    return coef, logs


def residual_models(
    block: TaskBlock,
    centre: Array,
    signal_to_noise: float,
    loss: str,
    fit_intercept: bool = True,
    *,
    own_scale: bool = True,
) -> Array:
    """(m, r, d): how far each task's ridge model around a public centre (r, d) is from it.

    In units of the task's own target scale, or of the rows.

    One fixed, weak penalty: these models are averaged over tasks, where bias adds up and variance does not.
    """
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    out = np.zeros((m, r, d))
    prior = Prior(centre=centre)

    def fit(stack: Stack) -> None:
        stack, size = _of_ordinary_size(stack)
        for o in range(r):

            def solve(rows: CentredRows, likely: Likelihood | None, o: int = o) -> Array:
                middle = prior.centre_of(o, size * _scale(rows, loss, own_scale))
                seen = posterior(rows, spectrum(rows, None), prior, middle, np.array([signal_to_noise]))
                return seen.mean(np.ones((len(rows.y), 1)))

            w = _fit(stack, o, loss, fit_intercept, solve)
            rows = centred_rows(stack, stack.y[:, :, o], stack.weights, fit_intercept)
            scale = size * _scale(rows, loss, own_scale)
            out[stack.tasks, o] = w / scale[:, None] - centre[o]

    _each_stack(block, fit)
    return out


def _of_ordinary_size(stack: Stack) -> tuple[Stack, Array]:
    """The stack, and what its tasks' features were divided by (k,): one, but for values whose squares leave the number range.

    Strengths are relative to the rows, so a task's features may be divided by any number, and its models with them: powers
    of two change no digit. Features too small for that are none.
    """
    largest = np.abs(np.where(stack.weights[:, :, None] > 0.0, stack.X, 0.0)).max(axis=(1, 2), initial=0.0)
    ordinary = (largest > 1.0 / ORDINARY) & (largest < ORDINARY)
    if ordinary.all():
        return stack, np.ones(len(largest))
    usable = np.isfinite(largest) & (largest >= SMALLEST)
    size = np.where(ordinary | ~usable, 1.0, np.exp2(np.floor(np.log2(np.where(usable, largest, 1.0)))))
    return replace(stack, X=np.where((largest < SMALLEST)[:, None, None], 0.0, stack.X / size[:, None, None])), size


def _each_stack(block: TaskBlock, fit: Callable[[Stack], None]) -> None:
    """fit(stack) for all tasks; on all threads where matrices are large enough to keep a thread busy.

    BLAS has one thread either way: how it splits a product must not depend on how many rows other tasks have.
    """
    with small_matrix_threads(0):
        if block.n_rows * block.n_features < LARGE_TASK * block.n_tasks:
            for stack in stacks(block, LIMIT):
                fit(stack)
        else:
            each(fit, stacks(block, LIMIT))


def target_scales(block: TaskBlock, loss: str, fit_intercept: bool = True) -> Array:
    """(m,) the s_i of the priors: standard deviation of a task's target, 1 for classification."""
    out = np.ones(block.n_tasks)
    if loss == "squared":
        for stack in stacks(block, LIMIT):
            out[stack.tasks] = centred_rows(stack, stack.y[:, :, 0], stack.weights, fit_intercept).scale
    return out


def _scale(rows: CentredRows, loss: str, own: bool) -> Array:
    return rows.scale if own and loss == "squared" else np.ones(len(rows.y))


def _fit(stack: Stack, output: int, loss: str, fit_intercept: bool, solve: Solve) -> Array:
    """`solve` on the rows of one output; for logistic loss on its working responses, a few times."""
    y = stack.y[:, :, output]
    if loss == "squared":
        return solve(centred_rows(stack, y, stack.weights, fit_intercept), None)
    hit = (y > 0.0).astype(float)
    counts = stack.weights.sum(axis=1)
    share = ((stack.weights * hit).sum(axis=1) + 0.5) / (counts + 1.0)  # smoothed: finite for one-class tasks
    scores = np.repeat(logit(share if fit_intercept else np.full_like(share, 0.5))[:, None], y.shape[1], axis=1)
    w: Array = np.zeros((len(y), stack.X.shape[2]))
    one_class = ((stack.weights * hit).sum(axis=1) % np.maximum(counts, 1.0)) == 0.0
    for _ in range(REWEIGHTINGS):
        p = expit(scores)
        weight = stack.weights * p * (1.0 - p)
        target = np.where(one_class[:, None] & fit_intercept, scores, scores + (hit - p) / (p * (1.0 - p)))
        w = solve(centred_rows(stack, target, weight, fit_intercept), _likelihood(stack, y, target, weight, fit_intercept))
        scores = np.clip(_scores(stack, w, target, weight, fit_intercept), -SCORE_RANGE, SCORE_RANGE)
    return w


def _likelihood(stack: Stack, y: Array, target: Array, weight: Array, fit_intercept: bool) -> Likelihood:
    """The true log likelihood of labels y under scores that were fitted to weighed, centred working responses."""
    usable = weight > 0.0  # not where a score is no number
    weight, target = np.where(usable, weight, 0.0), np.where(usable, target, 0.0)
    root = np.sqrt(weight)
    middle = np.einsum("kn,kn->k", weight, target) / np.maximum(weight.sum(axis=1), 1e-300) * fit_intercept

    def likely(scores: Array) -> Array:
        plain = middle[:, None, None] + scores / np.where(usable, root, 1.0)[:, None]
        return -np.einsum("kn,kgn->kg", np.where(usable, stack.weights, 0.0), np.logaddexp(0.0, -y[:, None] * plain))

    return likely


def _scores(stack: Stack, w: Array, target: Array, weight: Array, fit_intercept: bool) -> Array:
    """x'w + b with the intercept that fits the working response best."""
    scores = np.einsum("knd,kd->kn", stack.X, w)
    if not fit_intercept:
        return scores
    total = np.maximum(weight.sum(axis=1), 1e-300)
    return scores + (np.einsum("kn,kn->k", weight, target - scores) / total)[:, None]


def _average(
    rows: CentredRows, priors: Sequence[Prior], output: int, loss: str, scale: Array, beforehand: Array, constant: Mask,
    likely: Likelihood | None,
) -> tuple[Array, Array]:  # fmt: skip
    """Posterior mean (k, d) over priors and strengths, the first without a slope where `constant` (k,); log weights (k, K, g)."""
    found = spectrum(rows, None)
    seen = [posterior(rows, found, p, p.centre_of(output, scale), SIGNAL_TO_NOISE) for p in priors]
    logs = np.stack([_log_evidence(s, rows, likely) + s.prior.log_weight for s in seen], axis=1)
    logs += beforehand
    logs -= logsumexp(logs, axis=(1, 2), keepdims=True)
    silent = np.stack([constant, *[np.zeros_like(constant)] * (len(seen) - 1)], axis=1)
    weights = np.where(silent[:, :, None], 0.0, np.exp(logs))
    w = sum(s.mean(weights[:, j]) for j, s in enumerate(seen))
    return np.asarray(w), logs


def _log_evidence(seen: Posterior, rows: CentredRows, likely: Likelihood | None) -> Array:
    """(k, g), up to a constant per task."""
    if likely is None:
        least = 1e-12 * seen.total[:, None] + 1e-300
        return -seen.determinant - 0.5 * rows.free[:, None] * np.log(np.maximum(seen.residual, least))
    scores = seen.scores(rows.X)
    penalty = seen.residual - np.square(rows.y[:, None] - scores).sum(axis=2)
    return likely(scores) - 0.5 * np.maximum(penalty, 0.0) - seen.determinant
