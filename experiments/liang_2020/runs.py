"""How the MP-MTL experiments train: the paper's methods with its own tuning, and ours as they come.

As printed   hyper-parameters (rounds, penalty, step, clip, momentum, strong convexity, allocation of the budget) are chosen for every
             method, data set and epsilon by 5-fold cross-validation on the training rows of all tasks, as the paper does: among
             settings that did well before, random ones far beyond them on every side, and ever closer ones around the best of them
             (choosing.py). The choice is not in epsilon there and not here; it flatters the paper's variants. It is made once per
             setting, on a draw of its own, and kept for all replications. Penalties without privacy are chosen likewise.
Sound        `subspace` with its defaults: every task tunes on its own rows, which costs nothing. `low-rank` with private tuning:
             the search is inside the stated epsilon (`TaskSearch`).

Neighbours are the paper's (Definition 6): one task's data are replaced. The printed noise has one scale whatever the neighbours;
the sound one is twice as large as for adding or removing a task, which is shown beside it.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

import taskveil as tv
from taskveil.estimators.metrics import evaluate
from taskveil.estimators.search import TaskSearch
from taskveil.tasks.split import k_fold
from taskveil.tasks.synthetic import get_synthetic
from taskveil.tasks.task import TaskSet

Options = dict[str, Any]
LOWER_IS_BETTER = ("nmse", "mse")
MU = 1e-3  # the paper's strong convexity
Q0 = 1 - np.sqrt(MU)
# The scaled target has spread one; without noise in it |w| is about sqrt(features), and K = 7 lets it pass. Smaller K: less noise.
CLIP = 7.0
NEIGHBOURS = "replace-one"
RANDOM = 200  # settings tried beyond the listed ones; with --quick a few


def proximal_grid(quick: bool) -> list[Options]:
    """Algorithms 2 and 3. Steps are for squared loss on scaled columns, where 1/L is about a quarter."""
    grid: list[Options] = [
        {"rounds": 1, "step": 0.25, "penalty": 16.0},
        {"rounds": 5, "step": 0.3, "penalty": 1.3, "clip": 1.0},
        {"rounds": 100, "step": 0.5, "penalty": 0.1},
    ]
    if not quick:
        grid += [{"rounds": 1, "step": 0.25, "penalty": p} for p in (1.0, 4.0)]
        grid += [{"rounds": T, "step": s, "penalty": p} for T, s, p in ((5, 0.03, 2.0), (100, 0.25, 0.03), (200, 0.5, 0.05))]
        grid += [{"rounds": T, "step": s, "penalty": p, "clip": 5.6, "allocation": "power", "exponent": a}
                 for T, s, p, a in ((200, 1.4, 0.05, 2.0), (90, 8.7, 0.063, 4.0))]  # fmt: skip
        grid += [{"rounds": 5, "step": 0.3, "penalty": 0.6, "clip": 1.0}, {"rounds": 5, "step": 0.3, "penalty": 2.5, "clip": 2.0}]
        grid += [{"rounds": 50, "step": 0.03, "penalty": 3.0, "clip": 2.0}]
        grid += [{"rounds": 30, "step": 0.25, "penalty": 0.3, "momentum": "none"}]
        grid += [{"rounds": 30, "step": 0.5, "penalty": 0.1, "allocation": "power", "exponent": 0.4}]
        grid += [{"rounds": 100, "step": 0.25, "penalty": 0.1, "momentum": "strong", "strong_convexity": MU,
                  "allocation": "geometric", "exponent": float(Q0**0.2)}]  # fmt: skip
    return [{"clip": CLIP, **o} for o in grid]


def random_proximal(count: int, most_rounds: int, seed: int = 0) -> list[Options]:
    """Settings of Algorithms 2 and 3 drawn evenly on a log scale, wider than the grid on every side."""
    rng = np.random.default_rng(seed)
    between = lambda low, high: float(np.exp(rng.uniform(np.log(low), np.log(high))))  # noqa: E731
    found = []
    for _ in range(count):
        option: Options = {
            "rounds": round(between(1, most_rounds)),
            "step": between(0.01, 30.0),
            "penalty": between(0.003, 300.0),
            "clip": between(0.2, 20.0),
        }
        momentum, allocation = rng.choice(["accelerated", "none", "strong"]), rng.choice(["uniform", "power", "geometric"])
        if momentum != "accelerated":
            option |= {"momentum": str(momentum)}
        if momentum == "strong":
            option |= {"strong_convexity": between(MU / 10, 100 * MU)}
        if allocation != "uniform":
            exponent = rng.uniform(-2, 6) if allocation == "power" else Q0 ** rng.uniform(-2, 2)
            option |= {"allocation": str(allocation), "exponent": float(exponent)}
        found.append(option)
    return found


def grid_of(name: str, quick: bool) -> list[Options]:
    if name in ("low-rank", "group-sparse"):
        return proximal_grid(quick) + (random_proximal(4, 20) if quick else random_proximal(RANDOM, 300))
    if name == "dp-mtrl":
        ridges = (1.0, 100.0) if quick else (0.01, 1.0, 30.0, 1000.0, 1e5)
        pairs = [(p, r) for p in ((0.01,) if quick else (0.001, 0.1, 10.0)) for r in ridges]
        return [{"rounds": T, "penalty": p, "ridge": r} for T in ((1,) if quick else (1, 3)) for p, r in pairs]
    return [{"penalty": p} for p in ((0.1, 10.0) if quick else (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0))]


def estimator(tasks: TaskSet, method: Any, epsilon: float | None, seed: int, **options: Any) -> Any:
    kind = tv.TaskRegressor if tasks.kind == "regression" else tv.TaskClassifier
    noise = zlib.crc32(f"{seed}/{method}/{epsilon}".encode())
    return kind(method, epsilon=epsilon, seed=seed, insecure_noise_seed=noise, **options)


def score(
    train: TaskSet, test: TaskSet, method: Any, epsilon: float | None, seed: int, metric: str = "nmse", **options: Any
) -> float:
    return evaluate(estimator(train, method, epsilon, seed, **options).fit(train), test, metric)


def paper_method(name: str, options: Options, train: TaskSet) -> Any:
    """The method object; a logistic loss is four times as flat, so its steps are four times as long."""
    chosen = dict(options)
    if name == "dp-aggr":
        chosen |= {"n_min": int(train.sizes.min()), "n_max": int(train.sizes.max())}
    if "step" in chosen and train.kind == "classification":
        chosen |= {"step": 4 * chosen["step"], "penalty": chosen["penalty"] / 4}
    return tv.methods.get(name, **chosen)


def paper_budget(tasks: int) -> Options:
    return {"variant": "paper", "delta": paper_delta(tasks), "neighbours": NEIGHBOURS}


def paper_delta(tasks: int) -> float:
    """delta = 1/(m log m), as in section 5.2; for reproduction only."""
    return 1.0 / (tasks * np.log(tasks))


def as_printed(
    name: str, options: Options, train: TaskSet, test: TaskSet, epsilon: float, seed: int, metric: str = "nmse"
) -> float:
    return score(train, test, paper_method(name, options, train), epsilon, seed, metric, **paper_budget(train.n_tasks))


def certain_of_absence(options: Options, tasks: int, epsilon: float) -> float:
    """Share of runs in which Algorithm 2's printed noise shows for certain that a task (models of norm K) is not there.

    The noise of round t is W(d+1, K^2/(2 eps_t) I), positive semidefinite: the sum can only look larger than it is. An absent task is
    unmasked in a round with probability 1 - exp(-eps_t), in every dimension, independently over rounds. Only public sizes matter,
    so the plan is made on a few made-up rows.
    """
    train = get_synthetic("low-rank", n_tasks=tasks, n_train=3, n_test=1, n_features=2).train
    plan = estimator(train, paper_method("low-rank", options, train), epsilon, 0, **paper_budget(tasks)).fit(train).record_.plan
    spent = sum(options["clip"] ** 2 / (2 * p.mechanism.scale) for p in plan.releases)
    return float(1 - np.exp(-spent))


def sound(train: TaskSet, test: TaskSet, epsilon: float, seed: int, metric: str = "nmse", neighbours: str = NEIGHBOURS) -> float:
    """What we ship: `subspace` as it comes, at the same stated epsilon, delta, neighbours, unit and observer."""
    return score(train, test, "subspace", epsilon, seed, metric, delta=paper_delta(train.n_tasks), neighbours=neighbours)


PRIVATE_GRID = {"method__rounds": [1, 5], "method__penalty": [0.002, 0.02]}


def privately_tuned(train: TaskSet, test: TaskSet, epsilon: float, seed: int, metric: str = "nmse") -> float | None:
    """Algorithm 2 with sound noise, its shared hyper-parameters chosen inside the budget.

    None where one run of the search may spend so little that delta alone covers it: a search cannot be calibrated there.
    """
    method = tv.methods.get("low-rank", local_steps=50)
    base = estimator(train, method, epsilon, seed, delta=paper_delta(train.n_tasks), neighbours=NEIGHBOURS)
    search = TaskSearch(base, PRIVATE_GRID)
    if search.plan(base._budget(train)).run_epsilon <= 0:
        return None
    return evaluate(search.fit(train).best_estimator_, test, metric)


STRENGTHS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def single_task_options(
    train: TaskSet, seed: int, metric: str, folds: int, penalties: tuple[str, ...], strengths: tuple[float, ...] = STRENGTHS
) -> Options:
    """STL as in the paper: l1 or l2, one strength for all tasks, both by cross-validation on the training rows of all tasks."""
    better = min if metric in LOWER_IS_BETTER else max
    parts = list(k_fold(train, 5, seed))[:folds]

    def mean_score(options: Options) -> float:
        return float(np.mean([score(seen, held, tv.methods.get("local", **options), None, seed, metric) for seen, held in parts]))

    return better(({"penalty": p, "strength": s} for p in penalties for s in strengths), key=mean_score)


PLAIN_PENALTIES = (None, 0.003, 0.01, 0.03, 0.1, 0.3)  # None: from the size of the gradient noise
PLAIN_METHODS = ("low-rank", "group-sparse", "relationship")


def plain_options(train: TaskSet, seed: int, metric: str, folds: int, quick: bool) -> dict[str, Options]:
    """Penalties of the methods without privacy, by cross-validation (section 5.2); with --quick their defaults."""
    if quick:
        return {}
    better = min if metric in LOWER_IS_BETTER else max
    parts = list(k_fold(train, 5, seed))[:folds]

    def mean_score(name: str, penalty: float | None) -> float:
        method = tv.methods.get(name, tol=1e-3, penalty=penalty)
        return float(np.mean([score(seen, held, method, None, seed, metric) for seen, held in parts]))

    return {name: {"penalty": better(PLAIN_PENALTIES, key=lambda p: mean_score(name, p))} for name in PLAIN_METHODS}


def non_private(
    train: TaskSet, test: TaskSet, seed: int, metric: str = "nmse", tol: float = 1e-4, options: dict[str, Options] | None = None
) -> dict[str, float]:
    """The paper's four methods without privacy, stopped where what is shared moves by less than `tol`, relative."""
    methods = {name: tv.methods.get(name, tol=tol, **(options or {}).get(name, {})) for name in PLAIN_METHODS}
    methods["dp-aggr"] = tv.methods.get("dp-aggr")
    return {name: score(train, test, method, None, seed, metric) for name, method in methods.items()}
