"""Private tuning of hyper-parameters that all tasks share.

Choosing a configuration by looking at its error costs privacy: the error is a statistic of everybody's rows. `TaskSearch`
repeats (pick a configuration at random, train, measure) a random number of times and publishes only the best, with a
score that is itself a noisy release (Papernot & Steinke 2022). The whole search then costs little more than one run.

One run     models    the estimator's own releases                              mu_model
            score     sum over tasks of the held-out loss, clipped to [0, 1]    mu_score,  mu^2 = mu_model^2 + mu_score^2
Search      K runs, K truncated negative binomial with mean `mean_runs`: SelectEvent on one Gaussian of 1/mu
Observers   the other tasks, who see the winner. The server sees every run and every score before its noise, whatever the
            aggregation of a single run: the search's own aggregation is "curator", and nothing is claimed against the server
Calibrated  mu is the largest with the search's (epsilon, delta) met; every configuration gets the same mu_model, so all
            configurations have the same Renyi curve whatever their number of rounds

What each task may choose by itself, for free, is not searched: `locally_tuned=True` lists the configurations that every
task then picks from on its own rows, after one single run with the first of them (see `TaskSearch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid

from taskveil.checks import Flag, Number, Rule, check_table, optional, shown
from taskveil.errors import OptionError
from taskveil.estimators.base import TaskEstimator
from taskveil.estimators.certify import search_certificate
from taskveil.estimators.gain import row_losses
from taskveil.estimators.reading import read_tasks, row_weights
from taskveil.privacy.accountants.base import rdp_curve
from taskveil.privacy.calibrate import largest_feasible
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.events import GaussianEvent
from taskveil.privacy.guarantees import gaussian_delta, gaussian_epsilon
from taskveil.privacy.mechanisms.gaussian import Gaussian
from taskveil.privacy.mechanisms.selection import Selection
from taskveil.privacy.plan import Budget, Plan, PlannedRelease
from taskveil.privacy.randomness import again
from taskveil.privacy.release import MemoryAccount, release
from taskveil.privacy.units import Neighbours
from taskveil.runtime.in_process import replay
from taskveil.tasks.arguments import as_pandas
from taskveil.tasks.block import position_folds
from taskveil.tasks.task import TaskSet

SCORE = VectorSum((1,), 1.0)
FOLDS = 5
FREE = ("scaling", "normalise", "fit_intercept")  # options that change neither the budget nor what is protected against whom
SEARCH: dict[str, Rule] = {
    "mean_runs": optional(Number(at_least=1, at_most=100_000)),
    "shape": Number(at_least=0, at_most=1000),
    "score_share": Number(above=0, below=1),
    "locally_tuned": Flag(),
}
HELD_FOLD = 2  # by position inside the task: which rows of a task are held out depends on nobody else; two rows both train


@dataclass(frozen=True)
class SearchPlan:
    """What a search will cost, before any data is read."""

    plan: Plan
    mu_model: float
    mu_score: float
    run_epsilon: float  # of one run's models, at run_delta
    run_delta: float

    @property
    def selection(self) -> Selection:
        """The mechanism that chooses among the candidates."""
        return self.plan.releases[0].mechanism  # type: ignore[return-value]


class TaskSearch(BaseEstimator):
    """Search over hyper-parameters that all tasks share, like GridSearchCV, at a stated and charged privacy cost.

    Parameters
    ----------
    estimator : TaskRegressor or TaskClassifier
        Its epsilon and delta are the budget of the whole search; its ledger and account are charged once.
    param_grid : dict or list of dict
        As in scikit-learn, for example {"method__rounds": [1, 3], "method__penalty": [0.01, 0.1]}.
    mean_runs : float, default: the number of configurations
        Expected number of runs. More runs find better configurations and cost a little more.
    shape : float, default=1.0
        Shape of the distribution of the number of runs: 1 is geometric, 0 is logarithmic.
    score_share : float, default=0.2
        Share of one run's budget (mu squared) that is spent on its score.
    locally_tuned : bool, default=False
        If true, there is no search: every task picks from `param_grid` by its own rows, which costs nothing. The configurations
        may then differ only in what happens after the last release (same releases, same billboards).

    Attributes
    ----------
    best_params_ : dict
        The best configuration. Empty with `locally_tuned`, where every task has its own.
    best_estimator_ : TaskRegressor or TaskClassifier
        The estimator of the best run; its tasks have used all their rows.
    best_score_ : float
        The noisy score of the best run: smaller is better.
    n_runs_ : int
        The number of runs. Keep it private: the certificate does not cover it.
    certificate_ : Certificate
        The guarantee of the whole search.

    Examples
    --------
    >>> import taskveil as tv
    >>> data = tv.get_synthetic("hospitals", n_tasks=20, seed=0).train
    >>> search = tv.TaskSearch(tv.TaskRegressor(epsilon=2.0), {"method__rounds": [1, 2]}).fit(data)
    >>> search.best_params_["method__rounds"] in (1, 2)
    True
    >>> search.certificate_.statements[0].epsilon <= 2.0
    True
    """

    def __init__(
        self,
        estimator: TaskEstimator,
        param_grid: Any,
        mean_runs: float | None = None,
        shape: float = 1.0,
        score_share: float = 0.2,
        locally_tuned: bool = False,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.mean_runs = mean_runs
        self.shape = shape
        self.score_share = score_share
        self.locally_tuned = locally_tuned

    def configurations(self) -> list[dict[str, Any]]:
        """All configurations of the grid.

        Returns
        -------
        list of dict
        """
        check_table({name: getattr(self, name) for name in SEARCH}, SEARCH)
        try:
            grid = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError) as problem:
            raise OptionError(f"param_grid: {' '.join(str(problem).split())}") from None
        if not grid:
            raise OptionError("param_grid holds no configuration")
        return grid

    def plan(self, budget: Budget) -> SearchPlan:
        """Plan the cost of a search: find the largest budget (mu) of one run with which the whole search stays within its budget.

        Parameters
        ----------
        budget : Budget

        Returns
        -------
        SearchPlan
        """
        if budget.epsilon is None:
            raise OptionError("TaskSearch is for private estimators; with epsilon=None use GridSearchCV")
        if budget.task_epsilons is not None:
            raise OptionError("TaskSearch takes one epsilon for all tasks: its score is a release that no task can scale")
        mean_runs = float(self.mean_runs or len(self.configurations()))

        def epsilon_at(mu: float) -> float:
            return _plan(mu, mean_runs, self.shape, budget).epsilon()

        mu = largest_feasible(epsilon_at, budget.epsilon, start=budget.epsilon / 10, tolerance=1e-6)
        mu_model, mu_score = mu * np.sqrt(1 - self.score_share), mu * np.sqrt(self.score_share)
        # Any point of the Gaussian curve says the same; where delta alone would cover a run, take one with epsilon > 0.
        run_delta = min(budget.delta, gaussian_delta(float(mu_model), float(mu_model)))
        run_epsilon = gaussian_epsilon(run_delta, float(mu_model))
        plan = _plan(mu, mean_runs, self.shape, budget)
        return SearchPlan(plan, float(mu_model), float(mu_score), run_epsilon, run_delta)

    def fit(self, X: Any, y: Any = None, task: Any = None) -> TaskSearch:
        """Search, charge the cost, and keep the best run. Its tasks then refit their own models to all their rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        y : array of shape (n_rows,), default=None
        task : array of shape (n_rows,), default=None

        Returns
        -------
        self
        """
        base = self.estimator
        if not isinstance(base, TaskEstimator):
            raise OptionError(f"estimator must be a TaskRegressor or TaskClassifier; got {shown(base)}")
        for options in ({}, *self.configurations()):
            _check_configuration(base, options)
        if not self.locally_tuned:
            _check_searchable(base)
        tasks, _, _ = read_tasks(base, as_pandas(X), y, task, None, base._rules())
        if self.locally_tuned:
            return self._fit_locally(tasks)
        search = self.plan(base._budget(tasks))
        account, source = base._account(search.plan), base._source()
        account.reserve(search.plan)
        account.commit(search.plan.releases[0])  # durable before the first noise of the first run
        best = self._runs(tasks, search, source)
        account.finish()
        self.best_params_, self.best_score_, winner = best
        self.best_estimator_ = _with_all_rows(winner, tasks)
        record = self.best_estimator_.record_
        record.search, record.charged = (search.plan, source.describe()), getattr(account, "charged", None)
        self.certificate_ = search_certificate(self.best_estimator_.method_, record, self.best_estimator_.preparation_)
        self.best_estimator_.certificate_ = self.certificate_
        return self

    def _runs(self, tasks: TaskSet, search: SearchPlan, source: Any) -> tuple[dict[str, Any], float, TaskEstimator]:
        """K runs; the best noisy score wins. Everything but the winner is forgotten."""
        self.n_runs_ = search.selection.draw_runs(source.at(0, "number-of-runs"))
        grid = self.configurations()
        held_out = position_folds(tasks.offsets, FOLDS, self.estimator.seed or 0) == HELD_FOLD
        train, held = tasks.select(~held_out), tasks.select(held_out)
        best: tuple[dict[str, Any], float, TaskEstimator] | None = None
        for k in range(self.n_runs_):
            configuration = grid[int(source.at(k, "configuration").integers(0, len(grid)))]
            run = self._one_run(train, configuration, search, k)
            score = _noisy_score(run, held, search.mu_score, again(source, k))
            if best is None or score < best[1]:
                best = (configuration, score, run)
        assert best is not None
        return best

    def _one_run(self, train: TaskSet, configuration: Mapping[str, Any], search: SearchPlan, k: int) -> TaskEstimator:
        base = self.estimator
        seed = base.insecure_noise_seed
        run = clone(base).set_params(
            **configuration, epsilon=search.run_epsilon, delta=search.run_delta, ledger=None, account=None,
            run_dir=None, insecure_noise_seed=None if seed is None else seed + 7919 * (k + 1),
        )  # fmt: skip
        run.fit(train)
        _check_curve(run.record_.plan, search.mu_model)
        return run

    def _fit_locally(self, tasks: TaskSet) -> TaskSearch:
        """One charged run; then every task picks among configurations on its own rows."""
        from taskveil.estimators.local_tuning import pick_locally

        grid = self.configurations()
        estimator = clone(self.estimator).set_params(**grid[0]).fit(tasks)
        self.best_estimator_ = pick_locally(estimator, grid)
        self.certificate_ = estimator.certificate_
        self.best_params_ = {}  # every task has its own; they stay with it
        return self

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """The winner's predictions.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        task : array of shape (n_rows,), default=None

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self.best_estimator_.predict(X, task=task)

    def score(self, X: Any, y: Any = None, task: Any = None) -> float:
        """The winner's score: R squared or accuracy.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        y : array of shape (n_rows,), default=None
        task : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        return self.best_estimator_.score(X, y, task=task)


def _check_configuration(base: TaskEstimator, options: Mapping[str, Any]) -> None:
    """Refuse a grid over what the guarantee is about: the search is planned, charged and certified once, for all its runs."""
    for name in options:
        if name.partition("__")[0] not in ("method", *FREE):
            raise OptionError(
                f"TaskSearch can search options of the method (method__...), {', '.join(FREE)}; {name!r} is one for all runs: "
                "set it on the estimator"
            )
    if options.get("scaling", base.scaling) == "private":
        raise OptionError("TaskSearch does not go with scaling='private': use 'own', or declare ranges (bounds=)")


def _check_searchable(base: TaskEstimator) -> None:
    """Refuse, before any row is read, what the one noisy score and the secret number of runs cannot protect."""
    alone = "or let every task choose for itself: TaskSearch(..., locally_tuned=True)"
    allowed = {
        "unit": (("task",), f"a score is a message of a whole task. Use unit='task', {alone}"),
        "aggregation": (("curator", "local"), f"runs must add their noise at the server or at the tasks. Use 'curator', {alone}"),
        "observer": (("other-tasks",), "the server sees every run and every score. Use observer='other-tasks', "
                     "or fit one configuration that was chosen without looking"),
        "variant": (("sound",), "a paper's claim that fails for one run fails for a search. Use variant='sound'"),
    }  # fmt: skip
    for name, (fine, why) in allowed.items():
        value = str(getattr(base, name))
        if value not in fine:
            raise OptionError(f"TaskSearch cannot search with {name}={value!r}: {why}")


def _plan(mu: float, mean_runs: float, shape: float, budget: Budget) -> Plan:
    mechanism = Selection(1.0 / mu, mean_runs, shape)
    event = mechanism.event(SCORE, budget.neighbours)
    return Plan((PlannedRelease("search", 1, SCORE, mechanism, event),), replace(budget, aggregation="curator", secure=None))


def _check_curve(plan: Plan, mu_model: float) -> None:
    """Every run must stay below the Gaussian curve the search was accounted with."""
    curve = np.sum([rdp_curve(r.event) for r in plan.releases], axis=0) if plan.releases else 0.0
    if not np.all(curve <= rdp_curve(GaussianEvent(1.0 / mu_model)) * (1 + 1e-6)):
        raise OptionError("a search needs runs of unsampled Gaussian releases; use the default mechanism without cohort sampling")


def _noisy_score(run: TaskEstimator, held: TaskSet, mu_score: float, source: Any) -> float:
    """Mean held-out loss over tasks, each clipped to [0, 1], with noise: a release of its own."""
    block = run.scaling_.apply(held)
    losses = block.means_by_task(row_losses(block, run.models_, run.record_.public.loss))
    scaled = losses / (1.0 + losses)  # bounded in [0, 1), monotone
    budget = Budget(1.0, 1e-6, neighbours=run.record_.plan.budget.neighbours)
    mechanism = Gaussian.calibrated(SCORE, Neighbours(budget.neighbours), 1.0 / mu_score)
    planned = PlannedRelease("score", 1, SCORE, mechanism, mechanism.event(SCORE, budget.neighbours))
    account = MemoryAccount()  # the search was charged as a whole
    account.reserve(Plan((planned,), budget))
    total = release(planned, SCORE.clip(scaled[:, None]), account, source).value
    return float(total[0]) / held.n_tasks


def _with_all_rows(run: TaskEstimator, tasks: TaskSet) -> TaskEstimator:
    """Walk the winner's public billboards again with all rows of every task."""
    weights = row_weights(run, tasks, None, None)
    scaling = run._scaling(tasks, weights)
    block, record = replace(scaling.apply(tasks), weights=weights), run.record_
    if any(board.per_task for board in record.billboards):
        return run
    record.models = replay(run.method_, block, record.public, record.plan, record.billboards)
    run._keep(run.method_, tasks, scaling, block, record)
    return run
