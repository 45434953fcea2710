"""Chooses every method's settings on validation rows and measures the tables with them.

    python -m experiments.hu_2023.tune prepare FOLDER [DATA/SIDE/METHOD ...]
                                                        splits, noise multipliers (needs $TASKVEIL_DATA and dp-accounting) and what
                                                        is known already, but for what shall be tuned again
    python -m experiments.hu_2023.tune sweep FOLDER     choose, measure, check (needs JAX only; made for a GPU)
    python -m experiments.hu_2023.tune keep FOLDER      into tuned.json and measured.json beside this file

A sweep keeps what it has after every step and skips it when called again, so an interrupted one goes on where it stopped.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.hu_2023 import grid
from experiments.hu_2023.data import SEEDS
from experiments.hu_2023.grid import EPSILONS, PAPER_COHORT, PRINTED, REPLACE

HERE = Path(__file__).parent
DATA = {"femnist": 62, "tags": 20}  # classes
WHICH = ("validation", "test")
SPLITS = {which: len(SEEDS[which]) for which in WHICH}
WANTED = {  # criterion -> its columns; a setting is chosen for each criterion
    "published": {"published": 0}, "fine-tuned": {"vanilla": 1, "mean": 2, "symmetrised-kl": 3, "ewc": 4}, "chosen": {"chosen": 5},
}  # fmt: skip
CRITERIA = tuple(WANTED)
DRAWS = 2  # noise draws of each split
TOGETHER = (144, 24)  # runs of one call: as many of the larger kind as are filled to a half, then the smaller
TRIES = {PRINTED: None, REPLACE: 400}  # settings to choose from: the whole grid, or random ones
WHOLE = 40  # the best by their published models and as many others are judged by all columns, which costs more than the rounds
AGAIN = {"published": 16, "fine-tuned": 4, "chosen": 4}  # the best are judged again over all validation splits
FRESH = 200  # random settings to check the printed choice against
WORK = (  # in the order of what the page needs most
    ("tags", PRINTED, "pp-sgd"), ("tags", PRINTED, "mean"), ("femnist", PRINTED, "fedavg"), ("femnist", PRINTED, "mean"),
    ("femnist", PRINTED, "fedprox"), ("tags", PRINTED, "fedavg"), ("tags", REPLACE, "mean"), ("femnist", REPLACE, "mean"),
    ("femnist", REPLACE, "fedavg"), ("tags", REPLACE, "fedavg"), ("femnist", REPLACE, "fedprox"), ("femnist", REPLACE, "naive-dp"),
)  # fmt: skip


# ----------------------------------------------------------------- prepare


def prepare(folder: Path, *again: str) -> None:
    from experiments.hu_2023.data import TASKS, prepared

    folder.mkdir(parents=True, exist_ok=True)
    multipliers = folder / "multipliers.json"
    known = json.loads(multipliers.read_text()) if multipliers.exists() else {}
    for name in DATA:
        np.savez_compressed(folder / f"{name}.npz", **prepared(name))
        known = grid.printed_multipliers(TASKS[name], known)
        multipliers.write_text(json.dumps(known))
        (folder / f"done_{name}.json").write_text(json.dumps(done_before(name, again)))


def done_before(name: str, again: tuple[str, ...]) -> dict[str, Any]:
    """tuned.json and measured.json as a sweep keeps them, without the methods to tune again."""
    tuned, measured = (json.loads((HERE / f"{file}.json").read_text())[name] for file in ("tuned", "measured"))
    every = tuned | {k if k == "alone" else f"measured/{k}": v for k, v in measured.items()}
    return {k: v for k, v in every.items() if f"{name}/{k.partition('/')[2]}" not in again}


def splits_of(folder: Path, name: str) -> dict[str, tuple[Any, Any, Any]]:
    """Stacked training rows, rows to judge on and folds of the "validation" and "test" splits, all of one shape: compiled once."""
    from experiments.hu_2023.simulate import Rows

    with np.load(folder / f"{name}.npz") as file:
        stored = {key: file[key] for key in file.files}
    most = max(len(stored[f"{which}_folds"]) for which in WHICH)

    def alike(which: str, key: str) -> np.ndarray:
        width = max(stored[f"{w}{key}"].shape[2] for w in WHICH)
        values = stored[f"{which}{key}"]
        return np.pad(values, [(0, most - len(values)), (0, 0), (0, width - values.shape[2]), *[(0, 0)] * (values.ndim - 3)])

    found = {}
    for which in WHICH:
        rows, judged = (Rows(*(alike(which, f"{part}_{a}") for a in ("X", "y", "weight"))) for part in ("", "_judged"))
        found[which] = rows, judged, alike(which, "_folds")
    return found


# ------------------------------------------------------------------- sweep

Setting = dict[str, float]
Job = tuple[float | None, Setting, int, int]  # epsilon, setting, split, noise key


def by_criterion(columns: np.ndarray) -> np.ndarray:
    """(..., columns) -> (..., criteria): the four fine-tuned models count as one, by their mean."""
    if columns.shape[-1] == 1:
        return columns
    return np.stack([columns[..., 0], columns[..., 1:5].mean(axis=-1), columns[..., 5]], axis=-1)


class Sweep:
    """All runs on one data set; `done` is what has been measured, by name."""

    def __init__(self, folder: Path, name: str):
        import jax

        self.name, self.classes, self.file = name, DATA[name], folder / f"done_{name}.json"
        self.done: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.multipliers = json.loads((folder / "multipliers.json").read_text())
        self.splits = {which: jax.device_put(parts) for which, parts in splits_of(folder, name).items()}
        _, self.n_tasks, _, self.width = self.splits["test"][0].X.shape
        self.started = time.perf_counter()

    def keep(self, name: str, value: Any) -> None:
        self.done[name] = value
        self.file.write_text(json.dumps(self.done))
        print(f"{time.perf_counter() - self.started:7.1f} s  {self.name}  {name}", flush=True)

    def scores(self, side: str, method: str, jobs: list[Job], which: str, all_columns: bool = True) -> np.ndarray:
        """(jobs, columns); jobs with the same rounds and local steps run together."""
        groups: dict[tuple[int, int], list[int]] = {}
        for i, (_, setting, _, _) in enumerate(jobs):
            groups.setdefault((int(setting["rounds"]), int(setting["steps"])), []).append(i)
        waiting = []
        for shape, members in groups.items():
            while members:
                size = next((n for n in TOGETHER if 2 * len(members) > n), TOGETHER[-1])
                part, members = members[:size], members[size:]
                waiting.append((part, self._call(side, method, [jobs[i] for i in part], size, shape, which, all_columns)))
        found = {i: row for part, values in waiting for i, row in zip(part, np.asarray(values, float), strict=False)}
        return np.stack([found[i] for i in range(len(jobs))])

    def _call(
        self, side: str, method: str, jobs: list[Job], size: int, shape: tuple[int, int], which: str, all_columns: bool
    ) -> Any:
        import jax

        from experiments.hu_2023.simulate import scores

        jobs = [*jobs, *jobs[-1:] * (size - len(jobs))]
        noises = [grid.noise_on_sum(side, self.n_tasks, e, s, self.multipliers) for e, s, _, _ in jobs]
        knobs = grid.knobs(side, method, [s for _, s, _, _ in jobs], noises)
        cohort = min(PAPER_COHORT, self.n_tasks) if side == PRINTED else self.n_tasks
        keys = jax.vmap(jax.random.key)(np.array([k for *_, k in jobs], np.uint32))
        kind = method if method in ("pp-sgd", "naive-dp") else "steps"
        at = np.array([split for _, _, split, _ in jobs])
        rounds, steps = (np.int32(n) for n in shape)
        return scores(kind, self.splits[which], at, self.classes, cohort, rounds, steps, knobs, keys, all_columns)

    def judged(
        self, side: str, method: str, pairs: list[tuple[float | None, Setting]], noise: int, draws: int = DRAWS, all_columns: bool = True
    ) -> np.ndarray:  # fmt: skip
        """(pairs, criteria) on validation rows, means over splits and noise draws; without `all_columns` of published models alone."""
        runs = [(k, noise + 10 * d + k) for d in range(draws) for k in range(SPLITS["validation"])]
        jobs = [(e, s, *run) for e, s in pairs for run in runs]
        values = self.scores(side, method, jobs, "validation", all_columns)
        return by_criterion(values.reshape(len(pairs), len(runs), -1).mean(axis=1))

    def sorted_once(
        self, side: str, method: str, tried: dict[float | None, list[Setting]], noise: int, all_columns: bool
    ) -> dict[float | None, np.ndarray]:  # fmt: skip
        """(settings, criteria) of every epsilon from one run each."""
        jobs = [(e, s, i % SPLITS["validation"], noise + i) for e, settings in tried.items() for i, s in enumerate(settings)]
        values = by_criterion(self.scores(side, method, jobs, "validation", all_columns))
        ends = np.cumsum([len(settings) for settings in tried.values()])[:-1]
        return dict(zip(tried, np.split(values, ends), strict=True))

    def choose(self, side: str, method: str) -> None:
        """A setting for every epsilon and criterion: all by one run each, then the best few by several."""
        name = f"chosen/{side}/{method}"
        if name in self.done:
            return
        tried = {e: self.tried(side, method, e) for e in EPSILONS}
        first = self.sorted_once(side, method, tried, 0, all_columns=False)
        best = {e: [tried[e][i] for i in np.argsort(-first[e][:, 0])] for e in EPSILONS}
        some = {e: [s for s in best[e] if s in best[e][:WHOLE] or s in tried[e][:WHOLE]] for e in EPSILONS}
        whole = self.sorted_once(side, method, some, 50000, all_columns=True)
        result: dict[str, Any] = {str(e): {} for e in EPSILONS}
        for n, criterion in enumerate(CRITERIA):
            many = AGAIN[criterion]
            few = best if n == 0 else {e: [some[e][i] for i in np.argsort(-whole[e][:, n])] for e in EPSILONS}
            again = [(e, s) for e in EPSILONS for s in few[e][:many]]
            scores = self.judged(side, method, again, 900, all_columns=n > 0)[:, n]
            for e in EPSILONS:
                at = max((i for i, (f, _) in enumerate(again) if f == e), key=scores.__getitem__)
                result[str(e)][criterion] = {"setting": again[at][1], "validation": round(float(scores[at]), 5)}
        self.keep(name, result)

    def tried(self, side: str, method: str, epsilon: float | None) -> list[Setting]:
        settings = grid.draw(side, method, epsilon, TRIES[side], seed=1)
        if side != PRINTED and method == "mean" and epsilon is not None:
            settings[0] = grid.shipped(side, self.name, self.n_tasks, self.width * self.classes, epsilon)
        return settings

    def measure(self, side: str, method: str) -> None:
        """Test accuracy (splits, draws) of every column, each with the setting that was chosen for it."""
        name = f"measured/{side}/{method}"
        if name in self.done:
            return
        found: dict[str, dict[str, Any]] = {str(e): {} for e in EPSILONS}
        for criterion in CRITERIA:
            jobs = [
                (e, self.done[f"chosen/{side}/{method}"][str(e)][criterion]["setting"], split, 5000 + 10 * split + d)
                for e in EPSILONS for split in range(SPLITS["test"]) for d in range(DRAWS)
            ]  # fmt: skip
            values = self.scores(side, method, jobs, "test", criterion != "published")
            for e, part in zip(EPSILONS, values.reshape(len(EPSILONS), SPLITS["test"], DRAWS, -1), strict=True):
                found[str(e)] |= {c: part[..., n].round(5).tolist() for c, n in WANTED[criterion].items()}
        self.keep(name, found)

    def check(self, method: str) -> None:
        """The best of fresh random settings of the printed grid beside the chosen one, published models, with noise that chose neither."""
        name = f"random/{PRINTED}/{method}"
        if name in self.done:
            return
        fresh = {e: grid.draw(PRINTED, method, e, FRESH, seed=2) for e in EPSILONS}
        first = self.sorted_once(PRINTED, method, fresh, 20000, all_columns=False)
        few = [(e, fresh[e][i]) for e in EPSILONS for i in np.argsort(-first[e][:, 0])[:5]]
        second = self.judged(PRINTED, method, few, 40000, all_columns=False)[:, 0].reshape(len(EPSILONS), -1)
        best = [few[5 * n + int(i)] for n, i in enumerate(second.argmax(axis=1))]
        chosen = [(e, self.done[f"chosen/{PRINTED}/{method}"][str(e)]["published"]["setting"]) for e in EPSILONS]
        last = self.judged(PRINTED, method, [*chosen, *best], 30000, 2 * DRAWS, all_columns=False)[:, 0].round(5).reshape(2, -1)
        self.keep(name, {
            str(e): {"tried": len(fresh[e]), "setting": setting, "chosen": float(mine), "best of random": float(other)}
            for (e, setting), mine, other in zip(best, *last, strict=True)
        })  # fmt: skip

    def alone(self) -> None:
        """Every task by itself: the same local solver, no billboard."""
        if "alone" in self.done:
            return
        import jax

        from experiments.hu_2023.simulate import accuracy, fine_tuned

        def one(rows: Any, judged: Any, folds: Any) -> Any:
            zero = jax.numpy.zeros((self.n_tasks, self.width, self.classes))
            return accuracy(fine_tuned("vanilla", zero, zero, rows), judged)

        self.keep("alone", np.asarray(jax.jit(jax.vmap(one))(*self.splits["test"]), float).round(5).tolist())


def sweep(folder: Path) -> None:
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")  # as on a processor
    places = {name: Sweep(folder, name) for name in DATA}
    for name, side, method in WORK:
        places[name].alone()
        places[name].choose(side, method)
        places[name].measure(side, method)
        if side == PRINTED:
            places[name].check(method)


def keep(folder: Path) -> None:
    """What the tables are made from: settings with their validation accuracy, and test accuracies."""
    tuned, measured = {}, {}
    for name in DATA:
        file = folder / f"done_{name}.json"
        done = json.loads(file.read_text()) if file.exists() else {}
        tuned[name] = {k: v for k, v in done.items() if k.startswith(("chosen/", "random/"))}
        measured[name] = {k.removeprefix("measured/"): v for k, v in done.items() if k not in tuned[name]}
    (HERE / "tuned.json").write_text(json.dumps(tuned, indent=0))
    (HERE / "measured.json").write_text(json.dumps(measured))


if __name__ == "__main__":
    {"prepare": prepare, "sweep": sweep, "keep": keep}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
