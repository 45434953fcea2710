"""Together, when single rows are protected: one public model from a few noisy sums over rows. Ours.

    round 1  "base"      targets: the level of the public model                              RowSum, bound 1
             "centre"    features, over the longest row: where rows lie                      RowSum, bound 1
    round 2  "lengths"   in which of a dozen bins the length of a row (x - centre, 1) lies   RowSum, bound 1
             "slopes"    the same of its gradient at the level (numbers; labels: at most one)  RowSum, bound 1
    round 3  "curvature" outer product of the row in units of the usual length               RowSum, bound 1
    then     "score"     gradient at the public model in units of the usual gradient         RowSum, bound 1
    last     "gain"      by how much the public model's loss is below that of the level,     RowSum, bound 1
                         with its slopes as they are and shortened
    server   steps of Newton's method: noise is cut off every coordinate of a score (soft threshold at one deviation), and
             curvature below what noise alone shows counts as that much; first scores that may be noise are added up until they
             are heard; a model that does not gain clearly is not published, whatever went wrong on the way to it
    task     weighs the public slopes against learning alone, as `local` does it, by the evidence of its own rows; where these
             tell little, the level too (own_units.py)

Bounds that follow the rows' usual length around their centre, not the longest the declared ranges allow, are what makes the noise
small: rows of a hundred columns are ten long, most of it the same for all where categories are rare, and their gradients rarely
half of that. Where rows are too few for the curvature (a public
question), the budget goes to one score, with a step as if it were the same in all directions, which is too long where a few
directions have most of it: the gains then say that shorter slopes are better; where they are too few for a score, it goes to the
level alone, which still serves tasks of a row or two.

**Privacy.** Unit: one row of one task, one person being one row. Every row is clipped to 1 by the runtime; replacing one moves a
sum by at most 2 in l2; a row's message depends on that row and on billboards alone: adaptive composition of Gaussian releases,
accounted by the plan. The number of rows is public under this unit. What a task makes of the last billboard stays with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, softmax

from taskveil.errors import OptionError
from taskveil.losses import LOSSES
from taskveil.losses.base import Loss
from taskveil.methods.around_model import KNOWN, chosen_models, nothing_known, without_noise
from taskveil.methods.base import Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import tells_little
from taskveil.methods.mean_records import longest_row
from taskveil.methods.own_units import models_in_either_units, models_near
from taskveil.methods.row_gradients import RowGradients
from taskveil.methods.shared_prior import CERTAIN, CHANCE, log_doubt, noise_deviation
from taskveil.privacy.contributions import RowSum
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, Request, make_plan
from taskveil.tasks.block import TaskBlock

BASE, CENTRE, LENGTHS, SLOPES = "base", "centre", "lengths", "slopes"
CURVATURE, SCORE, GAIN = "curvature", "score", "gain"
SHARES = {
    BASE: 0.1,
    CENTRE: 0.1,
    LENGTHS: 0.025,
    SLOPES: 0.025,
    CURVATURE: 0.2,
    GAIN: 0.1,
}  # of the budget (of rho); scores: the rest
BINS = np.geomspace(1 / 64, 1.0, 13)  # upper ends, of the longest possible
LOG_LENGTHS, LOG_WIDTHS = np.linspace(math.log(1 / 128), 0.0, 57), np.array([0.1, 0.2, 0.4, 0.8])  # shapes they may have
LEAST_DEVIATION = 1e-3  # of a part of the rows: no shape is true to more than this
USUAL_ROW, USUAL_SLOPE = 0.8, 0.6  # parts of the rows that are not longer
USUAL_CENTRE = 0.5  # how far the centre of a column is from the middle of its range, beforehand
HOPELESS = 0.25  # noise of one score, norm over number of rows, above which only the level is asked for
LEVEL_NOISE = {"numbers": 0.1, "labels": 0.04}  # of the level, above which it is of no use to anybody
CLEAR_GAIN = 7.0  # deviations of noise at which the level may be trusted with the slopes
GAIN_CHANCE = 0.05  # a gain likelier than this from noise alone is none: scores were heard at CHANCE already
EDGE = 0.9  # a mean number that may lie beyond it says that targets are outside their range: nothing is in common units then
MOST_NOISE = 0.15  # of the curvature's largest eigenvalue from noise alone, in units of a usual row; above it none is asked for
NOISE_PER_ROUND = 0.17  # rounds = this over the noise of one score, norm over number of rows
MOST_ROUNDS, MOST_BLIND = 12, 1  # of scores, with and without the curvature
TRIED = np.array([1.0, 1 / 3])  # lengths of the slopes whose gain is asked for
LEAST_CURVATURE = 1e-6
PLENTY, CAUTION = (
    5,
    -3.0,
)  # rows for every coefficient: a task that has them hardly needs the others, whose model is noisy; log weight
LONGEST_SLOPE = 2.0  # numbers lie in [-1, 1]
SHORTEST = 1e-3  # of the usual lengths, by which rows are divided: below the first bin of the shortest possible rows
RANGES = {
    "row_length": (SHORTEST, 1e3),
    "slope_length": (SHORTEST, 1e3),
    "level": (-1e3, 1e3),
    "centre": (-1.0, 1.0),
    "clear": (0.0, 1.0),
}


def check(public: PublicInfo) -> None:
    """Refuses times until an event, and numbers of rows that are not public."""
    if public.kind == "survival":
        raise OptionError("method 'together' with unit='record' knows numbers and labels; use method='mean' for survival")
    if public.task_rows is None:
        raise OptionError("method 'together' with unit='record' needs the public number of rows of every task")


def requests(public: PublicInfo, budget: Budget, rounds: int | None) -> list[Request]:
    """Rounds, and whether the curvature or anything but the level is bought, follow from public sizes."""
    if rounds is None and public.fit_intercept and _noise_of_score(_asked(public, 1, False), public, budget) > HOPELESS:
        return [Request(BASE, 1, RowSum((public.n_outputs, 1), 1.0))]
    curved = _noise_of_curvature(_asked(public, 1, True), public, budget) <= MOST_NOISE
    if rounds is None:
        most = MOST_ROUNDS if curved else MOST_BLIND
        noise = _noise_of_score(_asked(public, 1, curved), public, budget)
        rounds = int(np.clip(round(NOISE_PER_ROUND / noise), 1, most))
    return _asked(public, rounds, curved)


def _asked(public: PublicInfo, rounds: int, curved: bool) -> list[Request]:
    """Weights are noise precisions: squares add up to the shares of the budget."""
    r, width, bins, loss = public.n_outputs, _width(public), RowSum((1, len(BINS)), 1.0), LOSSES.get(public.loss)
    stages = [
        {BASE: RowSum((r, 1), 1.0), CENTRE: RowSum((1, public.n_features), 1.0)} if public.fit_intercept else {},
        {LENGTHS: bins} | ({} if loss.labels else {SLOPES: bins}),
        {CURVATURE: RowSum((width, width), 1.0)} if curved else {},
    ]
    stages = [stage for stage in stages if stage]
    requests = [Request(n, t + 1, what, weight=math.sqrt(SHARES[n])) for t, s in enumerate(stages) for n, what in s.items()]
    left, start = 1.0 - SHARES[GAIN] - sum(SHARES[request.name] for request in requests), len(stages)
    score = partial(Request, SCORE, contribution=RowSum((r, width), 1.0), weight=math.sqrt(left / rounds))
    gain = Request(GAIN, start + rounds + 1, RowSum((1, len(TRIED)), 1.0), weight=math.sqrt(SHARES[GAIN]))
    return [*requests, *(score(round=start + t + 1) for t in range(rounds)), gain]


def _width(public: PublicInfo) -> int:
    return public.n_features + int(public.fit_intercept)


def _rows(public: PublicInfo) -> float:
    return float(max(1, sum(public.task_rows or ())))


def _deviations(requests: list[Request], public: PublicInfo, budget: Budget) -> dict[str, float]:
    """Of the noise of one coordinate of each release, over the number of rows."""
    return {p.name: _deviation(p, public, budget) for p in make_plan(requests, budget).releases}


def _deviation(planned: PlannedRelease, public: PublicInfo, budget: Budget) -> float:
    return noise_deviation(planned, public.n_tasks, budget.aggregation) / _rows(public)


def _noise_of_curvature(requests: list[Request], public: PublicInfo, budget: Budget) -> float:
    return _radius(_deviations(requests, public, budget)[CURVATURE], _width(public))


def _noise_of_score(requests: list[Request], public: PublicInfo, budget: Budget) -> float:
    return _deviations(requests, public, budget)[SCORE] * math.sqrt(public.n_outputs * _width(public))


def _radius(deviation: float, width: int) -> float:
    """Largest eigenvalue of noise in a symmetrised matrix (Wigner's semicircle)."""
    return deviation * math.sqrt(2 * width)


class RecordTasks(TaskSide):
    """Sums over rows at the public model; every row's part depends on that row alone."""

    def __init__(self, method: Any, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(method, block, public, plan)
        noise = [_deviation(p, public, plan.budget) for p in plan.releases if p.name == BASE]
        self.level_known = public.declared_bounds and bool(noise) and noise[0] <= LEVEL_NOISE.get(self.loss.targets, 0.0)

    def step(self, state: State, view: View) -> tuple[State, Message]:
        names = {name for round, name in self.asked if round == view.round + 1}
        return state, {name: self._rows(*getattr(self, f"_{name}")(view)) for name in sorted(names)}

    def _rows(self, X: np.ndarray, slopes: np.ndarray) -> RowGradients:
        own = self.block.weights
        return RowGradients(X, slopes if own is None else slopes * own[:, None], self.block.offsets)

    def _base(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        return np.ones((self.block.n_rows, 1)), np.asarray(self.block.y, dtype=float) / math.sqrt(self.public.n_outputs)

    def _centre(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.block.X, dtype=float) / math.sqrt(longest_row(self.public)), np.ones((self.block.n_rows, 1))

    def _lengths(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        return _bins(_length(self._around(view)), math.sqrt(longest_row(self.public)))

    def _slopes(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):
            length = _length(self._around(view)) * _length(self._surprise(view["model"]))
        return _bins(length, LONGEST_SLOPE * math.sqrt(longest_row(self.public)))

    def _curvature(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        rows = self._around(view) / float(view["row_length"])
        rows = rows / np.maximum(_length(rows), 1.0)[:, None]  # cut off as rows, so that the product keeps its shape
        return rows, rows

    def _score(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        return self._around(view) / float(view["slope_length"]), self._surprise(view["model"])

    def _wide(self) -> np.ndarray:
        X = np.asarray(self.block.X, dtype=float)
        return np.hstack([X, np.ones((len(X), int(self.public.fit_intercept)))])

    def _around(self, view: View) -> np.ndarray:
        """Rows around the released centre, the constant column as it is."""
        rows = self._wide()
        rows[:, : self.public.n_features] -= view["centre"]
        return rows

    def _surprise(self, model: np.ndarray) -> np.ndarray:
        return -self.loss.derivative(self._wide() @ model.T, self.block.y)

    def _gain(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        """(n, lengths): loss at the level less loss at the model, summed over outputs, in units of the usual loss."""
        level, model = (self._wide() @ view[name].T for name in ("level", "model"))
        with np.errstate(over="ignore", invalid="ignore"):
            losses = [self.loss.value(level + k * (model - level), self.block.y).sum(axis=1) for k in (0.0, *TRIED)]
            gains = (losses[0] - np.array(losses[1:])).T / usual_loss(self.loss, view)
        return np.clip(np.nan_to_num(gains, nan=-1.0), -1.0, 1.0), np.ones((len(gains), 1))

    def finish(self, state: State, view: View) -> Models:
        shared, block, public = view["model"][:, : self.public.n_features], self.block, self.public
        doubt, few = float(view["model_doubt"]), tells_little(block, public.loss).any(axis=1)
        many = block.counts >= PLENTY * _width(public)
        models = models_in_either_units(block, public, shared, doubt)
        if np.any(shared) and many.any():
            models = chosen_models(many, models_in_either_units(block, public, shared, doubt + CAUTION), models)
        near = (few & (np.any(shared) or self.level_known)) | (~many & (float(view["clear"]) > 0.0))  # to the public level, too
        if not near.any():
            return models
        alone = models_in_either_units(block, public, np.zeros_like(shared))
        return chosen_models(near, models_near(block, public, view, alone), models)


def usual_loss(loss: Loss, view: View) -> float:
    """What one row's loss may be by the released lengths and level; only units."""
    if loss.labels:
        return float(0.4 + np.abs(view["level"][:, -1]).max() / 5.0)
    return max(float(view["slope_length"] / view["row_length"]) ** 2 / 4.0, SHORTEST**2)


def _length(rows: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.sqrt(np.square(rows).sum(axis=1))


def _bins(lengths: np.ndarray, longest: float) -> tuple[np.ndarray, np.ndarray]:
    """A one for each row in the bin of its length."""
    place = np.minimum(np.searchsorted(longest * BINS, lengths), len(BINS) - 1)
    return np.eye(len(BINS))[place], np.ones((len(lengths), 1))


class RecordServer(ServerSide):
    """Newton's method on noisy sums; all of it is post-processing."""

    published = (*KNOWN, "row_length", "slope_length", "level", "centre", "clear")

    def first(self) -> State:
        r, width, longest = self.public.n_outputs, _width(self.public), math.sqrt(longest_row(self.public))
        return {
            **nothing_known(r, width), "row_length": np.array(longest), "bend": np.ones(r),
            "slope_length": np.array(longest), "inverse": np.eye(width) * width / self._rounds(),
            "level": np.zeros((r, width)), "centre": np.zeros(self.public.n_features), "outside": np.array(0.0),
            "unheard": np.zeros((r, width)), "waited": np.array(0), "clear": np.array(0.0),
        }  # fmt: skip

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        new, longest = dict(state), math.sqrt(longest_row(self.public))
        if BASE in releases:
            total, deviation = releases[BASE][:, 0], self._deviation(t, BASE)
            new["level"], new["bend"] = self._level(total, deviation)
            new["model"], new["outside"] = (
                new["level"],
                np.array(float(np.abs(total).max() / _rows(self.public) + deviation > EDGE)),
            )
        if CENTRE in releases:
            deviation = self._deviation(t, CENTRE) * longest
            centre = releases[CENTRE][0] / _rows(self.public) * longest
            new["centre"] = np.clip(centre / (1.0 + (deviation / USUAL_CENTRE) ** 2), -1.0, 1.0)
        if LENGTHS in releases:
            new["row_length"] = np.array(longest * self._usual(releases, t, LENGTHS, USUAL_ROW))
            new["slope_length"] = new["row_length"] * (self._largest(new["model"]) if self.loss.labels else 1.0)
        if SLOPES in releases:
            new["slope_length"] = np.array(LONGEST_SLOPE * longest * self._usual(releases, t, SLOPES, USUAL_SLOPE))
        if CURVATURE in releases:
            new["inverse"] = _inverse(releases[CURVATURE] / _rows(self.public), self._deviation(t, CURVATURE))
        if SCORE in releases:
            new |= self._moved(state, releases[SCORE] / _rows(self.public), self._deviation(t, SCORE))
        if GAIN in releases:
            new |= self._gaining(state, releases[GAIN][0] / _rows(self.public), self._deviation(t, GAIN))
        return new

    def _usual(self, releases: Mapping[str, np.ndarray], t: int, name: str, part: float) -> float:
        return usual_length(releases[name] / _rows(self.public), part, self._deviation(t, name))

    def _level(self, total: np.ndarray, deviation: float) -> tuple[np.ndarray, np.ndarray]:
        """The model that knows the mean target only, and how curved the loss is there."""
        model, bend = np.zeros((self.public.n_outputs, _width(self.public))), np.ones(self.public.n_outputs)
        scale = math.sqrt(self.public.n_outputs)
        least = min(1.0, max(2.0 * deviation * scale, 1.0 / _rows(self.public)))
        mean = np.clip(total * scale / _rows(self.public), -1.0 + least, 1.0 - least)
        if self.loss.labels:
            model[:, -1], bend = 2.0 * np.arctanh(mean), np.maximum((1.0 - mean**2) / 4.0, 0.02)
        elif self.public.loss in ("squared", "huber"):
            model[:, -1] = mean
        return model, bend

    def _largest(self, model: np.ndarray) -> float:
        """The steepest slope at the level, of the rarer label."""
        return float((1.0 + np.abs(np.tanh(model[:, -1] / 2.0)).max()) / 2.0) if self.public.fit_intercept else 1.0

    def _moved(self, state: State, score: np.ndarray, deviation: float) -> State:
        """A Newton step in the rows' units; first scores from one model add up until they are heard."""
        sloped = bool(np.any(state["model"][:, : self.public.n_features]))
        total, k = score + state["unheard"], int(state["waited"]) + 1
        score, deviation = total / k, deviation / math.sqrt(k)
        if not np.any(without_noise(score, deviation, sloped)[0]):
            return {} if sloped else {"unheard": total, "waited": np.array(k)}
        clear = np.sign(score) * np.maximum(np.abs(score) - deviation, 0.0)
        step = clear @ state["inverse"] * float(state["slope_length"]) / float(state["row_length"]) ** 2
        step = step / state["bend"][:, None]
        if self.public.fit_intercept:
            step[:, -1] -= step[:, :-1] @ state["centre"]  # the model is one of plain rows
        return {
            "model": state["model"] + step, "unheard": np.zeros_like(total), "waited": np.array(0)
        }  # fmt: skip

    def _gaining(self, state: State, gains: np.ndarray, deviation: float) -> State:
        """The longest model whose gain noise alone would hardly show, and its doubt; tasks may shorten it. Else the level."""
        log_chances = log_ndtr(-gains / deviation) + math.log(len(TRIED))
        heard = np.flatnonzero(log_chances <= math.log(GAIN_CHANCE))
        if (bool(state["outside"]) and not self.loss.labels) or not heard.size:
            return {"model": state["level"], "model_doubt": np.array(0.0)}
        model = state["level"] + TRIED[heard[0]] * (state["model"] - state["level"])
        doubt = log_doubt(float(log_chances[heard[0]]) + math.log(CHANCE / CERTAIN * GAIN_CHANCE))
        clear = gains[heard[0]] > CLEAR_GAIN * deviation
        return {"model": model, "model_doubt": np.array(doubt), "clear": np.array(float(clear))}

    def _rounds(self) -> int:
        return max(1, sum(name == SCORE for _, name in self.planned))

    def _deviation(self, round: int, name: str) -> float:
        return _deviation(self.planned[round, name], self.public, self.plan.budget)


def usual_length(parts: np.ndarray, part: float, deviation: float) -> float:
    """The length that this part of the rows does not exceed, of the longest, from a noisy histogram of lengths.

    Of bins with as much noise as rows a quantile cannot be read off. Lengths are taken to be log-normal, and the shapes are
    averaged by their likelihood under the noise, whose law is public.
    """
    place, width = (grid.ravel() for grid in np.meshgrid(LOG_LENGTHS, LOG_WIDTHS, indexing="ij"))
    edges = np.concatenate([[-np.inf], np.log(BINS[:-1]), [np.inf]])
    expected = np.diff(ndtr((edges - place[:, None]) / width[:, None]), axis=1)
    misfit = np.square(parts.ravel() - expected).sum(axis=1)
    weights = softmax(-misfit / (2.0 * max(deviation, LEAST_DEVIATION) ** 2))
    return math.exp(min(0.0, float(weights @ (place + width * ndtri(part)))))


def _inverse(total: np.ndarray, deviation: float) -> np.ndarray:
    """Of the mean outer product: what noise may hide is taken to be half of what noise shows."""
    values, vectors = np.linalg.eigh((total + total.T) / 2.0)
    return (vectors / np.maximum(values, max(_radius(deviation, len(total)) / 2.0, LEAST_CURVATURE))) @ vectors.T
