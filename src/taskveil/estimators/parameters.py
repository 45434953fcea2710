"""What the parameters of TaskRegressor and TaskClassifier may be: one table, checked before any row is read."""

from __future__ import annotations

from typing import Any

from taskveil.checks import AnyOf, Choice, Column, Entries, Flag, Function, Line, Nothing, Number, Place, Rule, Whole, optional
from taskveil.errors import OptionError
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.guarantees import LARGEST_DELTA
from taskveil.privacy.plan import VARIANTS
from taskveil.privacy.units import Neighbours, Observer, Unit
from taskveil.tasks.prepare.scaling import MODES

SEED = optional(Whole(0, 2**63 - 1))

PARAMETERS: dict[str, Rule] = {
    "epsilon": AnyOf(Number(above=0), Nothing(), Entries(Number(above=0))),  # one for all tasks, none, or one for each
    "delta": optional(Number(at_least=0, below=LARGEST_DELTA)),
    "unit": Choice(*(u.value for u in Unit)),
    "neighbours": Choice(*(n.value for n in Neighbours)),
    "observer": Choice(*(o.value for o in Observer)),
    "variant": Choice(*VARIANTS),
    "mechanism": optional(Line(100)),
    "accountant": optional(Line(100)),
    "aggregation": Choice(*AGGREGATIONS.names()),
    "secure": optional(Entries()),  # privacy.secure_options refuses what is wrong inside
    "scaling": Choice("auto", *MODES, "private"),
    "scaling_share": Number(above=0, below=1),
    "normalise": optional(Choice("row")),
    "loss": optional(Choice("squared", "poisson", "huber", "logistic", "cox")),
    "fit_intercept": Flag(),
    "missing": Choice("error", "impute-own", "impute-bounds"),
    "task_column": optional(Column()),
    "unknown": Choice("error", "billboard"),
    "strict": Flag(),
    "seed": SEED,
    "random_state": SEED,
    "insecure_noise_seed": SEED,
    "account": optional(Line(200)),
    "run_dir": optional(Place()),
    "runtime": Choice("in_process", "flower", "dask"),
    "progress": optional(Function()),
}


def check_parameters(estimator: Any) -> None:
    """Every parameter keeps its rule, or an error names the first one that does not."""
    for name, rule in PARAMETERS.items():
        rule.check(name, getattr(estimator, name))
    if estimator.client is not None and estimator.runtime != "dask":
        raise OptionError(f"client= is a Dask client and goes with runtime='dask'; got runtime {estimator.runtime!r}")
    if None not in (estimator.seed, estimator.random_state) and estimator.seed != estimator.random_state:
        raise OptionError("random_state is the name scikit-learn has for seed: give one of them, or the same number")
    if estimator.loss is not None and estimator.loss not in estimator._losses:
        raise OptionError(f"{type(estimator).__name__} has loss {' or '.join(estimator._losses)}; got {estimator.loss!r}")
