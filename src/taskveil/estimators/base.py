"""The estimator: from rows to personal models and a certificate, with scikit-learn's habits.

fit = read tasks -> scale -> plan from public sizes -> reserve -> run the loop -> choose shared or alone -> certify.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from taskveil.errors import DataError, OptionError
from taskveil.estimators import certify, common_units, inputs, newcomers
from taskveil.estimators.gain import Gain, in_target_units, measure_gain
from taskveil.estimators.parameters import check_parameters
from taskveil.estimators.prior import read_prior
from taskveil.estimators.reading import check_each_budget, checkpoint_of, fit_partitions, read_tasks, unusual_tasks
from taskveil.estimators.scoring import Scoring
from taskveil.methods.base import Method, Models, PublicInfo
from taskveil.methods.public_prior import PublicPrior
from taskveil.privacy.plan import Budget, Plan
from taskveil.privacy.randomness import NoiseSource, insecure_seeded_noise, system_noise
from taskveil.privacy.release import Account, MemoryAccount
from taskveil.runtime import in_process
from taskveil.runtime.run import Run, RunRecord, assemble, budget_for
from taskveil.tasks.arguments import as_pandas
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.facts import check_few_labels
from taskveil.tasks.prepare.scaling import Scaling
from taskveil.tasks.prepare.step import PrepareRules, PublicPart, choose_scaling, prepare_tasks
from taskveil.tasks.task import CLIPPED, TaskSet
from taskveil.threads import small_matrix_threads

SPENDING = (
    "epsilon", "delta", "unit", "neighbours", "mechanism", "accountant", "aggregation", "variant", "secure",
)  # parameters that say what may be spent # fmt: skip


class TaskEstimator(Scoring, BaseEstimator):
    """What TaskRegressor, TaskClassifier and TaskSurvival share. See the first for the parameters."""

    _kind = ""
    _losses: tuple[str, ...] = ()  # what loss= may be; the first is the usual one
    _gain: Gain | None

    def __init__(
        self,
        method: Any = "together",
        *,
        epsilon: float | Mapping[str, float] | None = 1.0,
        delta: float | None = None,
        unit: Literal["task", "record"] = "task",
        neighbours: Literal["replace-one", "add-remove"] = "replace-one",
        observer: Literal["other-tasks", "server", "public"] = "other-tasks",
        variant: Literal["sound", "paper", "preprint"] = "sound",
        mechanism: str | None = None,
        accountant: str | None = None,
        aggregation: Literal["curator", "local", "secure", "local-model"] = "curator",
        secure: dict[str, Any] | None = None,
        bounds: Any = None,
        scaling: Literal["auto", "own", "declared", "private", "none", "pooled-standard"] = "auto",
        scaling_share: float = 0.1,
        prior: Any = None,
        normalise: Literal["row"] | None = None,
        missing: Literal["error", "impute-own", "impute-bounds"] = "error",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        loss: Literal["squared", "poisson", "huber"] | None = None,
        exposure: Any = None,
        fit_intercept: bool = True,
        task_column: Any = None,
        person: Any = None,
        unknown: Literal["billboard", "error"] = "billboard",
        strict: bool = False,
        seed: int | None = None,
        random_state: int | None = None,
        insecure_noise_seed: int | None = None,
        ledger: Any = None,
        account: str | None = None,
        runtime: Literal["in_process", "flower", "dask"] = "in_process",
        client: Any = None,
        run_dir: Any = None,
        progress: Any = None,
    ):
        self.method, self.epsilon, self.delta = method, epsilon, delta
        self.unit, self.neighbours, self.observer = unit, neighbours, observer
        self.variant, self.mechanism, self.accountant = variant, mechanism, accountant
        self.aggregation, self.secure = aggregation, secure
        self.bounds, self.scaling, self.scaling_share = bounds, scaling, scaling_share
        self.prior, self.normalise, self.missing = prior, normalise, missing
        self.class_weight, self.loss, self.exposure = class_weight, loss, exposure
        self.fit_intercept, self.task_column, self.person = fit_intercept, task_column, person
        self.unknown, self.strict = unknown, strict
        self.seed, self.random_state, self.insecure_noise_seed = seed, random_state, insecure_noise_seed
        self.ledger, self.account = ledger, account
        self.runtime, self.client, self.run_dir, self.progress = runtime, client, run_dir, progress

    def __sklearn_clone__(self) -> TaskEstimator:
        """A connection to a cluster cannot be copied: copies share it."""
        client, self.client = self.client, None
        try:
            return super().__sklearn_clone__().set_params(client=client)
        finally:
            self.client = client

    def set_params(self, **params: Any) -> TaskEstimator:
        """Set parameters, as in scikit-learn. `method__rounds=...` also works if the method was given by name.

        Parameters
        ----------
        **params
            Names and values.

        Returns
        -------
        self
        """
        if isinstance(self.method, str) and "method" not in params and any(name.startswith("method__") for name in params):
            from taskveil import methods

            self.method = methods.get(self.method)
        super().set_params(**params)
        return self

    # ---------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None) -> TaskEstimator:
        """Train a model for every task.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame (pandas, polars), Arrow table or TaskSet
            A TaskSet brings targets and tasks along.
        y : array of shape (n_rows,), default=None
        task : array of shape (n_rows,), default=None
            The task of each row. Not needed for a TaskSet or with `task_column`; needed in private runs.
        sample_weight : array of shape (n_rows,), default=None
            A weight of 2 has the effect of a row that occurs twice. Private runs with unit "record" refuse weights.

        Returns
        -------
        self
        """
        check_parameters(self)
        X, rules = as_pandas(X), self._rules()
        if rules.private:
            inputs.need_tasks(X, task, self.task_column)
        tasks, weights, lazy = read_tasks(self, X, y, task, sample_weight, rules)
        check_few_labels(tasks)
        method, scaling, notes = common_units.chosen_units(self, tasks, weights)
        reuse = not isinstance(X, TaskSet) and inputs.was_sorted(tasks)
        prepared = prepare_tasks(tasks, rules, scaling=scaling, reuse=reuse)
        block = prepared.own.block if weights is None else replace(prepared.own.block, weights=weights)
        budget, prior = self._budget(tasks), self._prior(tasks, scaling)
        check_each_budget(self, method, budget)
        run = assemble(method, self._public(tasks, scaling, block), budget, prior=prior)
        certify.check_observer(run, self.observer, scaling.data_dependent)
        self.preparation_, self.task_warnings_ = prepared.public, dict(prepared.own.warnings)  # the latter for each owner alone
        self.warnings_ = [*notes, *unusual_tasks(tasks, block)]
        if self.strict and self.warnings_:
            raise DataError("strict: " + "; ".join(self.warnings_))
        if self.runtime == "dask":
            fit_partitions(self, lazy, tasks, run)
        else:
            with small_matrix_threads(block.n_features):  # thousands of small problems: BLAS threads only wait
                record = self._run(run, block)
                self.warnings_ += [*record.warnings, *record.notes]
                scaling, block = common_units.settle(method, scaling, block, record)
                self._keep(method, tasks, scaling, block, record)
        self._see_names(X)
        quiet = {CLIPPED, *(f.note() for f in tasks.facts)}  # taken for granted by every such run; the certificate lists it
        for note in self.warnings_:
            if note not in quiet:
                warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def _see_names(self, X: Any) -> None:
        """`feature_names_in_` as scikit-learn has it: of a table whose columns are called by texts, and of nothing else."""
        self.__dict__.pop("feature_names_in_", None)  # of a fit before
        if inputs.is_table(X) and all(isinstance(c, str) for c in X.columns):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)

    @property
    def _loss(self) -> str:
        return self.loss or self._losses[0]

    def _method(self, tasks: TaskSet | None = None) -> Method:
        """The method by name or as given; 'auto' is decided by the public sizes of `tasks`."""
        from taskveil import methods

        if isinstance(self.method, str) and self.method == "auto" and tasks is None and hasattr(self, "method_"):
            return self.method_
        if isinstance(self.method, str):
            name = self.method
            if name == "auto":
                sizes = (
                    (2 * methods.FEW_TASKS, 1, "") if tasks is None else (tasks.n_tasks, tasks.n_features, tasks.kind)
                )  # unseen: many
                name, _ = methods.choose(name, *sizes[:2], str(self.unit), sizes[2])
            return methods.get(name).under(self.unit, self.variant)
        if not isinstance(self.method, Method):
            got = type(self.method).__name__
            raise OptionError(f"method must be a name ({', '.join(methods.names())}) or a Method object, got {got}")
        return self.method.under(self.unit, self.variant)

    def _budget(self, tasks: TaskSet) -> Budget:
        named = {name: getattr(self, name) for name in SPENDING}
        return budget_for(tasks.n_tasks, tasks.n_rows, task_names=tasks.task_names, **named)

    def _rules(self) -> PrepareRules:
        """What preparation depends on (taskveil.tasks.prepare)."""
        return PrepareRules(
            unit=str(self.unit),
            private=self.epsilon is not None,
            sound=self.variant == "sound",
            scaling=self.scaling,
            normalise=self.normalise,
            raw_rows=self._method().raw_rows,
            loss=self._loss,
        )

    def _scaling(self, tasks: TaskSet, weights: np.ndarray | None = None) -> Scaling:
        return choose_scaling(tasks, self._rules(), weights)

    def _public(self, tasks: TaskSet, scaling: Scaling, block: TaskBlock) -> PublicInfo:
        return PublicInfo(
            n_tasks=tasks.n_tasks,
            n_features=tasks.n_features,
            n_outputs=block.n_outputs,
            kind=tasks.kind,
            declared_bounds=scaling.mode == "declared",
            unit_rows=self.normalise == "row",
            fit_intercept=self.fit_intercept,
            max_rows=int(tasks.sizes.max()) if self.epsilon is None else None,
            seed=self.seed if self.seed is not None else self.random_state,
            task_rows=tuple(int(n) for n in tasks.sizes) if str(self.unit) == "record" else None,
            loss=self._loss,
        )

    def _prior(self, tasks: TaskSet, scaling: Scaling) -> Callable[[PublicInfo], PublicPrior] | None:
        """How to read the prior that was given, once the sizes are known."""
        if self.prior is None:
            return None
        return lambda public: read_prior(self.prior, public, tasks.feature_names, scaling.mode)

    def _source(self) -> NoiseSource:
        if self.insecure_noise_seed is not None:
            return insecure_seeded_noise(self.insecure_noise_seed)
        return system_noise()

    def _account(self, plan: Plan, also: Sequence[str] = ()) -> Account:
        """The account of a run; it is charged wherever the run's statements reach."""
        if self.ledger is None and self.account is not None:
            raise OptionError("account names an account of a ledger, and no ledger was given: give ledger= (--ledger URL) too")
        if self.ledger is None:
            return MemoryAccount()
        from taskveil.privacy.ledger import open_account

        return open_account(self.ledger, self.account, plan, self.observer, also=also)

    def _run(self, run: Run, block: TaskBlock) -> RunRecord:
        plan, account = run.plan, self._account(run.plan, run.method.disclosure(run.public, run.plan).observers)
        run = run.paid_by(account, self._source(), self.progress)
        if plan.budget.epsilon is not None and plan.budget.variant == "sound" and hasattr(self.progress, "follow"):
            self.progress.follow(plan.spent_after)
        if self.runtime == "in_process":
            checkpoint = checkpoint_of(self, plan, run.public, block)
            if checkpoint is not None:
                run = replace(run, account=checkpoint.account(account))
            record = in_process.run(run, block, checkpoint)
        else:
            from taskveil.runtime.federation import threads as thread_grid

            record = thread_grid.run(run, block)
        record.charged = getattr(account, "charged", None)
        return record

    def _keep(self, method: Method, tasks: TaskSet, scaling: Scaling, block: TaskBlock, record: RunRecord) -> None:
        """Turn a finished run into fitted attributes."""
        prepared = replace(self.preparation_, scaling=scaling.mode, own_target=scaling.own_target)
        self._become(tasks, method, scaling, record, prepared)
        self.certificate_ = certify.certificate(method, record, self.preparation_)
        self._training, self._tasks, self._gain = block, tasks, None  # for gain_, computed when asked for; never saved
        self._lazy = self._gain_summary = None
        self._set_coefficients(method, scaling, record.models)
        self._keep_own(tasks, block)

    def _become(self, tasks: TaskSet, method: Method, scaling: Scaling, record: RunRecord, prepared: PublicPart) -> None:
        """The fitted attributes, whatever they are of: this fit, partitions on a cluster, or a newcomer's own rows."""
        self.task_names_, self.feature_names_, self.n_features_in_ = tasks.task_names, tasks.feature_names, tasks.n_features
        self.classes_, self.bounds_ = tasks.classes, tasks.bounds  # a new task scales by the bounds too
        self.method_, self.scaling_, self.record_, self.preparation_ = method, scaling, record, prepared
        self.models_, self.n_iter_ = record.models, record.rounds

    def _keep_own(self, tasks: TaskSet, block: TaskBlock) -> None:
        """What tasks keep of their own rows beside a model; nothing, but for survival."""

    def _set_coefficients(self, method: Method, scaling: Scaling, models: Models) -> None:
        if not method.linear:
            return
        coef, intercept = scaling.coef_back(models.coef, models.intercept)
        single = coef.shape[1] == 1
        self.coef_ = coef[:, 0] if single else coef
        self.intercept_ = intercept[:, 0] if single else intercept

    # -------------------------------------------------------------- gain

    @property
    def gain_(self) -> Gain:
        """Per task, from its own rows only: error alone, error shared, which was kept. Private to each task."""
        check_is_fitted(self, "task_names_")
        if getattr(self, "_lazy", None) is not None:
            from taskveil.estimators.partitioned import gain as partitioned

            return partitioned.gain_frame(self)
        gain: Gain | None = getattr(self, "_gain", None)
        if gain is None:
            if getattr(self, "_training", None) is None:
                raise DataError("gain_ needs the training rows, which are never saved: ask for it before saving")
            gain = measure_gain(self.method_, self._training, self.record_, self.models_, self.task_names_)
            gain = replace(gain, rows=self._training.sizes, clipped=self.record_.extra.get("clipped"))
            self._gain = gain = in_target_units(gain, self.scaling_, self._loss)
        return gain

    def summary(self) -> str:
        """The run in words: outlook, certificate, gain, notes. For people who may see all rows."""
        from taskveil.estimators.summary import summary

        check_is_fitted(self, "task_names_")
        return summary(self)

    def adapt(self, X: Any, y: Any, name: str | None = None) -> TaskEstimator:
        """Train a model for a new task, from its own rows and what the run published.

        Nothing is sent, so this costs no privacy. Only for linear methods.

        Parameters
        ----------
        X : array of shape (n_rows, n_features) or DataFrame
        y : array of shape (n_rows,)
        name : str or None, default=None
            Name of the new task. `None` takes it from the task column of X if there is one, else "new task".

        Returns
        -------
        TaskRegressor or TaskClassifier
            An estimator for this one task. It holds public values, but no model, state or schedule of another task.
        """
        check_is_fitted(self, "task_names_")
        return newcomers.adapt(self, self._table(X), y, name)

    # -------------------------------------------------------- save, load

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copies: fitted attributes, without training rows and without what tasks remembered in the run."""
        state = dict(super().__getstate__())
        if getattr(state.get("models_"), "client", None) is not None:
            raise OptionError("models on a cluster cannot be pickled or copied: est.save(folder), then taskveil.load(folder)")
        state.pop("_lazy", None)  # rows on a cluster
        if not isinstance(self.client, str):
            state["client"] = None  # a connection stays here
        if state.get("_training") is not None:
            if self.method_.linear or "error_alone" in self.models_.extra:
                state["_gain"] = self.gain_  # needs the rows, so it is measured before they go
            del state["_training"], state["_tasks"]
            state["record_"] = self.record_.without_states()
        if not (self.person is None or isinstance(self.person, str)):
            state["person"] = None  # one name for every training row
        if not (self.exposure is None or isinstance(self.exposure, str)):
            state["exposure"] = None
        return state

    def save(self, directory: str | Path) -> Path:
        """Write models, billboards and certificate: npz and JSON, never pickle. `taskveil.load` reads them.

        Parameters
        ----------
        directory : path
            Created where it does not exist.

        Returns
        -------
        Path
            The folder.
        """
        from taskveil.estimators.saving import save

        check_is_fitted(self, "task_names_")
        return save(self, directory)
