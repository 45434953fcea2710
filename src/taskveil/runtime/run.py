"""A run: assembled in one place, from options and public sizes to method, budget and plan, and what it leaves behind.

    budget_for(...)                       what may be spent; what was left out follows from public sizes
    assemble(method, public, budget)      the method as it protects this unit, the budget as it spends it, its plan

Estimators, `plan`, federations and audits call these two, so that they cannot disagree about what a run costs. Nothing here has
seen a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from taskveil.errors import OptionError
from taskveil.methods.base import Billboard, Method, Models, PublicInfo, State
from taskveil.methods.common_scale import in_best_units
from taskveil.methods.public_prior import PublicPrior
from taskveil.privacy.guarantees import check_new_delta
from taskveil.privacy.per_task import epsilons_of
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, make_plan
from taskveil.privacy.planned import spent_share
from taskveil.privacy.randomness import NoiseSource, system_noise
from taskveil.privacy.release import Account, MemoryAccount
from taskveil.privacy.secure_options import SecureOptions


def agreed_beforehand(plan: Plan) -> Plan:
    """The plan, where sites agree on every release before the run; a refusal where releases are chosen as it goes on."""
    if plan.total is not None:
        raise OptionError("the sites of a federation agree on every release beforehand; use spending='fixed'")
    return plan


SOME = 0.01  # of a total, below which it counts as used up


@dataclass
class RunRecord:
    """What a run leaves behind: models, public billboards, what was charged, and how it went."""

    models: Models
    billboards: list[Billboard]  # public; replayed for new tasks and held-out rows
    plan: Plan
    public: PublicInfo
    executed: list[PlannedRelease]  # what was charged, in order
    randomness: dict[str, Any]
    schedule: list[Any] = field(default_factory=list)  # who was asked in each round
    seconds: float = 0.0
    state: State = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what to know besides
    extra: dict[str, Any] = field(default_factory=dict)
    charged: dict[str, str] | None = None  # account and run in the ledger, where there is one
    canaries: int = 0  # of the tasks of `public`, those of a one-run audit: no models are kept of them
    search: tuple[Plan, dict[str, Any]] | None = None  # plan and randomness of the private search this run won

    @property
    def rounds(self) -> int:
        return self.billboards[-1].round

    def without_states(self) -> RunRecord:
        """What may be kept: models and what is public. States, cohorts and arrivals were private and are used up."""
        return replace(self, state={}, schedule=[], extra={})

    def for_newcomer(self, models: Models) -> RunRecord:
        """What a task that was not there may have: its own models, the plan, and billboards without parts for single tasks."""
        cut = {id(b): replace(b, values=b.common(), per_task=frozenset(), accepted=None) for b in self.billboards}
        boards = [cut[id(b)] for b in self.billboards]
        return replace(self.without_states(), models=models, billboards=boards, seconds=0.0, warnings=[])


def executed_releases(ids: Iterable[str], planned: Mapping[str, PlannedRelease]) -> list[PlannedRelease]:
    """What was charged, from the ids in order: a release that was made again costs what it costs to make it again."""
    earlier: set[str] = set()
    releases = []
    for one in ids:
        releases.append(replace(planned[one], event=planned[one].event.made_again()) if one in earlier else planned[one])
        earlier.add(one)
    return releases


def unspent_words(plan: Plan, executed: Sequence[PlannedRelease], returned: bool | None) -> list[str]:
    """What became of a total that was not used up; `returned`: whether the ledger took it back (None: there is none)."""
    if plan.total is None:
        return []
    left = max(0.0, 1.0 - spent_share(plan, executed))
    if left < SOME:
        return []
    where = {
        True: "was returned", False: "was not used, but stays charged: this account adds epsilons", None: "was not used",
    }[returned]  # fmt: skip
    return [f"nothing in common showed: {left:.0%} of the budget {where}. The certificate states the total".replace("%", " %")]


Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Run:
    """What is run and who pays: everything a runtime needs but the rows."""

    method: Method
    public: PublicInfo
    plan: Plan
    account: Account = field(default_factory=MemoryAccount)
    source: NoiseSource = field(default_factory=system_noise)
    progress: Progress | None = None

    @property
    def budget(self) -> Budget:
        return self.plan.budget

    def paid_by(self, account: Account, source: NoiseSource | None = None, progress: Progress | None = None) -> Run:
        """The same run on another account."""
        return replace(self, account=account, source=source or self.source, progress=progress)


def assemble(
    method: Method,
    public: PublicInfo,
    budget: Budget,
    *,
    best_units: bool = False,
    prior: Callable[[PublicInfo], PublicPrior] | None = None,
) -> Run:
    """The run these options mean, or a refusal. `best_units`: common units are bought where that pays; `prior` reads one."""
    method = method.under(str(budget.unit), budget.variant)
    budget = method.adjust(budget)
    if best_units:
        method = in_best_units(method, public, budget)
    if prior is not None:
        if not method.weighs_prior(budget):
            raise OptionError(f"method {method.name!r} weighs no prior with these options; use 'subspace', 'mean' or 'low-rank'")
        public = replace(public, prior=prior(public))
    method.check(public, budget)
    return Run(method, public, make_plan(method.requests(public, budget), budget, method.policy(public, budget)))


def budget_for(
    n_tasks: int,
    n_rows: int,
    *,
    epsilon: float | Mapping[str, float] | None,
    delta: float | None = None,
    unit: str = "task",
    aggregation: str = "curator",
    secure: Mapping[str, Any] | None = None,
    task_names: Iterable[Any] = (),
    sites: Sequence[int] | None = None,
    **named: Any,
) -> Budget:
    """What may be spent. `n_rows` counts where the unit is the record; `sites`: tasks of every site, where known."""
    if secure and aggregation != "secure":  # whoever names colluders must not get a server that sees every message
        raise OptionError(f"secure options go with aggregation 'secure'; got aggregation {aggregation!r}. Leave one of them out.")
    each = epsilons_of(epsilon, task_names) if isinstance(epsilon, Mapping) else None
    largest = max(each) if each is not None else epsilon
    shared = aggregation == "secure" and largest is not None
    return Budget(
        largest,  # type: ignore[arg-type]
        check_new_delta(default_delta(unit, n_rows if unit == "record" else n_tasks) if delta is None else delta),
        unit,  # type: ignore[arg-type]
        aggregation=aggregation,
        secure=SecureOptions.parse(n_tasks, secure, sites=sites) if shared else None,
        task_epsilons=each,
        **named,
    )


def default_delta(unit: str, units: int) -> float:
    """Delta where none was asked for: far below one over the number of protected units."""
    return min(1e-5 if unit == "task" else 1e-6, 1 / (10 * max(units, 1)))
