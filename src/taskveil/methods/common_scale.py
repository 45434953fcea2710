"""A common centre and scale for every column, released before the method's own rounds: `scaling="private"`.

Tasks of three rows cannot scale by their own statistics, and tasks that do have no units in common. Here a declared share of
the budget buys common ones (docs/theory/preparation.md#common-scale), in front of any method's releases:

    rounds 1 to k  statistics of rows, bounded, charged and noised like every release (units_of_tasks.py, units_of_records.py)
    then           the method itself, on rows (x - centre) / scale, its rounds counted from 1

**Privacy.** The plan is one plan, so the total is the budget. Messages are clipped whatever the rows are; what follows are
functions of rows and billboards: adaptive composition.

**Price.** `share` of the budget: of rho for Gaussian noise, of epsilon for pure noise. Whether it can pay is a public question,
asked before anything is bought (`affordable`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods.base import (
    Billboard,
    Disclosure,
    Message,
    Method,
    Models,
    PublicInfo,
    ServerSide,
    State,
    TaskSide,
    View,
    merge_states,
)
from taskveil.methods.common_units import PUBLISHED, CommonUnits, Units, in_common_units
from taskveil.methods.local import alone_models
from taskveil.methods.units_of_records import RecordUnits
from taskveil.methods.units_of_tasks import TaskUnits
from taskveil.privacy.plan import Budget, Plan, Request, charged, make_plan
from taskveil.privacy.units import Unit
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import Scaling

SHARES = (0.1, 0.2, 0.4)  # of the budget that a method may pay which gains by common units; the least that will do
INHERITED = ("name", "variants", "units", "kinds", "losses", "aggregations", "reference", "linear", "schedule", "shares_nothing")


class CommonScale(Method):
    """Any method with common units bought first. Named after the method inside: it is what the user asked for."""

    def __init__(self, inner: Method, share: float = 0.1):
        self.inner, self.share = inner, share
        for name in INHERITED:
            setattr(self, name, getattr(inner, name))

    def set_params(self, **options: Any) -> CommonScale:
        """Options of the method inside, by their own names."""
        self.inner.set_params(**options)
        return self

    def adjust(self, budget: Budget) -> Budget:
        return self.inner.adjust(budget)

    def check(self, public: PublicInfo, budget: Budget) -> None:
        self.inner.check(public, budget)
        if budget.variant != "sound":
            raise OptionError("scaling='private' needs variant='sound'; what a paper prints has no such release")
        if self.inner.policy(public, budget):
            raise OptionError("scaling='private' does not go with spending='adaptive'; use 'own' or 'declared'")
        if not self.linear or self.schedule == "asynchronous":
            raise OptionError(f"scaling='private' does not go with method {self.name!r}; use 'own' or 'declared'")

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        """Releases worth `share` of the budget, then the method's own."""
        self.check(public, budget)
        own = list(self.inner.requests(public, budget))
        if any(request.most is not None for request in own):
            raise OptionError("scaling='private' does not go with a cap on participations; leave participations= out")
        power = 1 if budget.delta == 0 else 2  # pure epsilons add up, precisions add up squared
        paid = [r.weight * (r.rate or 1.0) for r, costs in zip(own, charged(own), strict=True) if costs] or [1.0]
        bought = self.share / (1.0 - self.share) * sum(weight**power for weight in paid)
        units = units_for(budget)
        first = units.requests(public, lambda part: (part * bought) ** (1 / power))
        return [*first, *(replace(request, round=request.round + units.rounds) for request in own)]

    def affordable(self, public: PublicInfo, budget: Budget) -> bool:
        """Whether common units would be precise enough to be of use: from public sizes alone."""
        if self.shares_nothing:
            return False
        return units_for(budget).worth_buying(make_plan(self.requests(public, budget), budget), public)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        if isinstance(block, CommonUnits):
            return self.inner.task_side(block, public, own_plan(plan))
        return CommonScaleTasks(self.inner, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return CommonScaleServer(self.inner.server_side(public, own_plan(plan)), public, plan)

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        """For rows in common units: the method's own billboards."""
        rounds = units_for(plan.budget).rounds
        return self.inner.replayed([own_board(b, rounds) for b in billboards if b.round >= rounds], own_plan(plan))

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        return self.inner.shared_model(public, own_plan(plan), own_board(billboard, units_for(plan.budget).rounds))

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        bought = [p.name for p in plan.releases if p.round <= units_for(plan.budget).rounds]
        else_ = "a task uses its own, which is never sent" if plan.budget.unit is Unit.TASK else "its declared range is used"
        what = "features and target" if public.number_target else "features"
        assumption = (
            f"{what} are scaled by a centre and a scale common to all tasks, released and charged like every release "
            f"({', '.join(bought)}); where none was found {else_}"
        )
        inner = self.inner.disclosure(public, own_plan(plan))
        own_units = plan.budget.unit is Unit.TASK  # may be in a finished model, which therefore is no release
        observers = tuple(o for o in inner.observers if not (own_units and o == "public"))
        return replace(inner, assumptions=(assumption, *inner.assumptions), observers=observers)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return self.inner.ranges(public)

    def chooses(self, budget: Budget) -> bool:
        return self.inner.chooses(budget)


def in_best_units(method: Method, public: PublicInfo, budget: Budget) -> Method:
    """The method with common units bought first where it gains by them and can afford them, else for units of its tasks' own."""
    if not (method.common_units and method.gains_by_common_units(public, budget)):
        return method.in_own_units()
    bought = (CommonScale(method, share) for share in SHARES)
    return next((m for m in bought if m.affordable(public, budget)), method)


def units_for(budget: Budget) -> Units:
    """How common units are found without showing the protected unit; without privacy none is."""
    return RecordUnits() if budget.unit is Unit.RECORD and budget.epsilon is not None else TaskUnits()


def own_plan(plan: Plan) -> Plan:
    """The plan as the method inside sees it: its own releases, its own rounds."""
    first = units_for(plan.budget).rounds
    return Plan(tuple(replace(p, round=p.round - first) for p in plan.releases if p.round > first), plan.budget)


def own_board(board: Billboard, rounds: int) -> Billboard:
    """The billboard as the method inside sees it."""
    values = {name: value for name, value in board.values.items() if name not in PUBLISHED}
    return replace(board, round=board.round - rounds, values=values)


class CommonScaleTasks(TaskSide):
    """Statistics in the first rounds; then the method's own task side on rescaled rows. Its state is the method's."""

    merges_inactive = True

    def __init__(self, inner: Method, block: TaskBlock, public: PublicInfo, plan: Plan):
        self.inner, self.block, self.public, self.plan = inner, block, public, own_plan(plan)
        self.whole_plan = plan
        self.units = units_for(plan.budget)
        self._made: tuple[bytes, TaskSide, Scaling] | None = None

    def step(self, state: State, view: View) -> tuple[State, Message]:
        if view.round < self.units.rounds:
            return state, self.units.message(self.block, view, self.public, self.whole_plan)
        side, _ = self._side(view)
        state = state or side.start()
        new, message = side.step(state, self._own(view))
        if view.active is not None and not side.merges_inactive:
            new = merge_states(state, new, view.active)
        return new, message

    def finish(self, state: State, view: View) -> Models:
        side, scaling = self._side(view)
        if view.round < self.units.rounds:  # the run ended early: the method has published nothing
            models = alone_models(in_common_units(self.block, scaling), self.public)
        else:
            models = side.finish(state or side.start(), self._own(view))
        coef, intercept = scaling.coef_back(models.coef, models.intercept)
        return replace(models, coef=coef, intercept=intercept)

    def _side(self, view: View) -> tuple[TaskSide, Scaling]:
        """The method's task side for the units of this view; they stay the same for the rest of a run."""
        key = b"".join(np.ascontiguousarray(view[name]).tobytes() for name in PUBLISHED)
        if self._made is None or self._made[0] != key:
            scaling = self.units.scaling(self.block, view.values, self.public.loss)
            side = self.inner.task_side(in_common_units(self.block, scaling), self.public, self.plan)
            self._made = key, side, scaling
        return self._made[1:]

    def _own(self, view: View) -> View:
        values = {name: value for name, value in view.values.items() if name not in PUBLISHED}
        accepted = None if view.round == self.units.rounds else view.accepted
        return replace(view, round=view.round - self.units.rounds, values=values, accepted=accepted)


class CommonScaleServer(ServerSide):
    """Units from noisy sums, then the method's own server, whose state stands beside them."""

    def __init__(self, inner: ServerSide, public: PublicInfo, plan: Plan):
        self.inner, self.public, self.plan, self.units = inner, public, plan, units_for(plan.budget)
        self.settled = self.units.rounds + inner.settled

    def start(self) -> tuple[State, Billboard]:
        values = self.units.nothing(self.public)
        return {"round": np.array(0), **values}, Billboard(0, values)

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t, values = int(state["round"]) + 1, {name: state[name] for name in PUBLISHED}
        if t <= self.units.rounds:
            values = self.units.publish(releases, values, self.public, self.plan)
        if t < self.units.rounds:
            return {"round": np.array(t), **values}, Billboard(t, values, accepted=accepted)
        if t == self.units.rounds:
            inner, board = self.inner.start()
        else:
            before = {name.removeprefix("inner/"): value for name, value in state.items() if name.startswith("inner/")}
            inner, board = self.inner.step(before, releases, accepted)
        after = {f"inner/{name}": value for name, value in inner.items()}
        shown = replace(board, round=t, values={**board.values, **values}, accepted=accepted)
        return {"round": np.array(t), **values, **after}, shown
