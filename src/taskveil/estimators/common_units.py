"""The units of a run: which ones it works in, outer ranges before common ones are bought, and what was released at the end.

`settle` goes from the models of a run to those tasks keep: in their units, and of each task the better one, by its own rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.estimators import certify
from taskveil.estimators.choice import Evidence, keep_the_better
from taskveil.methods.base import Method
from taskveil.methods.common_scale import CommonScale, in_best_units, units_for
from taskveil.methods.common_units import in_common_units
from taskveil.runtime.run import RunRecord
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import Scaling, fit_scaling
from taskveil.tasks.task import TaskSet

NOT_BOUGHT = (
    "scaling='private' was not bought: with this budget and these sizes its noise would be too large, so {instead} and the whole "
    "budget goes to the method"
)


def outer_scaling(tasks: TaskSet, unit: str, private: bool = True, loss: str | None = None) -> Scaling:
    """The units rows come in before common ones are known: declared ranges where single rows are protected, else the user's."""
    if unit == "task" or not private:
        return fit_scaling(tasks, "none", private=private, loss=loss)
    if tasks.bounds is None or (tasks.kind != "classification" and tasks.bounds.target is None):
        raise OptionError(
            "scaling='private' with unit='record' needs declared outer ranges of features and target: pass bounds= (wide "
            "ones will do, the released scale refines them)"
        )
    return fit_scaling(tasks, "declared", private=private, loss=loss)


def instead(tasks: TaskSet, unit: str, private: bool, loss: str | None) -> tuple[Scaling, str]:
    """What is used where common units are not worth their price, and the words for it."""
    if unit == "task":
        scaling = fit_scaling(tasks, "own", private=private, loss=loss)
        return scaling, NOT_BOUGHT.format(instead="every task scales by its own statistics")
    return outer_scaling(tasks, unit, private, loss), NOT_BOUGHT.format(instead="the declared ranges are used")


def units_of(block: TaskBlock, outer: Scaling, record: RunRecord) -> tuple[Scaling, TaskBlock]:
    """The whole way from the user's units to common ones, and the rows of `block` (in outer units) in them."""
    released = units_for(record.plan.budget).scaling(block, record.billboards[-1].values, record.public.loss)
    return _composed(outer, released), in_common_units(block, released)


def settle_units(block: TaskBlock, outer: Scaling, record: RunRecord) -> tuple[Scaling, TaskBlock]:
    """The same, and the record's models expressed in common units: what is compared and kept later is in them."""
    released = units_for(record.plan.budget).scaling(block, record.billboards[-1].values, record.public.loss)
    coef, intercept = released.coef_in(record.models.coef, record.models.intercept)
    record.models = replace(record.models, coef=coef, intercept=intercept)
    return _composed(outer, released), in_common_units(block, released)


def _composed(outer: Scaling, released: Scaling) -> Scaling:
    """First `outer`, then `released`."""
    return Scaling(
        "private",
        np.asarray(outer.shift + outer.scale * released.shift),
        np.asarray(outer.scale * released.scale),
        outer.y_shift + outer.y_scale * released.y_shift,
        outer.y_scale * released.y_scale,
        own_target=outer.own_target,
        link=outer.link,
    )


def chosen_units(estimator: Any, tasks: TaskSet, weights: np.ndarray | None = None) -> tuple[Method, Scaling, list[str]]:
    """The method, how its rows are scaled, and what the user should know about that."""
    method, private = estimator._method(tasks), estimator.epsilon is not None
    unit = str(estimator.unit) if private else "task"  # without privacy no unit is protected
    if estimator.prior is not None:  # what others know is in units every task has: its own, or declared ones
        method = method.in_own_units()
    if estimator.scaling != "private":
        scaling = estimator._scaling(tasks, weights)
        free = estimator.scaling == "auto" and estimator.prior is None and unit == "task"
        if free and scaling.mode in ("own", "declared") and method.common_units:
            return _in_best_units(estimator, method, scaling, tasks)
        return method.in_own_units() if scaling.mode == "own" else method, scaling, []
    if estimator.normalise is not None:
        raise OptionError("scaling='private' does not go with normalise='row'; leave one of them out")
    bought = CommonScale(method, estimator.scaling_share)
    outer = outer_scaling(tasks, unit, private, estimator._loss)
    budget = bought.adjust(estimator._budget(tasks))
    public = estimator._public(tasks, outer, TaskBlock.from_tasks(tasks))
    bought.check(public, budget)
    if bought.affordable(public, budget):
        return bought, outer, []
    scaling, why = instead(tasks, unit, private, estimator._loss)
    return method.in_own_units(), scaling, [why]


def _in_best_units(estimator: Any, method: Method, scaling: Scaling, tasks: TaskSet) -> tuple[Method, Scaling, list[str]]:
    """Common units where the method gains by them and can afford them, else the given ones."""
    outer = outer_scaling(tasks, "task", estimator.epsilon is not None, estimator._loss)
    budget = method.adjust(estimator._budget(tasks))
    public = estimator._public(tasks, outer, TaskBlock.from_tasks(tasks))
    best = in_best_units(method, public, budget)
    return best, outer if isinstance(best, CommonScale) else scaling, []


def settle(
    method: Method,
    scaling: Scaling,
    block: TaskBlock,
    record: RunRecord,
    told: Evidence | None = None,
    of_all: np.ndarray | None = None,
) -> tuple[Scaling, TaskBlock]:
    """The units the record's models are in, and the rows in them; `record.models` becomes what the tasks keep.

    `told` and `of_all`: what held-out rows of these tasks and of all said, where that is known (choice.py).
    """
    if isinstance(method, CommonScale):
        scaling, block = settle_units(block, scaling, record)
    if weighs(method, record, scaling.data_dependent):
        record.models = keep_the_better(method, block, record, told, of_all)
    return scaling, block


def weighs(method: Method, record: RunRecord, data_dependent: bool) -> bool:
    """Whether tasks weigh what the method made of them against learning alone, and the method leaves that to them."""
    budget = record.plan.budget
    # for the public nothing but releases may enter a model
    public = "public" in certify.observers(method, record, data_dependent)
    settled = method.chooses(budget) or method.shares_nothing or public or record.rounds == 0
    asked_for = budget.epsilon is None and bool(method.changed())
    return budget.variant == "sound" and method.linear and not settled and not asked_for
