"""What a method is: a plan of releases, what one task does, what the server does.

    local step at each task -> bounded message -> aggregate + noise (a release) -> billboard -> local step ...

A method says *what* is summed (requests, from public sizes only), what a block of tasks sends (`TaskSide`) and what the
server makes of the noisy sums (`ServerSide`). It never clips, draws noise or charges: the runtime does, through
`taskveil.privacy`. Whatever a task side computes from the public billboards and its own rows belongs to that task; it
leaves only inside the next clipped message.

Shapes      W (tasks, outputs, features), intercepts (tasks, outputs). Regression and binary targets have one output,
            k classes have k one-against-the-rest outputs.
State       a dict of arrays whose first axis runs over the tasks of the block, so that it can be checkpointed, sent back
            to an earlier version when a message was dropped, and cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np

from taskveil.checks import Rule
from taskveil.errors import OptionError
from taskveil.losses import LOSSES
from taskveil.methods.options import WithOptions, check_options
from taskveil.methods.public_prior import PublicPrior
from taskveil.privacy.plan import VARIANTS, Budget, Plan, PlannedRelease, Request
from taskveil.tasks.block import TaskBlock

USUAL_LOSS = {"regression": "squared", "classification": "logistic", "survival": "cox"}
LARGEST = 1e6  # size of what a billboard shows where a method declares nothing else (see `Method.ranges`)
State = dict[str, np.ndarray]
Message = dict[str, Any]  # release name -> raw array (tasks, *message_shape), or a Bounded sum made by a jitted round


@dataclass(frozen=True)
class PublicInfo:
    """All a plan may depend on: sizes and declarations, never a value computed from rows."""

    n_tasks: int
    n_features: int
    n_outputs: int
    kind: str  # "regression", "classification" or "survival"
    declared_bounds: bool = False  # features and target were scaled by declared public ranges
    unit_rows: bool = False  # rows were normalised to length one
    fit_intercept: bool = True
    min_rows: int | None = None  # declared smallest number of rows of a task
    max_rows: int | None = None  # declared largest number of rows of a task
    seed: int | None = None  # initialisation and splits only, never noise
    task_rows: tuple[int, ...] | None = None  # rows of every task: fixed and public where the unit is the record
    prior: PublicPrior | None = None  # public knowledge about models
    loss: str = ""  # a name in losses.LOSSES; empty: by the kind

    def __post_init__(self) -> None:
        if not self.loss:
            object.__setattr__(self, "loss", USUAL_LOSS[self.kind])
        if isinstance(self.prior, dict):
            object.__setattr__(self, "prior", PublicPrior(**self.prior))

    @property
    def number_target(self) -> bool:
        """Whether the target has a centre and a scale, as features have; rates, times and labels have none."""
        return LOSSES.get(self.loss).targets == "numbers"

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it; the usual loss of a kind is left out, so that earlier versions write and read the same."""
        left_out = {"prior", "loss"} if self.loss == USUAL_LOSS[self.kind] else {"prior"}
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in left_out}
        return fields if self.prior is None else {**fields, "prior": self.prior.to_dict()}


@dataclass(frozen=True)
class Billboard:
    """What the server publishes after a round. Everything on it is public to every task."""

    round: int
    values: Mapping[str, np.ndarray]
    per_task: frozenset[str] = frozenset()  # arrays whose first axis runs over all tasks; a task is sent its own part
    accepted: np.ndarray | None = None  # (n_tasks,) whose message of this round went into the release
    done: bool = False  # the server ends the run (only without privacy: a private plan runs to its end)

    def common(self) -> dict[str, np.ndarray]:
        """What is the same for every task."""
        return {name: value for name, value in self.values.items() if name not in self.per_task}

    def view(self, tasks: np.ndarray | None) -> View:
        """The part of the billboard a block of tasks is sent; None means all tasks."""
        if tasks is None:
            return View(self.round, dict(self.values), self.accepted)
        values = {k: v[tasks] if k in self.per_task else v for k, v in self.values.items()}
        accepted = None if self.accepted is None else self.accepted[tasks]
        return View(self.round, values, accepted)


@dataclass(frozen=True)
class View:
    """A billboard as one block of tasks sees it."""

    round: int
    values: dict[str, np.ndarray]
    accepted: np.ndarray | None = None
    active: np.ndarray | None = None  # (tasks of the block,) who is asked this round; None means everybody

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def asking(self, active: np.ndarray | None) -> View:
        """The same view for a round in which only `active` tasks take part."""
        return replace(self, active=active)


@dataclass
class Models:
    """The personal models of a block of tasks, in the scaled units the methods work in."""

    coef: np.ndarray  # (tasks, outputs, features)
    intercept: np.ndarray  # (tasks, outputs)
    kept: np.ndarray | None = None  # (tasks,) True where the shared model was kept, False where the task learns alone
    extra: dict[str, np.ndarray] = field(default_factory=dict)


class TaskSide:
    """What the tasks of one block do. It works on all of them at once, with the same result as for one task after the other."""

    merges_inactive = False  # True: step() itself leaves tasks outside `view.active` as they were
    begins_ahead = False  # True: begin() returns while sums that are bounded already are still computed
    adds_up = False  # True: begin() is there, and clips and adds up whatever the block

    def __init__(self, method: Any, block: TaskBlock, public: PublicInfo, plan: Plan):
        self.method, self.block, self.public, self.plan = method, block, public, plan
        self.loss = LOSSES.get(public.loss)

    @cached_property
    def asked(self) -> set[tuple[int, str]]:
        """Round and name of every release in the plan."""
        return {(p.round, p.name) for p in self.plan.releases}

    def start(self) -> State:
        """The state of every task before the first round. Empty if tasks keep nothing between rounds."""
        return {}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        """One round: new states, and messages, from the billboard and the tasks' rows. The runtime clips the messages."""
        raise NotImplementedError

    def begin(self, state: State, view: View) -> tuple[State, Callable[[], Message]]:
        """step() in two halves, for sides that compute elsewhere: start the work, and return a function that waits for it."""
        raise NotImplementedError

    def expect(self, round_number: int, active: np.ndarray | None) -> None:
        """Prepare for the round after billboard `round_number`. `active` says which tasks take part in it."""

    def finish(self, state: State, view: View) -> Models:
        """Make the personal models after the last release. They stay with their tasks."""
        raise NotImplementedError


def merge_states(old: State, new: State, active: np.ndarray) -> State:
    """Tasks that were asked get their new state, the others keep the old one."""
    merged = {}
    for name, value in new.items():
        mask = active.reshape((-1,) + (1,) * (value.ndim - 1))
        merged[name] = np.where(mask, value, old[name])
    return merged


class ServerSide:
    """What the server makes of noisy sums. It sees releases and public sizes only.

    Most publish a part of their state: `first` and `changes` are then all they say. Others write `start` and `step`.
    """

    settled = 1  # rounds after which names, shapes and types on the billboard stay the same
    published: ClassVar[tuple[str, ...]] = ()  # what the billboard shows of the state, once that holds it
    per_task: ClassVar[frozenset[str]] = frozenset()  # of these, what has a part for every task

    def __init__(self, method: Any, public: PublicInfo, plan: Plan):
        self.method, self.public, self.plan = method, public, plan
        self.loss = LOSSES.get(public.loss)

    @cached_property
    def planned(self) -> dict[tuple[int, str], PlannedRelease]:
        """Every release of the plan by its round and name."""
        return {(p.round, p.name): p for p in self.plan.releases}

    def first(self) -> State:
        """The state before any data."""
        return {}

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        """What the noisy sums of round `t` change in the state."""
        raise NotImplementedError

    def start(self) -> tuple[State, Billboard]:
        """The server's state and the first billboard, before any data."""
        state = {"round": np.array(0), **self.first()}
        return state, self.billboard(state)

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        """From the noisy sums of a round to the next billboard."""
        t = int(state["round"]) + 1
        state = {**state, **self.changes(state, releases, t), "round": np.array(t)}
        return state, self.billboard(state, accepted)

    def billboard(self, state: State, accepted: np.ndarray | None = None) -> Billboard:
        """What everybody sees of this state."""
        values = {name: state[name] for name in self.published if name in state}
        return Billboard(int(state["round"]), values, self.per_task & values.keys(), accepted)

    def chosen(self, state: State, possible: list[PlannedRelease]) -> list[PlannedRelease]:
        """The policy of a plan with a total: which of the next round's releases is made, or none, and the run ends.

        The state holds what was released and what is public, and nothing else.
        """
        return possible


class ArrivalServer(ServerSide):
    """A server of an asynchronous method: it moves with every message, and can be asked how far it is."""

    def final(self, state: State) -> Billboard:
        """The last billboard, after the last message."""
        raise NotImplementedError

    def residual(self, state: State) -> float:
        """How far the last messages would still move the models; without privacy a run stops where it is small."""
        raise NotImplementedError

    def statistics(self, state: State) -> dict[str, float]:
        """Figures of the run for its record."""
        return {}


@dataclass(frozen=True)
class Disclosure:
    """What the certificate of one run says beyond what it says of every run; all of it follows from public sizes and the plan."""

    assumptions: tuple[str, ...] = ()  # what the guarantee rests on
    not_protected: tuple[str, ...] = ()  # what it does not cover
    refutations: tuple[str, ...] = ()  # why the claim is false, beyond what its mechanisms say; empty where it holds
    observers: tuple[str, ...] = ()  # covered beyond those of the aggregation, because of where the method adds its noise


# Kinds and losses of methods that work by least squares on working responses.
ANY_TARGET = ("regression", "classification", "survival"), ("squared", "logistic", "poisson", "huber", "cox")


class Method(WithOptions):
    """Base class of all methods. A method must define `requests`, and its classes `tasks` and `server`; the rest has defaults.

    Options are fields of a dataclass and are stored unchanged, so grid searches and clones work.
    """

    name: ClassVar[str] = ""
    variants: ClassVar[tuple[str, ...]] = ("sound",)  # what this class itself computes
    forms: ClassVar[Mapping[str, str]] = {}  # unit, variant or spending -> "module:Class" that does it by the same name
    units: ClassVar[tuple[str, ...]] = ("task",)
    kinds: ClassVar[tuple[str, ...]] = ("regression", "classification")
    losses: ClassVar[tuple[str, ...]] = ("squared", "logistic")  # what it can fit; others have no bound on their curvature
    aggregations: ClassVar[tuple[str, ...]] = ("curator", "local", "secure", "local-model")
    weighs_tasks: ClassVar[bool] = True  # False: sums over some tasks only, which budgets per task would bias
    schedule: ClassVar[str] = "synchronous"  # or "asynchronous": one task per step, in order of arrival
    chooses_locally: ClassVar[bool] = False  # finish() already picks shared or alone for each task
    shares_nothing: ClassVar[bool] = False  # no message ever leaves a task
    common_units: ClassVar[bool] = False  # messages add up in common units only: bought, where none are declared
    linear: ClassVar[bool] = True  # models are coef and intercept
    raw_rows: ClassVar[bool] = False  # rows without declared ranges are used as they come (images), not scaled by each task
    fixed_cohort: ClassVar[int | None] = None  # most tasks of a round where a paper fixes it; None: Poisson, or everybody
    reference: ClassVar[str] = ""
    rules: ClassVar[Mapping[str, Rule]] = {}  # what options of its own may be, beyond the table in options.py
    tasks: ClassVar[type[TaskSide]] = TaskSide
    server: ClassVar[type[ServerSide]] = ServerSide

    # ------------------------------------------------------ what a method does

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        """The sums this method will ask for, from public sizes only."""
        raise NotImplementedError

    def policy(self, public: PublicInfo, budget: Budget) -> str:
        """Name of the rule that chooses among these sums during the run (ServerSide.chosen). Empty if all are released."""
        return ""

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        """The task side of this block."""
        return self.tasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        """The server side."""
        return self.server(self, public, plan)

    def check(self, public: PublicInfo, budget: Budget) -> None:
        """Refuse, before any data is read, what this method cannot do."""
        from taskveil import methods

        check_options(self)
        if budget.variant not in self.variants:
            variants = [v for v in VARIANTS if v in self.variants or v in self.forms]
            raise OptionError(f"method {self.name!r} has variants {', '.join(variants)}; got {budget.variant!r}")
        if str(budget.unit) not in self.units:
            raise OptionError(
                f"method {self.name!r} protects {' or '.join(self.units)}; unit={str(budget.unit)!r} was asked for. "
                f"Methods that protect records: {', '.join(methods.record_methods())}."
            )
        if public.kind not in self.kinds:
            raise OptionError(
                f"method {self.name!r} does {' and '.join(self.kinds)}, not {public.kind}; {methods.instead(public)}"
            )
        if public.loss not in self.losses:
            raise OptionError(
                f"method {self.name!r} fits {' and '.join(self.losses)} losses, not {public.loss!r}; {methods.instead(public)}"
            )
        if budget.epsilon is not None and budget.aggregation not in self.aggregations:
            raise OptionError(f"method {self.name!r} aggregates by {', '.join(self.aggregations)}; got {budget.aggregation!r}")

    # ----------------------------------- which method is meant, in which units

    def under(self, unit: str, variant: str = "sound") -> Method:
        """The form of this method for a unit, a variant and a way of spending; often the method itself."""
        method = self
        for key in (str(unit), str(variant), getattr(self, "spending", "")):
            if key in method.forms:
                module, _, name = method.forms[key].partition(":")
                kind = getattr(import_module(module, __package__), name)
                method = method if isinstance(method, kind) else kind.of(method)
        return method

    @classmethod
    def of(cls, method: Method) -> Self:
        """Make this form of another method, with that method's options."""
        return cls(**method.get_params(deep=False))

    def adjust(self, budget: Budget) -> Budget:
        """The budget with what this method does not leave open, for example who adds the noise."""
        return budget

    def gains_by_common_units(self, public: PublicInfo, budget: Budget) -> bool:
        """Whether this method is better with common units, if they can be afforded. Decided from public sizes alone."""
        return self.common_units

    def in_own_units(self) -> Method:
        """The method for tasks that have no units in common."""
        return self

    # ------------------------------------ what others are told, and may expect

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        """What the certificate says of this method, beyond what every run states."""
        return Disclosure()

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        """Smallest and largest value of everything published, by name. Without a name here, the limit is 1e6 (published.py)."""
        return {}

    def sends_sums(self, n_tasks: int, public: PublicInfo, plan: Plan) -> bool:
        """Whether a block of `n_tasks` tasks sends one clipped sum instead of a message for each task."""
        return False

    # ------------------------------------------ models, and who gets one later

    def chooses(self, budget: Budget) -> bool:
        """Whether finish() already chooses between shared and alone for each task."""
        return self.chooses_locally

    def weighs_prior(self, budget: Budget) -> bool:
        """Whether tasks weigh a public prior against the shared model in the end (shared_prior.weighed_models)."""
        return False

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        """A model for an unseen task, from the billboard alone. None if the billboard has no such model."""
        return None

    def predict_scores(self, record: Any, models: Models, X: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Scores (rows, outputs) of every row under the model of its task, for models that are not linear."""
        raise NotImplementedError

    def keeps_history(self, plan: Plan) -> bool:
        """Whether new tasks need every billboard (True) or only the last one."""
        return True

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        """The billboards that a new task or a held-out fold goes through, from the first to the last."""
        return billboards


class Asynchronous(Method):
    """A method whose server moves with every message (runtime/virtual_clock.py, runtime/federation/server/arrivals.py)."""

    schedule = "asynchronous"
    server: ClassVar[type[ArrivalServer]] = ArrivalServer
    budgets: Sequence[float] | None = None  # epsilon of each node where they differ
    delays: tuple[str, float] | None = None  # (kind, scale in seconds) of the virtual clock
    tol: float = 0.0  # without privacy: stop when no message moves its column by more than this
