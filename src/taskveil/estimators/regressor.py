"""A regression model for every task."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from taskveil.estimators import inputs
from taskveil.estimators.base import TaskEstimator
from taskveil.estimators.inputs import is_lazy
from taskveil.estimators.metrics import explained_deviance
from taskveil.tasks.arguments import as_pandas
from taskveil.tasks.prepare.unusable import exposures
from taskveil.tasks.task import TaskSet

LARGEST_LOG = 300.0  # rates beyond exp of this are as good as that


class TaskRegressor(RegressorMixin, TaskEstimator):
    """A personal regression model for every task, trained jointly, with a privacy certificate.

    The tasks learn together by the method's objective over all rows. Whatever leaves a task is bounded and charged to the
    budget, and noise is added before other tasks see it.

    Parameters
    ----------
    method : str or Method, default="together"
        A name from `taskveil.methods.names()`, or a method with options: `taskveil.methods.get("low-rank", rounds=50)`. "auto"
        chooses a method from public sizes.
    epsilon : float, dict or None, default=1.0
        The privacy budget of this fit: smaller hides better and needs more noise. `{"north": 0.5, "*": 2.0}` gives tasks
        budgets of their own, and "*" stands for all others; the certificate then has a statement for every distinct budget.
        `None` trains without privacy, and the certificate says so.
    delta : float or None, default=None
        Small probability with which the guarantee may fail. `None` means min(1e-5, 1/(10 tasks)), or min(1e-6, 1/(10 rows)) for
        unit "record".
    unit : {"task", "record"}, default="task"
        What is protected: all rows of a task, or one row.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        What the real data are compared with: the unit has any other data ("replace-one"), or contributes nothing ("add-remove").
    observer : {"other-tasks", "server", "public"}, default="other-tasks"
        Against whom the unit is protected. The certificate lists every statement that holds.
    variant : {"sound", "paper", "preprint"}, default="sound"
        "sound" has a proved guarantee. "paper" computes what a paper prints; if the paper's claim is false, the certificate
        says so.
    mechanism : str or None, default=None
        The noise distribution, for example "gaussian" or "laplace". `None` picks the best valid one.
    accountant : str or None, default=None
        The theorem that adds up the cost of releases, for example "pld". `None` picks the best valid one.
    aggregation : {"curator", "local", "secure", "local-model"}, default="curator"
        Where noise is added: at the server, at every task, inside a secure sum, or to every task's model.
    secure : dict or None, default=None
        Options of a secure sum. `colluders` (0.05) and `dropouts` (0) are shares of the sites or numbers; `min_cohort` is a
        number of sites and replaces `dropouts`; `sites` lists how many tasks each site has (one each); `grid_bits` is 12; `law`
        is "discrete-gaussian" or "skellam".
    bounds : mapping, file name, PublicBounds or None, default=None
        Declared public ranges of features and target. Without them every task scales by its own statistics.
    prior : path, dict or None, default=None
        Public knowledge about models: the folder of a saved model (only its last billboard is read), or {"coef": ..., "origin":
        ...} as a dict or a file. It costs no budget and is recorded. Every task decides by its own rows how much to rely on it.
    scaling : {"auto", "own", "declared", "private", "none", "pooled-standard"}, default="auto"
        "auto" uses declared bounds if there are any, else each task's own statistics. "private" spends a share of the budget on a
        centre and scale common to all tasks, if public sizes say that this helps. "pooled-standard" is refused in private runs.
    scaling_share : float, default=0.1
        Share of the budget that scaling="private" spends.
    normalise : {None, "row"}, default=None
        "row" scales every row to unit length, as the papers do.
    missing : {"error", "impute-own", "impute-bounds"}, default="error"
        What to do with empty cells: refuse them, fill in the median of the task's own rows, or fill in the middle of the declared
        range. In predict, "impute-own" fills in the task's own centre.
    class_weight : dict, "balanced" or None, default=None
        For classifiers: weights of labels. "balanced" computes them within each task from its own rows.
    loss : {"squared", "poisson", "huber"} or None, default=None
        What is minimised: "squared" or None for numbers, "poisson" for counts (log link), "huber" for numbers with outliers.
    exposure : str, array of shape (n_rows,) or None, default=None
        For loss="poisson": what each count refers to, for example days at risk. A column of X, or one positive number per row.
    fit_intercept : bool, default=True
        Whether every task gets an intercept of its own.
    task_column : str or int or None, default=None
        Column of X that holds the task, for pipelines and grid searches.
    person : str, array of shape (n_rows,) or None, default=None
        The person behind each row: a column of X, or one identifier per row. The certificate then says what a person in several
        tasks means for epsilon.
    unknown : {"billboard", "error"}, default="billboard"
        What predict does for a task that was not in training. "billboard" uses the published model if it suits such a task,
        with a warning. "error" refuses.
    strict : bool, default=False
        Whether to refuse to train instead of warning, for example about a task with a single row.
    seed : int or None, default=None
        Seed of initialisation and splits. It never affects noise.
    random_state : int or None, default=None
        scikit-learn's name for `seed`.
    insecure_noise_seed : int or None, default=None
        Makes the noise reproducible, which voids the certificate. For tests and simulations only.
    ledger : str or None, default=None
        Address of the ledger that records the spending of all runs, for example "sqlite:///ledger.db".
    account : str or None, default=None
        The account of the ledger that is charged.
    runtime : {"in_process", "flower", "dask"}, default="in_process"
        How messages are carried: within this process, through Flower nodes, or on a Dask cluster. With "dask", `coef_`,
        `intercept_` and `gain_` are lazy.
    client : distributed.Client, str or None, default=None
        For runtime="dask": a client, or the address of a scheduler. `None` starts workers on this machine.
    run_dir : path or None, default=None
        Folder for a checkpoint after every round, so that a killed run can be resumed.
    progress : callable or None, default=None
        Called as progress(round, rounds) after every round.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
        One model per task, in the units of X. Only for linear methods.
    intercept_ : ndarray of shape (n_tasks,)
        One intercept per task. Only for linear methods.
    task_names_ : tuple of str, length n_tasks
        The tasks, in the order of `coef_`.
    feature_names_ : tuple of str, length n_features
        The features of the models. One text column gives several features; the task column gives none.
    n_features_in_ : int
        The number of these features.
    feature_names_in_ : ndarray of str
        The columns of the table as it was given.
    certificate_ : Certificate
        What is protected, against whom and how well.
    gain_ : Gain
        Every task's error alone and shared, computed from its own rows when first used. Each entry is private to its task.
    warnings_ : list of str
        Warnings for people who may see all rows.
    n_iter_ : int
        The number of rounds that were run.

    Examples
    --------
    >>> import taskveil as tv
    >>> data = tv.get_synthetic("hospitals", seed=0)
    >>> est = tv.TaskRegressor(method="subspace", epsilon=1.0, delta=1e-5).fit(data.train)
    >>> est.predict(data.test).shape == data.test.y.shape
    True
    >>> est.certificate_.statements[0].holds
    True
    """

    _kind = "regression"
    _losses = ("squared", "poisson", "huber")

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """Predict each row by the model of its task; with loss="poisson", the expected count.

        Expected counts are per unit of exposure. If X has the column that `exposure` names, they are for the exposure of each
        row.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
            Of lazy tasks the predictions are lazy too: a dask DataFrame (task, score), made where the rows are.
        task : array of shape (n_rows,), default=None
            The task of each row. Not needed for a TaskSet or with `task_column`.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        if is_lazy(X):
            return self._predict_lazy(X)
        if self._loss != "poisson":
            return self._scores(X, task)[:, 0]
        X = as_pandas(X)
        column = self.exposure if isinstance(self.exposure, str) and hasattr(X, "columns") else None
        rows, exposure = inputs.split_carried(X, column if column in getattr(X, "columns", ()) else None, "exposure")
        exposure = X.exposure if isinstance(X, TaskSet) else exposure
        rates = np.exp(np.clip(self._scores(rows, task)[:, 0], -LARGEST_LOG, LARGEST_LOG))
        return rates if exposure is None else rates * exposures(exposure, silent=False)[0]

    def score(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None) -> float:
        """R squared over all rows; with loss="poisson" D squared, the share of deviance explained. 1 is perfect, 0 is a constant.

        If all targets are equal, the score is 1 if every row is predicted exactly, else 0.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        y : array of shape (n_rows,), default=None
            Not needed for a TaskSet, which has its own.
        task : array of shape (n_rows,), default=None
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        y, predicted, weights = self._compared(X, y, task, sample_weight=sample_weight)
        if self._loss == "poisson":
            return explained_deviance(y, predicted, weights)
        return float(r2_score(y, predicted, sample_weight=weights))
