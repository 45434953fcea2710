"""Averages of ridge models over priors, weighted by what each task's own rows say about them (the evidence).

A prior is w ~ N(c s_i, t s^2 C): a public centre c and shape C, the task's own scale s_i of its target, an
unknown strength t. For squared loss the noise variance s^2 has the prior 1/s^2 and drops out (MacKay 1992;
Minka 2000):

    log p(y | C, t) = -1/2 sum_j log(1 + t e_j) - (n_i - 1)/2 log(residual) + a constant of the task

For any other loss y is replaced by its working response (iteratively reweighted least squares around the averaged model;
`Loss.working`), which gives the posterior mean w_t of every strength. Where the loss is a likelihood (labels) the evidence is
Laplace's, with the true one:

    log p(y | C, t) = sum_k log p(y_k | x_k'w_t) - 1/2 (w_t - c)'C^-1 (w_t - c)/t - 1/2 sum_j log(1 + t e_j)

The likelihood of working responses takes surprising labels for outliers of many deviations, and every task for a special one:
for nine hits in ten rows of a rare class it is five nats off. Counts, times and wild numbers, whose spread is unknown, keep it:
their noise variance is estimated like that of numbers, with a prior worth `prior_rows` rows at one.

Strengths are compared as signal-to-noise ratios, t times the mean of e_j per row, with a log-normal prior that each loss
states (`Loss.strengths`). Without a proper prior six rows and fourteen features make every interpolation plausible.

Averaging instead of choosing: a task with few rows hardly prefers one prior over another, and picking the
one with the smallest leave-one-out error then costs more than it gains (28 %: docs/theory/model-protected.md#evidence). All of
this is local work: it costs no privacy as long as only the task sees it, or it leaves inside a clipped
message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from taskveil.losses import LOSSES
from taskveil.losses.base import Loss
from taskveil.solvers.lipschitz import STEEPEST, steepness
from taskveil.solvers.padding import CACHED, CentredRows, Stack, centred_rows, of_ordinary_size, over_stacks, per_task, stacks
from taskveil.solvers.posterior import Posterior, Prior, Reduced, posterior, posterior_mean, reduced
from taskveil.solvers.row_space import in_row_space
from taskveil.solvers.solved_once import keep_aside, kept_or
from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]
SIGNAL_TO_NOISE = np.geomspace(1e-4, 1e6, 21)
DECADES = np.log10(SIGNAL_TO_NOISE)
LOG_PRIOR = {
    name: log_softmax(-0.5 * np.square((DECADES - centre) / np.where(DECADES < centre, below, above)))
    for name in LOSSES.names()
    for centre, below, above in [LOSSES.get(name).strengths]
}
REWEIGHTINGS = 6

Likelihood = Callable[[Array], Array]  # scores (k, n, g) of rows, as they are weighed -> log likelihood (k, g)
Solve = Callable[[CentredRows, Likelihood | None], Array]
Tasks = NDArray[np.int64]
Rows = tuple[Stack, Reduced, Array]  # of a stack, and what its features were divided by
Keep = Callable[[Tasks, int, Array, Array, Rows], None]
Moments = Callable[[Stack, Array, Array, Array], None]  # Curvature.take (solvers/centred.py)


def averaged_models(
    block: TaskBlock,
    priors: Sequence[Prior],
    loss: str,
    fit_intercept: bool = True,
    *,
    own_scale: bool = True,
    log_prior: Array | None = None,
    leave_out: int = 0,
    constant: Mask | None = None,
    total: Array | None = None,
    moments: Moments | None = None,
) -> tuple[Array, Array]:
    """Models (m, r, d) and the posterior weight of each prior (m, number of priors), a mean over outputs.

    `own_scale=False`: centres are in the units of the rows, whatever a task's own spread is. `log_prior` (number of priors,
    strengths): what is believed of each prior and strength beforehand; None: the law of strengths above. `leave_out`: so many of
    the first priors are weighed, but left out of the models. `constant` (m, r): where the first prior, learning alone, stands for
    no slope at all. To `total` (m,) the log evidence of all priors together is added: what the same rows say in other units.
    `moments` is given the matrices X'X that learning alone with a quadratic loss computes, where it does.
    """
    if len(priors) == 1 and not leave_out and log_prior is None and total is None and treats_alike(priors[0]):
        coef = kept_or(partial(_alone, block, priors, loss, fit_intercept, moments), block, loss, fit_intercept, priors[0].floor)
        if constant is not None and constant.any():
            coef = np.where(constant[:, :, None], 0.0, coef)
        return coef, np.ones((block.n_tasks, 1))
    weights = np.zeros((block.n_tasks, block.n_outputs, len(priors)))

    def keep(tasks: Tasks, output: int, logs: Array, sums: Array, _: Rows) -> None:
        weights[tasks, output] = np.exp(logs).sum(axis=2)
        if total is not None:
            total[tasks] += sums

    coef = _averaged(block, priors, loss, fit_intercept, own_scale, log_prior, keep, leave_out, constant)
    return coef, weights.mean(axis=1)


def _alone(block: TaskBlock, priors: Sequence[Prior], loss: str, fit_intercept: bool, moments: Moments | None) -> Array:
    """Learning alone; the curvature of a quadratic loss, which a gradient loop asks for next, is put aside."""
    steepest = np.zeros(block.n_tasks)

    def keep(tasks: Tasks, output: int, _logs: Array, _sums: Array, rows: Rows) -> None:
        stack, small, size = rows
        if output == 0 and quadratic:
            steepest[tasks] = steepness(*rows)
            if moments is not None and not small.dual:
                moments(stack, small.turns, small.unit, size)

    quadratic = LOSSES.get(loss).quadratic
    coef = _averaged(block, priors, loss, fit_intercept, False, None, keep)
    if quadratic:
        keep_aside(steepest, block, STEEPEST, fit_intercept)
    return coef


def treats_alike(prior: Prior) -> bool:
    """Whether all directions are the same to a prior, around zero: what a task believes that has heard of nobody."""
    return prior.directions is None and prior.centre is None and prior.log_weight == 0.0


def averaged_but_first(
    block: TaskBlock, priors: Sequence[Prior], loss: str, fit_intercept: bool = True, *, log_prior: Array
) -> tuple[Array, Array]:
    """Models (m, r, d) that leave the first prior out, and the weight of each prior with the first among them.

    One decomposition serves both, but for logistic loss, which weighs rows around the model in question.
    """
    average = partial(averaged_models, block, loss=loss, fit_intercept=fit_intercept, own_scale=False)
    if loss == "squared":
        return average(priors=priors, log_prior=log_prior, leave_out=1)
    return average(priors=priors[1:], log_prior=log_prior[1:])[0], average(priors=priors, log_prior=log_prior)[1]


def log_evidence(
    block: TaskBlock, priors: Sequence[Prior], loss: str, fit_intercept: bool = True, *, log_prior: Array | None = None,
    asked: Any = slice(None),
) -> Array:  # fmt: skip
    """(m, number of priors, strengths): what every task's rows say of each prior and strength, up to a constant of the task.

    `asked`: of which strengths.
    """
    believed = np.array([p.log_weight for p in priors])[:, None] + (LOG_PRIOR[loss] if log_prior is None else log_prior)
    totals = np.zeros((block.n_tasks, *believed[:, asked].shape))

    def keep(tasks: Tasks, output: int, logs: Array, sums: Array, _: Rows) -> None:
        totals[tasks] += (logs - believed)[:, :, asked]

    _averaged(block, priors, loss, fit_intercept, False, log_prior, keep, models=not LOSSES.get(loss).quadratic)
    totals -= totals.max(axis=(1, 2), keepdims=True)
    return totals


def _averaged(
    block: TaskBlock, priors: Sequence[Prior], loss: str, fit_intercept: bool, own_scale: bool, log_prior: Array | None,
    keep: Keep, leave_out: int = 0, constant: Mask | None = None,
    models: bool = True,
) -> Array:  # fmt: skip
    """Models (m, r, d), if wanted; log posterior weights (k, K, g) of priors and strengths go to `keep`, with their sums."""
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    coef, beforehand = np.zeros((m, r, d)), LOG_PRIOR[loss] if log_prior is None else log_prior
    alike = not LOSSES.get(loss).quadratic and all(map(treats_alike, priors))

    def fit(stack: Stack) -> None:
        here = [prior.of(stack.tasks) for prior in priors]
        stack, size = of_ordinary_size(stack)
        back = None
        if alike and stack.X.shape[1] < d:
            stack, back = in_row_space(stack)
        for o in range(r):
            weighed: list[Any] = []

            def solve(rows: CentredRows, likely: Likelihood | None, o: int = o, weighed: list[Any] = weighed) -> Array:
                scale = size * _scale(rows, loss, own_scale)
                middles = {id(p.centre): p.centre_of(o, scale) for p in here}
                seen, logs, sums = _weighed(rows, here, [middles[id(p.centre)] for p in here], loss, beforehand, likely)
                weighed[:] = [logs, sums, (stack, seen[0].reduced, size)]
                few = None if constant is None else constant[stack.tasks, o]
                return _average(seen, logs, leave_out, few) if models else np.zeros((len(rows.X), d))

            w = _fit(stack, o, loss, fit_intercept, solve) / size[:, None]
            if models:
                coef[stack.tasks, o] = w if back is None else (back @ w[:, :, None])[:, :, 0]
            keep(stack.tasks, o, *weighed)

    over_stacks(fit, block)
    return coef


def residual_models(
    block: TaskBlock, centre: Array, signal_to_noise: float, loss: str, fit_intercept: bool = True, *, own_scale: bool = True
) -> Array:
    """(m, r, d): how far each task's ridge model around a public centre (r, d) is from it.

    In units of the task's own target scale, or of the rows.

    One fixed, weak penalty: these models are averaged over tasks, where bias adds up and variance does not.
    """
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    out = np.zeros((m, r, d))
    prior = Prior(centre=centre) if np.any(centre) else Prior()

    def fit(stack: Stack) -> None:
        stack, size = of_ordinary_size(stack)
        for o in range(r):

            def solve(rows: CentredRows, likely: Likelihood | None, o: int = o) -> Array:
                return posterior_mean(rows, prior.centre_of(o, size * _scale(rows, loss, own_scale)), signal_to_noise)

            w = _fit(stack, o, loss, fit_intercept, solve)
            scale = size * _target_scale(stack, o, loss, fit_intercept) if own_scale else size
            out[stack.tasks, o] = w / scale[:, None] - centre[o]

    over_stacks(fit, block)
    return out


def target_scales(block: TaskBlock, loss: str, fit_intercept: bool = True) -> Array:
    """(m,) the s_i of the priors: standard deviation of a task's target where it is a number, else 1."""
    out = np.ones(block.n_tasks)
    if LOSSES.get(loss).targets == "numbers":
        for stack in stacks(block, CACHED):
            out[stack.tasks] = _target_scale(stack, 0, loss, fit_intercept)
    return out


def _target_scale(stack: Stack, output: int, loss: str, fit_intercept: bool) -> Array:
    y, rule = stack.y[:, :, output], LOSSES.get(loss)
    if rule.targets == "numbers" and not rule.quadratic:  # wild ones are drawn in
        y = rule.working(_first_scores(rule, y, stack.weights, fit_intercept), y, stack.weights)[1]
    return _scale(centred_rows(stack, y, stack.weights, fit_intercept), loss, True)


def _scale(rows: CentredRows, loss: str, own: bool) -> Array:
    return rows.scale if own and LOSSES.get(loss).targets == "numbers" else np.ones(len(rows.y))


def _fit(stack: Stack, output: int, loss: str, fit_intercept: bool, solve: Solve) -> Array:
    """`solve` on the rows of one output; but for squared loss on its working responses, a few times."""
    y, rule = stack.y[:, :, output], LOSSES.get(loss)
    if rule.quadratic:
        return solve(centred_rows(stack, y, stack.weights, fit_intercept), None)
    scores = _first_scores(rule, y, stack.weights, fit_intercept)
    w: Array = np.zeros((len(y), stack.X.shape[2]))
    silent = rule.without_information(y, stack.weights)[:, None] & fit_intercept
    for _ in range(REWEIGHTINGS):
        weight, target = rule.working(scores, y, stack.weights)
        target = np.where(silent, scores, target)
        likely = _likelihood(stack, y, target, weight, fit_intercept, rule) if rule.likelihood else None
        w = solve(centred_rows(stack, target, weight, fit_intercept), likely)
        scores = np.clip(_scores(stack, w, target, weight, fit_intercept), -rule.score_range, rule.score_range)
    return w


def _first_scores(rule: Loss, y: Array, weights: Array, fit_intercept: bool) -> Array:
    """(k, n) scores of the constant from which a fit starts."""
    first = rule.first_scores(y, weights) if fit_intercept else np.zeros(len(y))
    return np.repeat(first[:, None], y.shape[1], axis=1)


def _likelihood(stack: Stack, y: Array, target: Array, weight: Array, fit_intercept: bool, rule: Loss) -> Likelihood:
    """The true log likelihood of targets y under scores that were fitted to weighed, centred working responses."""
    usable = weight > 0.0  # not where a score is no number
    weight, target = np.where(usable, weight, 0.0), np.where(usable, target, 0.0)
    root = np.where(usable, np.sqrt(weight), 1.0)
    middle = per_task("kn,kn->k", weight, target) / np.maximum(weight.sum(axis=1), 1e-300) * fit_intercept

    def likely(scores: Array) -> Array:
        plain = middle[:, None, None] + scores / root[:, :, None]
        return -per_task("kn,kng->kg", np.where(usable, stack.weights, 0.0), rule.value(plain, y[:, :, None]))

    return likely


def _scores(stack: Stack, w: Array, target: Array, weight: Array, fit_intercept: bool) -> Array:
    """x'w + b with the intercept that fits the working response best."""
    scores = per_task("knd,kd->kn", stack.X, w)
    if not fit_intercept:
        return scores
    total = np.maximum(weight.sum(axis=1), 1e-300)
    return scores + (per_task("kn,kn->k", weight, target - scores) / total)[:, None]


def _weighed(
    rows: CentredRows, priors: Sequence[Prior], centres: Sequence[Array | None], loss: str, beforehand: Array,
    likely: Likelihood | None,
) -> tuple[list[Posterior], Array, Array]:  # fmt: skip
    """What rows say of every prior around its centre (k, d), log weights (k, K, g) of priors and strengths, their sum (k,)."""
    small = reduced(rows)
    seen = [posterior(small, p, c, SIGNAL_TO_NOISE) for p, c in zip(priors, centres, strict=True)]
    logs = np.stack([_log_evidence(s, rows, loss, likely) + np.asarray(s.prior.log_weight)[..., None] for s in seen], axis=1)
    logs += beforehand
    sums = _log_sums(logs)
    return seen, logs - sums, sums[:, 0, 0]


def _average(seen: Sequence[Posterior], logs: Array, leave_out: int, constant: Mask | None) -> Array:
    """Posterior mean (k, d) over priors and strengths, those left out aside; the first without a slope where `constant` (k,)."""
    counted = logs[:, leave_out:]
    weights = np.exp(counted - _log_sums(counted) if leave_out else counted)
    if constant is not None:
        weights[constant, 0] = 0.0
    return np.asarray(sum(s.mean(weights[:, j]) for j, s in enumerate(seen[leave_out:])))


def _log_sums(logs: Array) -> Array:
    """(k, 1, 1) log of the sum of exp; SciPy's takes longer than all else where tasks are few."""
    top = logs.max(axis=(1, 2), keepdims=True)
    return np.asarray(top + np.log(np.exp(logs - top).sum(axis=(1, 2), keepdims=True)))


def _log_evidence(seen: Posterior, rows: CentredRows, loss: str, likely: Likelihood | None) -> Array:
    """(k, g), up to a constant per task."""
    if likely is None:
        least, prior_rows = 1e-12 * seen.total[:, None] + 1e-300, LOSSES.get(loss).prior_rows
        return -seen.determinant - 0.5 * (rows.free[:, None] + prior_rows) * np.log(prior_rows + np.maximum(seen.residual, least))
    scores = seen.scores()
    penalty = seen.residual - np.square(rows.y[:, :, None] - scores).sum(axis=1)
    return likely(scores) - 0.5 * np.maximum(penalty, 0.0) - seen.determinant
