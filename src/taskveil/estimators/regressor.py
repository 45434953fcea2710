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

    Minimises the method's objective over the rows of all tasks; what leaves a task is bounded, charged and noised.

    Parameters
    ----------
    method : str or Method, default="together"
        A name (`taskveil.methods.names()`), "auto" (chosen by public sizes, as the command line does), or
        `taskveil.methods.get("low-rank", rounds=50)`.
    epsilon : float, dict or None, default=1.0
        The budget of this fit. `{"north": 0.5, "*": 2.0}` gives each task its own, "*" all others; the certificate then has a
        statement for every distinct budget. `None` trains without privacy, and the certificate says so.
    delta : float or None, default=None
        `None` means min(1e-5, 1/(10 tasks)), or min(1e-6, 1/(10 rows)) for unit "record".
    unit : {"task", "record"}, default="task"
        What is protected: all rows of a task, or one row.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        What may change: the unit is replaced by any other, or by one that contributes nothing.
    observer : {"other-tasks", "server", "public"}, default="other-tasks"
        Against whom; the certificate lists every statement that holds.
    variant : {"sound", "paper", "preprint"}, default="sound"
        The default is proved; "paper" computes what a paper prints, and its certificate says where the claim fails.
    mechanism : str or None, default=None
        The noise law, for example "gaussian" or "laplace". `None` picks the best valid one.
    accountant : str or None, default=None
        The theorem that adds up releases, for example "pld". `None` picks the best valid one.
    aggregation : {"curator", "local", "secure", "local-model"}, default="curator"
        Where noise enters: at the server, at every task, inside a secure sum, or on every task's model.
    secure : dict or None, default=None
        What a secure sum withstands: `colluders` (0.05) and `dropouts` (0), shares of the sites or numbers,
        `min_cohort` (a number, instead of dropouts), `sites` (tasks of every site; one each), `grid_bits` (12),
        `law` ("discrete-gaussian" or "skellam").
    bounds : mapping, file name, PublicBounds or None, default=None
        Declared public ranges of features and target. Without them every task scales by its own statistics.
    prior : path, dict or None, default=None
        Public knowledge about models: the folder of a saved model (its last billboard), or {"coef": ..., "origin": ...} as a
        table or a file. It costs nothing, is recorded, and every task weighs it by its own rows.
    scaling : {"auto", "own", "declared", "private", "none", "pooled-standard"}, default="auto"
        "auto" uses declared bounds where there are some. "private" spends a share of the budget on a centre and scale common
        to all tasks, where that can pay. "pooled-standard" is refused in private runs.
    scaling_share : float, default=0.1
        Share of the budget that scaling="private" spends.
    normalise : {None, "row"}, default=None
        Scale every row to unit length, as the papers do.
    missing : {"error", "impute-own", "impute-bounds"}, default="error"
        Empty cells: refuse, the median of the task's own rows, or the middle of the declared range. In predict the task's own
        centre, or that middle.
    class_weight : dict, "balanced" or None, default=None
        For classifiers: weights of labels; "balanced" within each task by its own rows.
    loss : {"squared", "poisson", "huber"} or None, default=None
        What is minimised: None and "squared" for numbers, "poisson" for counts (log link), "huber" for numbers with outliers.
    exposure : str, array of shape (n_rows,) or None, default=None
        For loss="poisson": what every count is per (days at risk, visits): a column of X or one number above zero per row.
    fit_intercept : bool, default=True
        Give every task an intercept of its own.
    task_column : str or int or None, default=None
        Column of X that holds the task, for pipelines and grid searches.
    person : str, array of shape (n_rows,) or None, default=None
        Who is behind each row, across tasks: a column of X or one identifier per row. The certificate then says what a person in
        several tasks means for epsilon.
    unknown : {"billboard", "error"}, default="billboard"
        What predict does for a task it has not seen: use what is public, with a warning, where that fits; or refuse.
    strict : bool, default=False
        Refuse to train where there would be a warning, for example about a task with a single row.
    seed : int or None, default=None
        Initialisation and splits. Never noise.
    random_state : int or None, default=None
        The same under scikit-learn's name.
    insecure_noise_seed : int or None, default=None
        Makes the noise reproducible and therefore voids the certificate. For tests and simulations only.
    ledger : str or None, default=None
        Address of the ledger that records spending over all runs, for example "sqlite:///ledger.db".
    account : str or None, default=None
        The account of the ledger that is charged.
    runtime : {"in_process", "flower", "dask"}, default="in_process"
        Who carries the messages. "dask" trains over partitions on a cluster; `coef_`, `intercept_` and `gain_` are then lazy.
    client : distributed.Client, str or None, default=None
        For runtime="dask": a client, or the address of a scheduler; None starts workers on this machine.
    run_dir : path or None, default=None
        Keep a checkpoint there after every round, so that a killed run can be resumed.
    progress : callable or None, default=None
        Called as progress(round, rounds) after every round.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
        One model per task, in the units of X. Only for linear methods.
    intercept_ : ndarray of shape (n_tasks,)
        Only for linear methods.
    task_names_ : tuple of str, length n_tasks
        The tasks, in the order of `coef_`.
    feature_names_ : tuple of str, length n_features
        What the models see: a text column is several, the task column is none.
    n_features_in_ : int
        How many these are.
    feature_names_in_ : ndarray of str
        The columns of the table as it was given.
    certificate_ : Certificate
        What is protected, against whom and how well.
    gain_ : Gain
        Error alone and shared of every task, measured on its own rows when asked for. Private to each task.
    warnings_ : list of str
        For whoever may see all rows.
    n_iter_ : int
        Rounds that were run.

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
        """The prediction of each row's own task model; with loss="poisson" the expected count.

        Expected counts are per unit of exposure, or for the exposure of each row where X has the column that `exposure` names.

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

        Where all targets are equal there is nothing to explain, and the score is 0, or 1 where every row is right.

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
