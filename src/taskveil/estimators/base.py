"""The estimator: from rows to personal models and a certificate, with scikit-learn's habits.

fit = read tasks -> scale -> plan from public sizes -> reserve -> run the loop -> choose shared or alone -> certify.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from taskveil.errors import DataError, OptionError
from taskveil.estimators import certify, common_units, inputs
from taskveil.estimators.gain import Gain, keep_the_better, measure_gain
from taskveil.estimators.parameters import check_parameters
from taskveil.estimators.prior import read_prior
from taskveil.methods.base import Method, Models, PublicInfo
from taskveil.methods.common_scale import CommonScale
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
from taskveil.tasks.prepare.scaling import Scaling, fit_scaling
from taskveil.tasks.prepare.step import PrepareRules, choose_scaling, prepare_tasks
from taskveil.tasks.prepare.unusable import SET_ASIDE
from taskveil.tasks.task import TaskSet


class TaskEstimator(BaseEstimator):
    """What TaskRegressor and TaskClassifier share. See those for the parameters."""

    _kind = ""
    classes_: Any
    _gain: Gain | None

    def __init__(
        self,
        method: Any = "subspace",
        *,
        epsilon: float | Mapping[str, float] | None = 1.0,
        delta: float | None = None,
        unit: str = "task",
        neighbours: str = "replace-one",
        observer: str = "other-tasks",
        variant: str = "sound",
        mechanism: str | None = None,
        accountant: str | None = None,
        aggregation: str = "curator",
        secure: dict[str, Any] | None = None,
        bounds: Any = None,
        scaling: str = "auto",
        scaling_share: float = 0.1,
        prior: Any = None,
        normalise: str | None = None,
        fit_intercept: bool = True,
        task_column: Any = None,
        person: Any = None,
        unknown: str = "error",
        strict: bool = False,
        seed: int | None = None,
        insecure_noise_seed: int | None = None,
        ledger: Any = None,
        account: str | None = None,
        runtime: str = "in_process",
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
        self.fit_intercept = fit_intercept
        self.task_column = task_column
        self.person = person
        self.unknown = unknown
        self.strict = strict
        self.seed = seed
        self.insecure_noise_seed = insecure_noise_seed
        self.ledger = ledger
        self.account = account
        self.runtime = runtime
        self.run_dir = run_dir
        self.progress = progress

    def set_params(self, **params: Any) -> TaskEstimator:
        """As in scikit-learn; `method__rounds=...` also where the method was given by name."""
        if isinstance(self.method, str) and "method" not in params and any(name.startswith("method__") for name in params):
            from taskveil import methods

            self.method = methods.get(self.method)
        super().set_params(**params)
        return self

    # ---------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None) -> TaskEstimator:
        """Train a model for every task. `task` holds one identifier per row; or pass a TaskSet, or set task_column."""
        if sample_weight is not None:
            raise OptionError(
                "sample_weight is refused: weights derived from data break the sensitivity bound, and uniform weights "
                "are the only ones the certificate covers. Leave it out."
            )
        check_parameters(self)
        rules = self._rules()
        tasks = inputs.tasks_of(X, y, task, self.task_column, self._kind, self.bounds, self.person, rules.unusable)
        method, scaling, notes = self._prepared(tasks)
        reuse = not isinstance(X, TaskSet) and inputs.was_sorted(tasks)
        prepared = prepare_tasks(tasks, rules, scaling=scaling, reuse=reuse)
        block = prepared.own.block
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
        with small_matrix_threads(block.n_features):  # thousands of small problems: BLAS threads only wait
            record = self._run(method, block, public, plan)
            self.warnings_ += record.warnings
            if isinstance(method, CommonScale):
                scaling, block = common_units.settle_units(block, scaling, record)
            self._keep(method, tasks, scaling, block, record)
        return self

    def _method(self) -> Method:
        from taskveil import methods

        if isinstance(self.method, str):
            return methods.get(self.method).under(self.unit)
        if not isinstance(self.method, Method):
            raise OptionError(
                f"method must be a name ({', '.join(methods.names())}) or a Method object, got {type(self.method).__name__}"
            )
        return self.method.under(self.unit)

    def _budget(self, tasks: TaskSet) -> Budget:
        unit, delta = Unit(self.unit), self.delta
        if delta is None:
            size = tasks.n_tasks if unit is Unit.TASK else tasks.n_rows
            delta = min(1e-5 if unit is Unit.TASK else 1e-6, 1 / (10 * size))
        one, each = self.epsilon, None
        if isinstance(one, Mapping):
            each = epsilons_of(one, tasks.task_names)
            one = max(each)
        return Budget(
            epsilon=one,
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

    def _scaling(self, tasks: TaskSet) -> Scaling:
        return choose_scaling(tasks, self._rules())

    def _prepared(self, tasks: TaskSet) -> tuple[Method, Scaling, list[str]]:
        """The method, how its rows are scaled, and what the user should know about that."""
        method = self._method()
        if self.scaling != "private":
            return method, self._scaling(tasks), []
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
        return method, scaling, [why]

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
            seed=self.seed,
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
            raise OptionError(f"runtime must be 'in_process' or 'flower', got {self.runtime!r}")
        record.charged = getattr(account, "charged", None)
        return record

    def _checkpoint(self, plan: Plan, public: PublicInfo, block: TaskBlock) -> Any:
        if self.run_dir is None:
            return None
        from taskveil.runtime.checkpoint import Checkpoint

        return Checkpoint(self.run_dir, plan, public, block)

    def _keep(
        self, method: Method, tasks: TaskSet, scaling: Scaling, block: TaskBlock, record: RunRecord
    ) -> None:
        """Turn a finished run into fitted attributes."""
        models = record.models
        private = record.plan.budget.epsilon is not None and record.plan.budget.variant == "sound"
        # for the public nothing but releases may enter a model
        public = "public" in certify.observers(method=method, budget=record.plan.budget, own_units=scaling.data_dependent)
        settled = method.chooses(record.plan.budget) or method.shares_nothing or public or record.rounds == 0
        if private and method.linear and not settled:
            models = keep_the_better(method, block, record)
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

    def _scores(self, X: Any, task: Any) -> np.ndarray:
        """Scores (rows, outputs) of every row under its own task's model, in the user's units."""
        check_is_fitted(self, "task_names_")
        rows = inputs.rows_of(X, task, self.task_column, self.feature_names_)
        unnamed = task is None and self.task_column is None
        if unnamed and len(self.task_names_) == 1:
            rows = replace(rows, task=np.full(len(rows.task), self.task_names_[0], dtype=object))
        self._check_features(rows)
        position = inputs.task_positions(rows.task, self.task_names_)
        if unnamed and (position < 0).all():
            raise DataError(
                f"which task does each row belong to? The model knows {len(self.task_names_)} tasks: give task=, one "
                "identifier per row"
            )
        if (position < 0).any():
            return self._scores_with_unknown(rows, position)
        return self._scores_at(rows.X, position)

    def _scores_at(self, X: np.ndarray, position: np.ndarray) -> np.ndarray:
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
        unknown = sorted({str(v) for v in np.unique(rows.task[position < 0])})
        shown = ", ".join(unknown[:5]) + (" ..." if len(unknown) > 5 else "")
        if self.unknown != "billboard":
            raise DataError(
                f"unknown task {shown}: the model was trained on {len(self.task_names_)} other tasks. "
                "Train a model for it with adapt(X, y), or set unknown='billboard' to use what is public."
            )
        shared = self.method_.shared_model(self.record_.public, self.record_.plan, self.record_.billboards[-1])
        if shared is None or self.scaling_.mode == "own":
            raise DataError(
                f"unknown task {shown}: the billboard of method {self.method_.name!r} "
                f"(scaling {self.scaling_.mode!r}) holds no model that fits a task without rows of its own. "
                "Use adapt(X, y) with some of its rows, or train with declared bounds and method='mean'."
            )
        coef, intercept = self.scaling_.take([0]).coef_back(shared.coef[:1], shared.intercept[:1])
        scores = np.empty((rows.X.shape[0], coef.shape[1]))
        known = position >= 0
        if known.any():
            scores[known] = self._scores_at(rows.X[known], position[known])
        zeros = np.zeros(int((~known).sum()), dtype=np.int64)
        scores[~known] = gathered_scores(self.scaling_.inputs(rows.X[~known], zeros), coef, intercept, zeros)
        return scores

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
        if gain is None:
            if getattr(self, "_training", None) is None:
                raise DataError("gain_ needs the training rows, which are never saved: ask for it before saving")
            gain = self._gain = measure_gain(self.method_, self._training, self.record_, self.models_, self.task_names_)
        return gain

    def adapt(self, X: Any, y: Any, name: str = "new task") -> TaskEstimator:
        """A model for a task that was not there at training: from the public billboards and its own rows.

        Nothing is sent, so it costs no privacy. Returns an estimator that knows this one task and what is public: no
        other task's model, state or schedule goes with it.
        """
        check_is_fitted(self, "task_names_")
        if not self.method_.linear:
            raise OptionError(f"adapt is for linear methods; {self.method_.name!r} has other models")
        rows = inputs.rows_of(X, np.full(len(X), name), None, self.feature_names_)
        self._check_features(rows)
        tasks = TaskSet.from_arrays(
            rows.X, inputs._target(y, self._kind), rows.task, feature_names=self.feature_names_, kind=self._kind,
            classes=self.classes_, bounds=inputs.as_bounds(self.bounds) or getattr(self, "bounds_", None),
        )
        if self.scaling_.mode == "private":
            outer = common_units.outer_scaling(tasks, self.unit)
            scaling, block = common_units.units_of(outer.apply(tasks), outer, self.record_)
        else:
            scaling = fit_scaling(tasks, self.scaling_.mode, normalise=self.normalise, private=self.epsilon is not None)
            block = scaling.apply(tasks)
        models = in_process.replay(self.method_, block, self.record_.public, self.record_.plan, self.record_.billboards)
        adapted = type(self)(**self.get_params(deep=False))
        adapted.task_names_, adapted.feature_names_ = tasks.task_names, self.feature_names_
        adapted.n_features_in_, adapted.classes_, adapted.bounds_ = self.n_features_in_, self.classes_, tasks.bounds
        adapted.preparation_, adapted.task_warnings_ = self.preparation_, {}
        adapted.method_, adapted.scaling_, adapted.models_ = self.method_, scaling, models
        adapted.record_ = self.record_.for_newcomer(models)
        adapted.n_iter_, adapted.certificate_, adapted.warnings_ = self.n_iter_, self.certificate_, []
        adapted._gain = measure_gain(self.method_, block, self.record_, models, tasks.task_names)
        adapted._set_coefficients(self.method_, scaling, models)
        return adapted

    # -------------------------------------------------------- save, load

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copies: fitted attributes, without training rows and without what tasks remembered in the run."""
        state = dict(super().__getstate__())
        if state.get("_training") is not None:
            if self.method_.linear or "error_alone" in self.models_.extra:
                state["_gain"] = self.gain_  # needs the rows, so it is measured before they go
            del state["_training"], state["_tasks"]
            state["record_"] = self.record_.without_states()
        if not (self.person is None or isinstance(self.person, str)):
            state["person"] = None  # one name for every training row
        return state

    def save(self, directory: str | Path) -> Path:
        """Write models, billboards and certificate: npz and JSON, never pickle."""
        from taskveil.estimators.storage import save

        check_is_fitted(self, "task_names_")
        return save(self, directory)


def gathered_scores(
    X: np.ndarray, coef: np.ndarray, intercept: np.ndarray, position: np.ndarray
) -> np.ndarray:
    """x'w + b with each row's own model, a chunk of rows at a time to bound memory."""
    scores = np.empty((X.shape[0], coef.shape[1]))
    for start in range(0, X.shape[0], 65536):
        part = slice(start, start + 65536)
        of = position[part]
        scores[part] = np.einsum("nd,nrd->nr", X[part], coef[of]) + intercept[of]
    return scores


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
