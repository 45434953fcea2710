"""The estimator: from rows to personal models and a certificate, with scikit-learn's habits.

fit = read tasks -> scale -> plan from public sizes -> reserve -> run the loop -> choose shared or alone -> certify.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from taskveil.errors import DataError, OptionError
from taskveil.estimators import certify, common_units, inputs, newcomers
from taskveil.estimators.final import settle
from taskveil.estimators.gain import Gain, measure_gain
from taskveil.estimators.parameters import check_parameters
from taskveil.estimators.planning import FEW_TASKS, choose_method, default_delta
from taskveil.estimators.prior import read_prior
from taskveil.estimators.scores import gathered_scores
from taskveil.estimators.weights import row_weights
from taskveil.methods.base import Method, Models, PublicInfo
from taskveil.methods.common_scale import CommonScale, in_best_units
from taskveil.privacy.guarantees import check_new_delta
from taskveil.privacy.per_task import REMEDY, epsilons_of
from taskveil.privacy.plan import Budget, Plan, make_plan
from taskveil.privacy.randomness import NoiseSource, insecure_seeded_noise, system_noise
from taskveil.privacy.secure_options import SecureOptions
from taskveil.privacy.spending import Account, MemoryAccount
from taskveil.privacy.units import Neighbours, Unit
from taskveil.runtime import in_process
from taskveil.runtime.record import RunRecord
from taskveil.structures.blas import small_matrix_threads
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import Scaling
from taskveil.tasks.prepare.step import PrepareRules, choose_scaling, prepare_tasks
from taskveil.tasks.prepare.unusable import SET_ASIDE
from taskveil.tasks.task import CLIPPED, TaskSet


class TaskEstimator(BaseEstimator):
    """What TaskRegressor and TaskClassifier share. See those for the parameters."""

    _kind = ""
    classes_: Any
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
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.neighbours = neighbours
        self.observer = observer
        self.variant = variant
        self.mechanism = mechanism
        self.accountant = accountant
        self.aggregation = aggregation
        self.secure = secure
        self.bounds = bounds
        self.scaling = scaling
        self.scaling_share = scaling_share
        self.prior = prior
        self.normalise = normalise
        self.missing = missing
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.task_column = task_column
        self.person = person
        self.unknown = unknown
        self.strict = strict
        self.seed = seed
        self.random_state = random_state
        self.insecure_noise_seed = insecure_noise_seed
        self.ledger = ledger
        self.account = account
        self.runtime = runtime
        self.client = client
        self.run_dir = run_dir
        self.progress = progress

    def set_params(self, **params: Any) -> TaskEstimator:
        """Set parameters, as in scikit-learn; `method__rounds=...` works also where the method was given by name.

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
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
            A TaskSet brings targets and tasks along.
        y : array of shape (n_rows,), default=None
        task : array of shape (n_rows,), default=None
            The task of each row. Not needed for a TaskSet or with `task_column`; needed in private runs.
        sample_weight : array of shape (n_rows,), default=None
            A weight of 2 is a row that stands there twice (see taskveil.estimators.weights for what privacy allows).

        Returns
        -------
        self
        """
        check_parameters(self)
        rules = self._rules()
        if rules.private:
            inputs.need_tasks(X, task, self.task_column)
        lazy = self._lazy_tasks(X, (y, task, sample_weight))
        tasks = inputs.tasks_of(
            X, y, task, self.task_column, self._kind, self.bounds, self.person, rules.unusable, self.missing
        ) if lazy is None else lazy.shell  # fmt: skip
        given = None if isinstance(X, TaskSet) or y is None else len(np.asarray(y))
        weights = row_weights(self, tasks, sample_weight, given) if lazy is None else None  # elsewhere, as the rows
        method, scaling, notes = self._prepared(tasks, weights)
        reuse = not isinstance(X, TaskSet) and inputs.was_sorted(tasks)
        prepared = prepare_tasks(tasks, rules, scaling=scaling, reuse=reuse)
        block = prepared.own.block if weights is None else replace(prepared.own.block, weights=weights)
        public = self._public(tasks, scaling, block)
        budget = method.adjust(self._budget(tasks))
        public = self._with_prior(public, method, budget, tasks, scaling)
        method.check(public, budget)
        self._check_each_budget(method, budget)
        certify.check_observer(budget, self.observer, method, scaling.data_dependent)
        plan = make_plan(method.requests(public, budget), budget)
        self.preparation_, self.task_warnings_ = prepared.public, dict(prepared.own.warnings)  # the latter for each owner alone
        self.warnings_ = [*notes, *unusual_tasks(tasks, block)]
        if self.strict and self.warnings_:
            raise DataError("strict: " + "; ".join(self.warnings_))
        if self.runtime == "dask":
            self._fit_partitions(lazy, tasks, method, scaling, public, plan)
        else:
            with small_matrix_threads(block.n_features):  # thousands of small problems: BLAS threads only wait
                record = self._run(method, block, public, plan)
                self.warnings_ += record.warnings
                scaling, block = settle(method, scaling, block, record)
                self._keep(method, tasks, scaling, block, record)
        if inputs.is_table(X) and all(isinstance(c, str) for c in X.columns):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        quiet = {CLIPPED, *(f.note() for f in tasks.facts)}  # taken for granted by every such run; the certificate lists it
        for note in self.warnings_:
            if note not in quiet:
                warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def _lazy_tasks(self, X: Any, given: tuple[Any, ...]) -> Any:
        """Tasks whose rows are elsewhere; None where they are in memory."""
        if not inputs.is_lazy(X) and self.runtime != "dask":
            return None
        from taskveil.estimators.partitioned import fit as partitioned

        partitioned.check_engine(self, self._method())
        return partitioned.lazy_tasks(self, X, given)

    def _fit_partitions(
        self, lazy: Any, tasks: TaskSet, method: Method, scaling: Scaling, public: PublicInfo, plan: Plan
    ) -> None:
        """The run over partitions on a cluster; tasks in memory are cut into some."""
        from taskveil.estimators.partitioned import fit as partitioned

        partitioned.fit(self, partitioned.in_memory(tasks) if lazy is None else lazy, method, scaling, public, plan)

    def _method(self, tasks: TaskSet | None = None) -> Method:
        """The method by name or as given; 'auto' is decided by the public sizes of `tasks`."""
        from taskveil import methods

        if self.method == "auto" and tasks is None and hasattr(self, "method_"):
            return self.method_
        if isinstance(self.method, str):
            sizes = (2 * FEW_TASKS, 1) if tasks is None else (tasks.n_tasks, tasks.n_features)  # unseen: as for many tasks
            return methods.get(choose_method(self.method, *sizes, str(self.unit))[0]).under(self.unit)
        if not isinstance(self.method, Method):
            raise OptionError(
                f"method must be a name ({', '.join(methods.names())}) or a Method object, got {type(self.method).__name__}"
            )
        return self.method.under(self.unit)

    def _budget(self, tasks: TaskSet) -> Budget:
        unit, delta = Unit(self.unit), self.delta
        if delta is None:
            delta = default_delta(unit.value, tasks.n_tasks if unit is Unit.TASK else tasks.n_rows)
        own = self.epsilon if isinstance(self.epsilon, Mapping) else None
        each = None if own is None else epsilons_of(own, tasks.task_names)
        same = None if isinstance(self.epsilon, Mapping) else self.epsilon
        return Budget(
            epsilon=max(each) if each is not None else same,
            delta=check_new_delta(delta),
            unit=unit,
            neighbours=Neighbours(self.neighbours),
            mechanism=self.mechanism,
            accountant=self.accountant,
            aggregation=self.aggregation,
            variant=self.variant,
            secure=self._secure(tasks.n_tasks),
            task_epsilons=each,
        )

    def _check_each_budget(self, method: Method, budget: Budget) -> None:
        """Budgets per task need messages that this process scales one by one."""
        if budget.task_epsilons is None or method.shares_nothing:
            return
        if method.schedule != "synchronous" or not (method.linear and method.weighs_tasks) or self.runtime != "in_process":
            where = f"runtime {self.runtime!r}" if self.runtime != "in_process" else f"method {method.name!r}"
            raise OptionError(f"a budget per task is refused for {where}; {REMEDY}")

    def _secure(self, n_tasks: int) -> SecureOptions | None:
        if self.aggregation != "secure" or self.epsilon is None:
            return None
        return SecureOptions.parse(n_tasks, self.secure)

    def _rules(self) -> PrepareRules:
        """What preparation depends on (taskveil.tasks.prepare)."""
        return PrepareRules(
            unit=str(self.unit),
            private=self.epsilon is not None,
            sound=self.variant == "sound",
            scaling=self.scaling,
            normalise=self.normalise,
            raw_rows=self._method().raw_rows,
        )

    def _scaling(self, tasks: TaskSet, weights: np.ndarray | None = None) -> Scaling:
        return choose_scaling(tasks, self._rules(), weights)

    def _prepared(self, tasks: TaskSet, weights: np.ndarray | None = None) -> tuple[Method, Scaling, list[str]]:
        """The method, how its rows are scaled, and what the user should know about that."""
        method = self._method(tasks)
        if self.prior is not None:  # what others know is in units every task has: its own, or declared ones
            method = method.in_own_units()
        if self.scaling != "private":
            scaling = self._scaling(tasks, weights)
            if self.scaling == "auto" and self.prior is None and scaling.mode in ("own", "declared") and method.common_units:
                return self._in_best_units(method, scaling, tasks)
            return method.in_own_units() if scaling.mode == "own" else method, scaling, []
        if self.normalise is not None:
            raise OptionError("scaling='private' does not go with normalise='row'; leave one of them out")
        bought, private = CommonScale(method, self.scaling_share), self.epsilon is not None
        outer = common_units.outer_scaling(tasks, self.unit, private)
        budget = bought.adjust(self._budget(tasks))
        public = self._public(tasks, outer, TaskBlock.from_tasks(tasks))
        bought.check(public, budget)
        if bought.affordable(public, budget):
            return bought, outer, []
        scaling, why = common_units.instead(tasks, self.unit, private)
        return method.in_own_units(), scaling, [why]

    def _in_best_units(self, method: Method, given: Scaling, tasks: TaskSet) -> tuple[Method, Scaling, list[str]]:
        """Common units where the method gains by them and can afford them, else the given ones."""
        outer, budget = common_units.outer_scaling(tasks, self.unit, self.epsilon is not None), method.adjust(self._budget(tasks))
        public = self._public(tasks, outer, TaskBlock.from_tasks(tasks))
        best = in_best_units(method, public, budget)
        return best, outer if isinstance(best, CommonScale) else given, []

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
        )

    def _with_prior(self, public: PublicInfo, method: Method, budget: Budget, tasks: TaskSet, scaling: Scaling) -> PublicInfo:
        """Public sizes and the prior, where one was given and the method has a use for it."""
        if self.prior is None:
            return public
        if not method.weighs_prior(budget):
            raise OptionError(f"method {method.name!r} weighs no prior with these options; use 'subspace', 'mean' or 'low-rank'")
        return replace(public, prior=read_prior(self.prior, public, tasks.feature_names, scaling.mode))

    def _source(self) -> NoiseSource:
        if self.insecure_noise_seed is not None:
            return insecure_seeded_noise(self.insecure_noise_seed)
        return system_noise()

    def _account(self, plan: Plan, method: Method | None = None) -> Account:
        """The account of a run; it is charged wherever the run's statements reach."""
        if self.ledger is None:
            return MemoryAccount()
        from taskveil.privacy.ledger import open_account

        also = method.also_protects(plan.budget) if method is not None else ()
        return open_account(self.ledger, self.account, plan, self.observer, also=also)

    def _run(self, method: Method, block: TaskBlock, public: PublicInfo, plan: Plan) -> RunRecord:
        account, source = self._account(plan, method), self._source()
        if plan.budget.epsilon is not None and plan.budget.variant == "sound" and hasattr(self.progress, "follow"):
            self.progress.follow(plan.spent_after)
        if self.runtime == "in_process":
            checkpoint = self._checkpoint(plan, public, block)
            journal = account if checkpoint is None else checkpoint.account(account)
            record = in_process.run(method, block, public, plan, journal, source, self.progress, checkpoint)
        elif self.runtime == "flower":
            from taskveil.runtime import thread_grid

            record = thread_grid.run(method, block, public, plan, account, source, self.progress)
        else:
            raise OptionError(f"runtime must be 'in_process', 'flower' or 'dask', got {self.runtime!r}")
        record.charged = getattr(account, "charged", None)
        return record

    def _checkpoint(self, plan: Plan, public: PublicInfo, block: TaskBlock | str) -> Any:
        if self.run_dir is None:
            return None
        from taskveil.runtime.checkpoint import Checkpoint

        return Checkpoint(self.run_dir, plan, public, block)

    def _keep(
        self, method: Method, tasks: TaskSet, scaling: Scaling, block: TaskBlock, record: RunRecord
    ) -> None:
        """Turn a finished run into fitted attributes."""
        models = record.models
        self.task_names_ = tasks.task_names
        self.feature_names_ = tasks.feature_names
        self.n_features_in_ = tasks.n_features
        self.classes_ = tasks.classes
        self.bounds_ = tasks.bounds  # declared and public; a new task scales by them too
        self.method_, self.scaling_, self.record_, self.models_ = method, scaling, record, models
        self.n_iter_ = record.rounds
        self.preparation_ = replace(self.preparation_, scaling=scaling.mode, own_target=scaling.own_target)
        self.certificate_ = certify.certificate(method, record, self.preparation_)
        self._training, self._tasks, self._gain = block, tasks, None  # for gain_, computed when asked for; never saved
        self._set_coefficients(method, scaling, models)

    def _set_coefficients(self, method: Method, scaling: Scaling, models: Models) -> None:
        if not method.linear:
            return
        coef, intercept = scaling.coef_back(models.coef, models.intercept)
        single = coef.shape[1] == 1
        self.coef_ = coef[:, 0] if single else coef
        self.intercept_ = intercept[:, 0] if single else intercept

    # ------------------------------------------------------------ predict

    def _predict_lazy(self, tasks: Any) -> Any:
        """A lazy frame of tasks and scores, for rows that are elsewhere."""
        from taskveil.estimators.partitioned import fit as partitioned

        check_is_fitted(self, "task_names_")
        return partitioned.predict_lazy(self, tasks)

    def _scores(self, X: Any, task: Any) -> np.ndarray:
        """Scores (rows, outputs) of every row under its own task's model, in the user's units."""
        check_is_fitted(self, "task_names_")
        rows = inputs.rows_of(X, task, inputs.column_there(X, self.task_column, self.task_names_), self.feature_names_)
        unnamed = task is None and inputs.column_there(X, self.task_column, self.task_names_) is None
        if unnamed and len(self.task_names_) == 1:
            rows = replace(rows, task=np.full(len(rows.task), self.task_names_[0], dtype=object))
        position = inputs.task_positions(rows.task, self.task_names_)
        rows = self._filled(rows, position)
        self._check_features(rows)
        if unnamed and (position < 0).all():
            raise DataError(
                f"which task does each row belong to? The model knows {len(self.task_names_)} tasks: give task=, one "
                "identifier per row"
            )
        if (position < 0).any():
            return self._scores_with_unknown(rows, position)
        return self._scores_at(rows.X, position)

    def _scores_at(self, X: np.ndarray, position: np.ndarray) -> np.ndarray:
        if hasattr(self.models_, "parts"):
            part, place = self.models_.take(position)  # type: ignore[attr-defined]
            return part.scores(X, place)
        if not self.method_.linear:
            scaled = self.scaling_._rows(X, position)
            scores = self.method_.predict_scores(self.record_, self.models_, scaled, position)
            return scores * self.scaling_.y_scale[position, None] + self.scaling_.y_shift[position, None]
        rows = self.scaling_.inputs(X, position)
        single = self.coef_.ndim == 2
        coef = self.coef_[:, None, :] if single else self.coef_
        intercept = self.intercept_[:, None] if single else self.intercept_
        return gathered_scores(rows, coef, intercept, position)

    def _scores_with_unknown(self, rows: inputs.Rows, position: np.ndarray) -> np.ndarray:
        known = position >= 0
        coef, intercept = newcomers.public_model(self, rows.task[~known])
        scores = np.empty((rows.X.shape[0], coef.shape[1]))
        if known.any():
            scores[known] = self._scores_at(rows.X[known], position[known])
        zeros = np.zeros(int((~known).sum()), dtype=np.int64)
        scores[~known] = gathered_scores(self.scaling_.inputs(rows.X[~known], zeros), coef, intercept, zeros)
        return scores

    def _filled(self, rows: inputs.Rows, position: np.ndarray) -> inputs.Rows:
        """Empty cells become the middle of the task's units: its own mean, or the middle of the declared range."""
        X = rows.X
        if self.missing == "error" or X.shape[1] != self.n_features_in_ or not np.isnan(X.sum()):
            return rows
        return replace(rows, X=np.where(np.isnan(X), self.scaling_.shift[np.maximum(position, 0)], X))

    def _check_features(self, rows: inputs.Rows) -> None:
        d = self.n_features_in_
        if rows.X.shape[1] != d:
            raise DataError(
                f"X has {rows.X.shape[1]} features, but {type(self).__name__} is expecting {d} features as input"
            )
        named = rows.feature_names is not None and self.feature_names_ != tuple(f"x{j}" for j in range(d))
        if named and rows.feature_names != self.feature_names_:
            missing = [n for n in self.feature_names_ if n not in (rows.feature_names or ())]
            detail = f"missing: {', '.join(missing[:5])}" if missing else "the same columns in another order"
            raise DataError(f"feature names differ from those seen in fit ({detail})")
        if not np.all(np.isfinite(rows.X)):
            raise DataError("Input X contains NaN or infinity: every cell must be a finite number")

    # -------------------------------------------------------------- gain

    @property
    def gain_(self) -> Gain:
        """Per task, from its own rows only: error alone, error shared, which was kept. Private to each task."""
        check_is_fitted(self, "task_names_")
        gain: Gain | None = getattr(self, "_gain", None)
        if gain is None and getattr(self, "_lazy", None) is not None:
            from taskveil.estimators.partitioned import fit as partitioned

            gain = self._gain = partitioned.gain(self)
        if gain is None:
            if getattr(self, "_training", None) is None:
                raise DataError("gain_ needs the training rows, which are never saved: ask for it before saving")
            gain = measure_gain(self.method_, self._training, self.record_, self.models_, self.task_names_)
            self._gain = gain = replace(gain, target_scale=self.scaling_.y_scale) if self._kind == "regression" else gain
        return gain

    def summary(self) -> str:
        """The run in words: outlook, certificate, gain, notes. For someone entitled to all rows."""
        from taskveil.estimators.summary import summary

        check_is_fitted(self, "task_names_")
        return summary(self)

    def adapt(self, X: Any, y: Any, name: str = "new task") -> TaskEstimator:
        """A model for a task that was not there at training: from the public billboards and its own rows.

        Nothing is sent, so it costs no privacy. Linear methods only.

        Parameters
        ----------
        X : array of shape (n_rows, n_features) or DataFrame
        y : array of shape (n_rows,)
        name : str, default="new task"

        Returns
        -------
        TaskRegressor or TaskClassifier
            Knows this one task and what is public: no other task's model, state or schedule goes with it.
        """
        check_is_fitted(self, "task_names_")
        return newcomers.adapt(self, X, y, name)

    # -------------------------------------------------------- save, load

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copies: fitted attributes, without training rows and without what tasks remembered in the run."""
        state = dict(super().__getstate__())
        state.pop("_lazy", None)  # rows on a cluster
        if state.get("_training") is not None:
            if self.method_.linear or "error_alone" in self.models_.extra:
                state["_gain"] = self.gain_  # needs the rows, so it is measured before they go
            del state["_training"], state["_tasks"]
            state["record_"] = self.record_.without_states()
        if not (self.person is None or isinstance(self.person, str)):
            state["person"] = None  # one name for every training row
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
        from taskveil.estimators.storage import save

        check_is_fitted(self, "task_names_")
        return save(self, directory)


def unusual_tasks(tasks: TaskSet, block: TaskBlock) -> list[str]:
    """Constant columns, one-row and one-class tasks: normal, but worth a word to the owner of all rows."""
    notes = [*tasks.notes, *(f.note() for f in tasks.facts)]
    names = np.asarray(tasks.task_names, dtype=object)
    aside = np.asarray(tasks.set_aside, dtype=object)
    if aside.size:
        notes.append(f"{aside.size} task(s): {_some(aside)}: {SET_ASIDE}")
    if tasks.n_tasks == 1:
        notes.append("there is only one task, so it learns alone; say which row belongs to which task (task=, task_column=)")
    single = names[tasks.sizes == 1]
    if single.size:
        notes.append(f"{single.size} task(s) with a single row use the shared or a constant model: {_some(single)}")
    if tasks.kind == "classification":
        top = np.abs(block.sums_by_task(block.y)).max(axis=1) if block.n_outputs == 1 else None
        one_class = names[(top == tasks.sizes) & (tasks.sizes > 0)] if top is not None else names[:0]
        if one_class.size:
            notes.append(f"{one_class.size} task(s) with a single class use the shared or a constant model: {_some(one_class)}")
    constant = _constant_columns(block)
    if constant:
        notes.append(f"{constant} (task, column) pair(s) are constant; their coefficients come from the shared structure")
    return notes


def _constant_columns(block: TaskBlock) -> int:
    """How many (task, column) pairs have no spread; two passes, no copy of X."""
    several = block.sizes > 1
    starts = block.offsets[:-1][block.sizes > 0]
    if starts.size == 0:
        return 0
    same = np.maximum.reduceat(block.X, starts, axis=0) == np.minimum.reduceat(block.X, starts, axis=0)
    return int(same[several[block.sizes > 0]].sum())


def _some(names: np.ndarray, count: int = 3) -> str:
    shown = ", ".join(str(n) for n in names[:count])
    return shown + (f" and {names.size - count} more" if names.size > count else "")
