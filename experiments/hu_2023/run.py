"""Hu, Wu, Smith 2023 (PMTL), Figure 3, Table 1, Table 3 and Figure 1 on the data we have, with sound accounting.

    python -m experiments.hu_2023.run                  plans, training, README.md (needs $TASKVEIL_DATA)
    python -m experiments.hu_2023.run plans FILE        only the calibrated plans (needs dp-accounting)
    python -m experiments.hu_2023.run train FILE OUT [DATA]   only the training, from plans (needs JAX; made for a GPU)
    python -m experiments.hu_2023.run control           adds the empty and noise-only billboards to results.json
    python -m experiments.hu_2023.run report            README.md and curves from results.json

Accuracy is over all test rows of all writers. `local` is the same model, features and local solver without a billboard.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.hu_2023 import settings

HERE = Path(__file__).parent
TUNED = ("mean", "fedavg", "fedprox", "fedavg-long")  # fine-tuned after training


def load(name: str, seed: int) -> tuple[Any, tuple[np.ndarray, ...]]:
    """Training block and test rows (features, labels, writer), 70/30 inside every writer; ink is 1, paper 0."""
    from taskveil.engine.features import FeatureMap
    from taskveil.tasks.block import TaskBlock

    root = Path(os.environ["TASKVEIL_DATA"])
    file = root / name / f"{name}.npz"
    stored = np.load(file if file.exists() else root / f"{name}.npz", allow_pickle=False)
    X, y, task = stored["X"], stored["y"].astype(int), stored["task"]
    first = settings.DATA[name]["first"]
    keep = (task >= first) & (task < first + settings.DATA[name]["n_tasks"])
    X, y, task = X[keep].astype(np.float32) / 255, y[keep], task[keep] - first
    X = FeatureMap(settings.FEATURES, X.shape[1])(1 - X if name == "femnist" else X)
    rng, train = np.random.default_rng(seed), np.zeros(len(y), bool)
    for k in range(settings.DATA[name]["n_tasks"]):
        rows = rng.permutation(np.flatnonzero(task == k))
        train[rows[: max(1, round(settings.TRAIN_FRACTION * rows.size))]] = True
    classes = settings.DATA[name]["classes"]
    columns = np.where(np.arange(classes) == y[:, None], 1.0, -1.0)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(task[train], minlength=settings.DATA[name]["n_tasks"]))])
    return TaskBlock(X[train], columns[train], offsets, kind="classification"), (X[~train], y[~train], task[~train])


def public_of(name: str, seed: int) -> Any:
    from taskveil.methods.base import PublicInfo

    about = settings.DATA[name]
    return PublicInfo(about["n_tasks"], settings.FEATURES["width"], about["classes"], "classification", seed=seed)


def make_plans() -> dict[str, Any]:
    """Calibrated plans for every (data, method, epsilon), delta = 1/m, and the certified epsilon of each."""
    from taskveil.privacy.plan import Budget, make_plan

    plans = {}
    for name in settings.DATA:
        public = public_of(name, 0)
        for epsilon in settings.EPSILONS:
            budget = Budget(epsilon, 1 / public.n_tasks, neighbours=settings.NEIGHBOURS)
            for method_name in settings.METHODS:
                method = settings.method_for(method_name, name, epsilon)
                plan = make_plan(method.requests(public, budget), budget)
                certified = None if epsilon is None else plan.epsilon()
                plans[f"{name}/{method_name}/{epsilon}"] = {"plan": plan.to_dict(), "certified": certified}
    return plans


def train(plans: dict[str, Any], out: Path, names: tuple[str, ...] = tuple(settings.DATA)) -> None:
    results = []
    for name in names:
        for seed in settings.DATA[name]["seeds"]:
            block, test = load(name, seed)
            results.append(local_result(name, seed, block, test))
            print(json.dumps({k: v for k, v in results[-1].items() if k != "correct"}), flush=True)
            for epsilon in settings.EPSILONS:
                for method_name in settings.METHODS:
                    stored = plans[f"{name}/{method_name}/{epsilon}"]
                    result = one_run(name, method_name, epsilon, seed, block, test, stored)
                    results.append(result)
                    print(json.dumps({k: v for k, v in result.items() if k != "correct"}), flush=True)
            out.write_text(json.dumps(results))  # after every seed, so that an interrupted run leaves something


def one_run(
    name: str, method_name: str, epsilon: float | None, seed: int, block: Any, test: tuple[np.ndarray, ...], stored: dict
) -> dict[str, Any]:
    from taskveil.privacy.plan import Plan
    from taskveil.privacy.randomness import insecure_seeded_noise
    from taskveil.runtime import in_process
    from taskveil.runtime.run import Run

    started = time.perf_counter()
    method, plan = settings.method_for(method_name, name, epsilon), Plan.from_dict(stored["plan"])
    record = in_process.run(Run(method, public_of(name, seed), plan, source=insecure_seeded_noise(1000 + seed)), block)
    own = correct_by_writer(method, record, record.models.extra["params"], test)
    columns = {"none": own}
    if method_name in TUNED:
        columns |= personalised(method, record, block, test)
        if method_name == "mean":  # its model is the regularised one around the last billboard; see the README
            columns["algorithm-1"], columns["none"] = own, columns["mean"]
    return {
        "data": name, "method": method_name, "epsilon": epsilon, "seed": seed, "rounds": record.rounds,
        "certified": stored["certified"], "parameters": int(record.models.extra["params"].shape[1]),
        "accuracy": {k: float(v.sum() / len(test[1])) for k, v in columns.items()},
        "correct": {k: columns[k].astype(int).tolist() for k in ("none", "chosen") if k in columns},
        "seconds": time.perf_counter() - started,
    }  # fmt: skip


def local_result(name: str, seed: int, block: Any, test: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """Every writer alone."""
    method, public = settings.method_for("mean", name, None), public_of(name, seed)
    correct = learned_alone(method, public, block, test)
    tested = np.bincount(test[2], minlength=block.n_tasks)
    return {
        "data": name, "method": "local", "epsilon": None, "seed": seed, "parameters": method.built(public).n_parameters,
        "accuracy": {"none": float(correct.sum() / len(test[1]))}, "correct": {"none": correct.astype(int).tolist()},
        "tested": tested.tolist(),
    }  # fmt: skip


def learned_alone(method: Any, public: Any, block: Any, test: tuple[np.ndarray, ...]) -> np.ndarray:
    """Correct test rows of every writer whose model has never seen a billboard."""
    from types import SimpleNamespace

    from taskveil.engine.clients import Clients, tuner_of
    from taskveil.engine.features import FeatureMap
    from taskveil.engine.personalise import Option

    model = method.built(public)
    clients = Clients(block, FeatureMap(None, public.n_features), model, public.seed)
    nothing = np.zeros((1, model.n_parameters), np.float32)
    params, _, _ = clients.personalise(
        tuner_of(model, method.tuning(public)), (Option("alone"),), nothing, np.ones((block.n_tasks, 1)), model.start(0), 2
    )
    return correct_by_writer(method, SimpleNamespace(public=public), params, test)


def controls(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same local choice with a billboard that holds nothing: zero, or noise alone. What it gains is not from sharing."""
    from types import SimpleNamespace

    for name, about in settings.DATA.items():
        for seed in about["seeds"]:
            block, test = load(name, seed)
            method, public = settings.method_for("mean", name, 1.0), public_of(name, seed)
            size = method.built(public).n_parameters
            noise = np.random.default_rng(seed).standard_normal(size)
            for label, board in (("empty", np.zeros(size)), ("noise", 10.0 * noise / np.linalg.norm(noise))):
                record: Any = SimpleNamespace(public=public, billboards=[SimpleNamespace(values={"mean": board})])
                columns = personalised(method, record, block, test, kinds=(settings.CHOICE,))
                results.append({
                    "data": name, "method": f"control-{label}", "epsilon": None, "seed": seed, "parameters": size,
                    "accuracy": {k: float(v.sum() / len(test[1])) for k, v in columns.items()},
                    "correct": {"chosen": columns["chosen"].astype(int).tolist()},
                })  # fmt: skip
                print(json.dumps({k: v for k, v in results[-1].items() if k != "correct"}), flush=True)
    return results


def personalised(
    method: Any, record: Any, block: Any, test: tuple[np.ndarray, ...], kinds: tuple[str, ...] = settings.KINDS,
    stretches: tuple[float, ...] = settings.STRETCHES,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Correct test rows per writer, for every fine-tuning objective and for the writer's own choice.

    Within each column a writer picks the stretch of the anchor on its own folds; "chosen" is the library's default, the
    stretches of one objective or "alone".
    """
    from taskveil.engine.clients import Clients, tuner_of
    from taskveil.engine.features import FeatureMap
    from taskveil.engine.personalise import Option, choose

    public = record.public
    model, tuner = method.built(public), tuner_of(method.built(public), method.tuning(public))
    clients = Clients(block, FeatureMap(None, public.n_features), model, public.seed)
    anchor = np.repeat(np.asarray(record.billboards[-1].values["mean"], np.float32)[None], block.n_tasks, 0)
    options = [Option("alone")]
    options += [Option(k, settings.STRENGTHS[k], s) for k in kinds for s in stretches]
    everybody, first = np.arange(block.n_tasks), model.start(0)
    losses, errors, weights = clients.held_out(tuner, tuple(options), anchor, everybody, first, settings.FOLDS)
    fitted = [np.asarray(tuner.fit(o, anchor, clients._whole(), clients.rows, everybody, first, public.seed)) for o in options]
    correct = np.stack([correct_by_writer(method, record, params, test) for params in fitted])
    columns = {}
    for kind in (*kinds, "chosen"):
        wanted = ("alone", settings.CHOICE) if kind == "chosen" else (kind,)
        among = [i for i, o in enumerate(options) if o.kind in wanted]
        best, _ = choose(losses[among], errors[among], weights, 0 if kind == "chosen" else None)
        columns[kind] = correct[np.asarray(among)[best], everybody]
    return columns


def correct_by_writer(method: Any, record: Any, params: np.ndarray, test: tuple[np.ndarray, ...]) -> np.ndarray:
    from taskveil.methods.base import Models

    models = Models(np.zeros(0), np.zeros(0), None, {"params": params})
    X, y, task = test
    right = method.predict_scores(record, models, X, task).argmax(axis=1) == y
    return np.bincount(task, weights=right, minlength=params.shape[0])


def main() -> None:
    stage = sys.argv[1] if len(sys.argv) > 1 else "all"
    if stage == "plans":
        Path(sys.argv[2]).write_text(json.dumps(make_plans()))
    elif stage == "train":
        train(json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3]), tuple(sys.argv[4:]) or tuple(settings.DATA))
    elif stage == "all":
        train(make_plans(), HERE / "results.json")
    if stage in ("all", "control"):
        file = HERE / "results.json"
        kept = [r for r in json.loads(file.read_text()) if not r["method"].startswith("control")]
        file.write_text(json.dumps(controls(kept)))
    if stage in ("all", "report"):
        from experiments.hu_2023.report import write_report

        write_report(HERE / "results.json", HERE)


if __name__ == "__main__":
    main()
