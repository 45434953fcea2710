"""The table of all methods, one line each. A method's class is imported only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from taskveil.errors import OptionError
from taskveil.registry import Table

METHODS: Table[str] = Table("method")
for _name, _place in {
    # baselines
    "local": "taskveil.methods.local:Local",
    "pooled": "taskveil.methods.pooled:Pooled",
    # model-protected multi-task learning
    "low-rank": "taskveil.methods.low_rank:LowRank",
    "group-sparse": "taskveil.methods.group_sparse:GroupSparse",
    "low-rank-sparse": "taskveil.methods.low_rank_sparse:LowRankSparse",
    "frank-wolfe": "taskveil.methods.frank_wolfe:FrankWolfe",
    "relationship": "taskveil.methods.relationship:Relationship",
    "subspace": "taskveil.methods.subspace:Subspace",
    "together": "taskveil.methods.together:Together",
    "dp-mtrl": "taskveil.methods.dp_mtrl:DpMtrl",
    "dp-aggr": "taskveil.methods.dp_aggr:DpAggr",
    # mean-regularised
    "mean": "taskveil.methods.mean:Mean",
    "clustered-mean": "taskveil.methods.clustered_mean:ClusteredMean",
    "fixed-relationship": "taskveil.methods.fixed_relationship:FixedRelationship",
    "fedavg": "taskveil.methods.fedavg:FedAvg",
    "fedprox": "taskveil.methods.fedprox:FedProx",
    "pp-sgd": "taskveil.methods.pp_sgd:PPSGD",
    "shared-representation": "taskveil.methods.shared_representation:SharedRepresentation",
    # support vector machines
    "svm": "taskveil.methods.svm.method:Svm",
    "mocha": "taskveil.methods.mocha:Mocha",
    # asynchronous
    "async": "taskveil.methods.async_mtl:AsyncMTL",
}.items():
    METHODS.add(_name, _place)

FEW_TASKS = 30  # below, one shared direction is all that can be learned
# Methods whose other models train on the neural engine (extra `nn`) under the same name.
NEURAL = {"mean": "taskveil.methods.neural:NeuralMean"}


def get(name: str, **options: Any) -> Any:
    """The method of this name with its own options, for example `get("low-rank", rounds=50)`.

    `get("mean", model="cnn")` trains on the neural engine, `model="linear"` (the default) in NumPy.
    """
    place = METHODS.get(name)
    if name in NEURAL and options.get("model", "linear") != "linear":
        place = NEURAL[name]
    elif name in NEURAL:
        options.pop("model", None)
    module, _, attribute = place.partition(":")
    kind = getattr(import_module(module), attribute)
    if options.get("unit") == "record" and "record" in kind.forms:  # as saved, where records need another way of learning
        kind = type(kind().under("record"))
    names = kind.option_names()
    for option in options:
        if option not in names:
            offered = ", ".join(n for n in names if "__" not in n)
            raise OptionError(f"method {name!r} has no option {option!r}; options: {offered}")
    return kind(**options)


def names() -> list[str]:
    """All registered methods, by the names that `get` takes."""
    return METHODS.names()


def choose(name: str, n_tasks: int, n_features: int, unit: str, kind: str = "") -> tuple[str, str]:
    """A method's name as it is; 'auto' is decided from public sizes and declarations alone, and says why."""
    if name != "auto":
        return name, ""
    sizes = f"{n_tasks} tasks, {n_features} features, unit {unit}"
    end = "Decided from these public sizes; no row was looked at."
    if unit == "record" and kind == "survival":
        return "mean", f"method auto ({sizes}): 'mean', which protects single rows of times until an event. {end}"
    if unit == "record":
        chosen = "'together', which protects single rows by sums over all of them, so few tasks will do"
        return "together", f"method auto ({sizes}): {chosen}. {end}"
    if n_tasks < FEW_TASKS:
        return "mean", f"method auto ({sizes}): 'mean', which shares one direction; for a subspace the tasks are few. {end}"
    chosen = "'together', which shares a model or a few directions and lets each task differ"
    return "together", f"method auto ({sizes}): {chosen}. {end}"


def record_methods() -> list[str]:
    """Names of the methods that can protect single rows; `local`, which sends nothing, aside."""
    return [name for name in names() if name != "local" and "record" in get(name).units]


def instead(public: Any) -> str:
    """Which methods do what another one cannot, for these public sizes."""
    fit = [m.name for m in map(get, names()) if public.kind in m.kinds and public.loss in m.losses]
    return f"use {', '.join(fit)}"
