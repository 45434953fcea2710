"""A regression model for every task."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from taskveil.estimators.base import TaskEstimator


class TaskRegressor(RegressorMixin, TaskEstimator):
    """A personal regression model for every task, trained jointly, with a privacy certificate.

    Minimises the method's objective over the rows of all tasks; what leaves a task is bounded, charged and noised.

    Parameters
    ----------
    method : str or Method, default="subspace"
        A name (`taskveil.methods.names()`), "auto" (chosen by public sizes, as on the command line), or
        `taskveil.methods.get("low-rank", rounds=50)`.
    epsilon, delta : float or None
        The budget of this fit. `epsilon=None` trains without privacy, and the certificate says so. `delta=None` means
        min(1e-5, 1/(10 tasks)), or min(1e-6, 1/(10 rows)) for unit "record".
    unit : {"task", "record"}
        What is protected: all rows of a task, or one row.
    neighbours : {"replace-one", "add-remove"}
        What may change: the unit is replaced by any other, or by one that contributes nothing.
    observer : {"other-tasks", "server", "public"}
        Against whom; the certificate lists every statement that holds.
    variant : {"sound", "paper", "preprint"}
        The default is proved; "paper" computes what a paper prints, and its certificate says where the claim fails.
    mechanism, accountant : str or None
        None picks the best valid one.
    aggregation : {"curator", "local", "secure", "local-model"}
        Where noise enters: at the server, at every task, inside a secure sum, or on every task's model.
    secure : dict or None
        What a secure sum withstands: `colluders` (0.05) and `dropouts` (0), shares of the sites or numbers,
        `min_cohort` (a number, instead of dropouts), `sites` (tasks of every site; one each), `grid_bits` (12),
        `law` ("discrete-gaussian" or "skellam").
    bounds : mapping, file name, PublicBounds or None
        Declared public ranges of features and target. Without them every task scales by its own statistics.
    scaling : {"auto", "own", "declared", "private", "none", "pooled-standard"}
        "auto" uses declared bounds where there are some. "private" spends a share of the budget on a centre and scale common
        to all tasks, where that can pay. "pooled-standard" is refused in private runs.
    scaling_share : float
        Share of the budget that scaling="private" spends.
    normalise : {None, "row"}
        Scale every row to unit length, as the papers do.
    missing : {"error", "impute-own", "impute-bounds"}
        Empty cells: refuse, the median of the task's own rows, or the middle of the declared range. In predict the task's own
        centre, or that middle.
    class_weight : dict, "balanced" or None
        For classifiers: weights of labels; "balanced" within each task by its own rows.
    task_column : str or int or None
        Column of X that holds the task, for pipelines and grid searches.
    unknown : {"billboard", "error"}
        What predict does for a task it has not seen: use what is public, with a warning, where that fits; or refuse.
    seed, random_state : int or None
        Initialisation and splits, under two names. Never noise.
    insecure_noise_seed : int or None
        Makes the noise reproducible and therefore voids the certificate. For tests and simulations only.
    ledger, account : str or None
        Where spending is recorded over all runs, see `taskveil ledger`.
    runtime : {"in_process", "flower"}
        Who carries the messages.
    run_dir : path or None
        Keep a checkpoint there after every round, so that a killed run can be resumed.

    Attributes
    ----------
    coef_ : (n_tasks, n_features)
    intercept_ : (n_tasks,)
    task_names_, feature_names_ : tuple of str
    certificate_ : Certificate
    gain_ : Gain, computed when asked for
    warnings_ : list of str

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

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """The prediction of each row's own task model."""
        return self._scores(X, task)[:, 0]

    def score(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None) -> float:
        """R squared over all rows."""
        y = X.y if y is None else y
        return float(r2_score(y, self.predict(X, task=task), sample_weight=sample_weight))
