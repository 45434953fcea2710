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
from experiments.hu_2023.grid import ADD, EPSILONS, PAPER_COHORT, PRINTED, REPLACE

HERE = Path(__file__).parent
DATA = {"femnist": 62, "tags": 20}  # classes
WHICH = ("validation", "test")
SPLITS = {which: len(SEEDS[which]) for which in WHICH}
WANTED = {  # criterion -> its columns; a setting is chosen for each criterion
    "published": {"published": 0}, "fine-tuned": {"vanilla": 1, "mean": 2, "symmetrised-kl": 3, "ewc": 4}, "chosen": {"chosen": 5},
}  # fmt: skip
CRITERIA = tuple(WANTED)
DRAWS = 2  # noise draws of each test split
TOGETHER = SPLITS["test"] * DRAWS  # runs of one call
TRIES = {PRINTED: 400, REPLACE: 200, ADD: 200}  # random settings to choose from
FRESH = 200  # others, to check the printed choice against
AGAIN = 12  # the best of them are judged again over all validation splits
WORK = (  # in the order of what the page needs most
    ("tags", PRINTED, "mean"), ("femnist", PRINTED, "fedavg"), ("femnist", PRINTED, "fedprox"), ("tags", PRINTED, "fedavg"),
    ("tags", REPLACE, "mean"), ("femnist", REPLACE, "mean"), ("femnist", REPLACE, "fedavg"), ("femnist", PRINTED, "mean"),
    ("tags", REPLACE, "fedavg"), ("femnist", REPLACE, "fedprox"), ("tags", PRINTED, "pp-sgd"), ("tags", REPLACE, "pp-sgd"),
    ("femnist", ADD, "mean"), ("femnist", REPLACE, "naive-dp"),
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

Job = tuple[float | None, dict[str, float], int, int]  # epsilon, setting, split, noise key


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
            for start in range(0, len(members), TOGETHER):
                part = members[start : start + TOGETHER]
                waiting.append((part, self._call(side, method, [jobs[i] for i in part], shape, which, all_columns)))
        found = {i: row for part, values in waiting for i, row in zip(part, np.asarray(values, float), strict=False)}
        return np.stack([found[i] for i in range(len(jobs))])

    def _call(self, side: str, method: str, jobs: list[Job], shape: tuple[int, int], which: str, all_columns: bool) -> Any:
        import jax

        from experiments.hu_2023.simulate import scores

        jobs = [*jobs, *jobs[-1:] * (TOGETHER - len(jobs))]  # always of one shape
        noises = [grid.noise_on_sum(side, self.n_tasks, e, s, self.multipliers) for e, s, _, _ in jobs]
        knobs = grid.knobs(side, method, [s for _, s, _, _ in jobs], noises)
        cohort = min(PAPER_COHORT, self.n_tasks) if side == PRINTED else self.n_tasks
        keys = jax.vmap(jax.random.key)(np.array([k for *_, k in jobs], np.uint32))
        kind = method if method in ("pp-sgd", "naive-dp") else "steps"
        at = np.array([split for _, _, split, _ in jobs])
        rounds, steps = (np.int32(n) for n in shape)
        return scores(kind, self.splits[which], at, self.classes, cohort, rounds, steps, knobs, keys, all_columns)

    def tried(self, side: str, method: str, epsilon: float | None) -> list[dict[str, float]]:
        settings = grid.draw(side, method, epsilon, TRIES[side], seed=1)
        if side != PRINTED and method == "mean" and epsilon is not None:
            settings[0] = grid.shipped(side, self.name, self.n_tasks, self.width * self.classes, epsilon)
        return settings

    def choose(self, side: str, method: str) -> None:
        """A setting for every epsilon and criterion: random ones by their published model, then the best few by all columns."""
        name = f"chosen/{side}/{method}"
        if name in self.done:
            return
        tried = {e: self.tried(side, method, e) for e in EPSILONS}
        jobs = [(e, s, i % SPLITS["validation"], i) for e in EPSILONS for i, s in enumerate(tried[e])]
        first, again = self.scores(side, method, jobs, "validation", all_columns=False)[:, 0], []
        for e in EPSILONS:
            part, first = np.split(first, [len(tried[e])])
            best = {0, *(int(i) for i in np.argsort(-part)[:AGAIN])}
            again += [(e, tried[e][i]) for i in sorted(best)]
        many = SPLITS["validation"]
        second = self.scores(side, method, [(e, s, k, 900 + k) for e, s in again for k in range(many)], "validation")
        mean = second.reshape(len(again), many, -1).mean(axis=1)
        judged = np.stack([mean[:, 0], mean[:, 1:5].mean(axis=1), mean[:, 5]], axis=1)
        result: dict[str, Any] = {}
        for e in EPSILONS:
            mine = [i for i, (f, _) in enumerate(again) if f == e]
            best = {c: mine[int(np.argmax(judged[mine, n]))] for n, c in enumerate(CRITERIA)}
            result[str(e)] = {
                c: {"setting": again[i][1], "validation": round(float(judged[i, n]), 5)} for n, (c, i) in enumerate(best.items())
            }  # fmt: skip
        self.keep(name, result)

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

    def check(self, method: str, epsilons: tuple[float | None, ...] = EPSILONS) -> None:
        """The best of fresh random settings of the printed grid beside the chosen one, on the same validation splits with noise that chose neither."""
        name = f"random/{PRINTED}/{method}"
        found = self.done.setdefault(name, {})
        for e in epsilons:
            chosen = self.done[f"chosen/{PRINTED}/{method}"][str(e)]["published"]["setting"]
            row = found.get(str(e)) or self.best_of_random(method, e)
            both = [chosen, row["setting"]] if "setting" in row else [chosen]  # older rows kept the score alone
            scores = self.judged(method, e, both, 30000, 1 if len(both) == 1 else DRAWS)
            found[str(e)] = row | dict(zip(("chosen", "best of random"), map(float, scores), strict=False))
            self.keep(name, found)

    def best_of_random(self, method: str, epsilon: float | None) -> dict[str, Any]:
        """One split sorts fresh settings; the best five are judged on all of them."""
        fresh = grid.draw(PRINTED, method, epsilon, FRESH, seed=2)
        jobs = [(epsilon, s, i % SPLITS["validation"], 20000 + i) for i, s in enumerate(fresh)]
        first = self.scores(PRINTED, method, jobs, "validation", all_columns=False)[:, 0]
        few = [fresh[i] for i in np.argsort(-first)[:5]]
        return {"tried": len(fresh), "setting": few[int(self.judged(method, epsilon, few, 40000).argmax())]}

    def judged(
        self, method: str, epsilon: float | None, settings: list[dict[str, float]], noise: int, draws: int = 1
    ) -> np.ndarray:
        """Accuracy of published models, a mean over the validation splits and noise draws."""
        runs = [(k, noise + 100 * d + k) for d in range(draws) for k in range(SPLITS["validation"])]
        jobs = [(epsilon, s, *run) for s in settings for run in runs]
        values = self.scores(PRINTED, method, jobs, "validation", all_columns=False)
        return values.reshape(len(settings), len(runs)).mean(axis=1).round(5)

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
    places = {name: Sweep(folder, name) for name in DATA}
    for name, side, method in WORK:
        places[name].alone()
        places[name].choose(side, method)
        places[name].measure(side, method)
        if side == PRINTED and f"random/{side}/{method}" not in places[name].done:
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
