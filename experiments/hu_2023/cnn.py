"""The network of Table 2 (213,630 parameters, on pixels): Algorithm 1 and private FedAvg as printed, our PMTL, and every writer alone.

    python -m experiments.hu_2023.cnn prepare FOLDER    rows of all splits, noise multipliers (needs $TASKVEIL_DATA)
    python -m experiments.hu_2023.cnn sweep FOLDER      choose and measure (needs JAX only; made for a GPU)
    python -m experiments.hu_2023.cnn keep FOLDER       into cnn.json beside this file

Local steps are the library's own engine. Settings are drawn from a smaller grid than that of the softmax model (grid.py), of at most 400 rounds,
and chosen by published models on the same validation splits: each by one run, the best few by one on every split. A sweep goes through
all cells again and again, each time with more settings behind it, and keeps what it has.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.hu_2023 import grid
from experiments.hu_2023.data import SEEDS, TASKS
from experiments.hu_2023.grid import PAPER_COHORT, PRINTED, REPLACE

HERE = Path(__file__).parent
CLASSES, PIXELS, BATCH = 62, 784, 16
EPSILONS: tuple[float | None, ...] = (0.1, 0.8, 2.0, 4.0, None)
WORK = ((PRINTED, "mean"), (PRINTED, "fedavg"), (REPLACE, "mean"))
GRID: dict[str, tuple[float, ...]] = {
    "rounds": (20, 50, 100, 200, 400), "clip": (0.2, 0.5, 1.0), "rate": (0.03, 0.1, 0.3), "pull": (0.01, 0.1, 1.0), "steps": (5, 20),
    "server_rate": (1.0,),
}  # fmt: skip
OURS = {"rounds": (3, 10, 20, 50, 100), "clip": (0.5, 1.0, 2.0), "server_rate": (1.0, 3.0, 10.0)}
TRIED, AGAIN = 24, 3  # settings of a cell, and how many of them all validation splits judge
TUNED_STEPS, TUNED = 20, (0, 1, 3, 10)  # fine-tuning: so many times 20 steps, the best on validation rows
ALONE = (1, 3, 10, 30, 100)
RATES = (0.03, 0.1, 0.3)
Setting = dict[str, float]


class Split(NamedTuple):
    """Row numbers of every task, padded: to learn from and to judge on, and how many there are."""

    learn: Any
    n_learn: Any
    judged: Any
    n_judged: Any


def settings(side: str, method: str, epsilon: float | None) -> list[Setting]:
    """Random settings of a cell without repeats; the printed step needs eta lambda < 2."""
    axes = GRID | (OURS if side == REPLACE else {}) | ({"pull": (0.0,)} if method == "fedavg" else {})
    if epsilon is None:
        axes = axes | {"clip": (grid.UNCLIPPED,), "rounds": (50, 100, 200, 400)}
    every = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [every[i] for i in np.random.default_rng(3).permutation(len(every))[:TRIED]]


def prepare(folder: Path, tasks: int | None = None) -> None:
    """The splits of the other tables (data.split), of pixels: a row's number stands for its features."""
    from experiments.hu_2023 import data

    X, y, task = data.writings("femnist")
    kept = task < (TASKS["femnist"] if tasks is None else tasks)
    X, y, task = X[kept], y[kept], task[kept]
    found: dict[str, np.ndarray] = {"X": X, "y": y}
    for part, numbers in SEEDS.items():
        for seed in numbers:
            for side, rows in zip(("learn", "judged"), data.split_rows(task, int(task.max()) + 1, seed, part), strict=True):
                owner = task[rows]
                counts = np.bincount(owner, minlength=int(task.max()) + 1)
                table = np.zeros((counts.size, 70), np.int32)
                for k in range(counts.size):
                    table[k, : counts[k]] = rows[owner == k]
                found |= {f"{part}{seed}_{side}": table, f"{part}{seed}_n_{side}": counts.astype(np.int32)}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "pixels.npz", **found)
    (folder / "multipliers.json").write_text((HERE / "multipliers.json").read_text())


class Writers:
    """All writers on the device, and what runs on them."""

    def __init__(self, folder: Path):
        import jax.numpy as jnp

        from taskveil.engine.models import build

        with np.load(folder / "pixels.npz") as file:
            stored = {name: file[name] for name in file.files}
        self.multipliers = json.loads((folder / "multipliers.json").read_text())
        self.X, self.y = jnp.asarray(1 - stored["X"].astype(np.float32) / 255), jnp.asarray(stored["y"].astype(np.int32))
        self.splits = {
            (part, seed): Split(*(jnp.asarray(stored[f"{part}{seed}_{n}"]) for n in ("learn", "n_learn", "judged", "n_judged")))
            for part, numbers in SEEDS.items()
            for seed in numbers
        }
        self.n_tasks = len(stored["test200_n_learn"])
        self.model = build({"name": "cnn"}, PIXELS, CLASSES, "classification")

    @cache  # noqa: B019 (one object a process)
    def compiled(self, steps: int, own_start: bool, cohort: int, explicit: bool) -> Any:
        """One round: (own, anchor, key, split, numbers) -> (own, anchor); numbers are rate, pull, clip, noise on the sum, server rate."""
        import jax
        import jax.numpy as jnp

        from taskveil.engine.rounds import LocalWork, Round
        from taskveil.privacy.bounds import clip_rows

        work = LocalWork(steps=steps, batch_size=BATCH, start="own" if own_start else "shared", explicit=explicit)
        engine, m = Round(self.model, work, exact_sum=False), self.n_tasks

        @partial(jax.jit, donate_argnums=0)
        def one(own: Any, anchor: Any, key: Any, split: Split, numbers: Any) -> tuple[Any, Any]:
            who, rows, noise = jax.random.split(key, 3)
            asked = jax.random.permutation(who, m)[:cohort] if cohort < m else jnp.arange(m)
            at = jax.random.randint(rows, (cohort, steps, BATCH), 0, split.n_learn[asked][:, None, None])
            index = jnp.take_along_axis(split.learn[asked], at.reshape(cohort, -1), axis=1).reshape(at.shape)
            ones = jnp.ones((cohort, 1))
            arrays = anchor[None], own[asked], ones[:, 0], ones, ones[:, 0], index, jnp.full(index.shape, 1 / BATCH)
            new, message = engine._raw(arrays, self.X, self.y, jnp.concatenate([numbers[:2], jnp.ones(1), numbers[2:3]]))
            total = jnp.sum(clip_rows(message, numbers[2], xp=jnp), axis=0)
            total = total + numbers[3] * jax.random.normal(noise, anchor.shape)
            return (own.at[asked].set(new) if own_start else own), anchor + numbers[4] * total / cohort

        return one

    @cache  # noqa: B019
    def judge(self) -> Any:
        import jax
        import jax.numpy as jnp

        @jax.jit
        def accuracy(own: Any, split: Split) -> Any:
            def right(part: tuple[Any, Any, Any]) -> Any:
                params, rows, count = part
                scores = self.model.apply(self.model.unravel(params), self.X[rows])
                return jnp.sum((jnp.argmax(scores, axis=1) == self.y[rows]) & (jnp.arange(rows.size) < count))

            found = jax.lax.map(right, (own, split.judged, split.n_judged), batch_size=min(52, self.n_tasks))
            return jnp.sum(found) / jnp.sum(split.n_judged)

        return accuracy

    def start(self) -> tuple[Any, Any]:
        import jax.numpy as jnp

        first = jnp.asarray(self.model.start(0))
        return jnp.repeat(first[None], self.n_tasks, axis=0), first

    def run(
        self, side: str, method: str, epsilon: float | None, s: Setting, split: Split, seed: int, tune: bool = False
    ) -> list[float]:
        """Accuracy on judged rows of the published models, then after every further fine-tuning."""
        import jax
        import jax.numpy as jnp

        noise = grid.noise_on_sum(side, self.n_tasks, epsilon, s, self.multipliers)
        cohort = min(PAPER_COHORT, self.n_tasks) if side == PRINTED else self.n_tasks
        one = self.compiled(int(s["steps"]), method == "mean", cohort, side == PRINTED)
        numbers = jnp.asarray([s["rate"], s["pull"], s["clip"], noise, s["server_rate"]], jnp.float32)
        (own, anchor), key = self.start(), jax.random.key(seed)
        for t in range(int(s["rounds"])):
            own, anchor = one(own, anchor, jax.random.fold_in(key, t), split, numbers)
        own = own if method == "mean" else jnp.repeat(anchor[None], self.n_tasks, axis=0)
        return self.tuned(own, s["rate"], split, key, TUNED if tune else (0,))

    def tuned(self, own: Any, rate: float, split: Split, key: Any, times: tuple[int, ...]) -> list[float]:
        """Local steps of every task by itself, judged after each of `times` times 20."""
        import jax
        import jax.numpy as jnp

        one, nothing = self.compiled(TUNED_STEPS, True, self.n_tasks, False), jnp.zeros(self.model.n_parameters)
        numbers, found, done = jnp.asarray([rate, 0.0, 1.0, 0.0, 0.0], jnp.float32), [], 0
        for wanted in times:
            for t in range(done, wanted):
                own, _ = one(own, nothing, jax.random.fold_in(key, 10_000 + t), split, numbers)
            done = wanted
            found.append(self.judge()(own, split))
        return [float(value) for value in found]


def alone(writers: Writers) -> dict[str, Any]:
    """Every writer by itself: step and number of steps chosen on validation rows."""
    import jax

    def one(rate: float, part: str, seed: int) -> list[float]:
        return writers.tuned(writers.start()[0], rate, writers.splits[part, seed], jax.random.key(seed), ALONE)

    scores = {rate: np.mean([one(rate, "validation", seed) for seed in SEEDS["validation"]], axis=0) for rate in RATES}
    rate = max(scores, key=lambda r: scores[r].max())
    at = int(scores[rate].argmax())
    return {
        "setting": {"rate": rate, "steps": TUNED_STEPS * ALONE[at]},
        "test": [[one(rate, "test", s)[at]] for s in SEEDS["test"]],
    }


def cell(writers: Writers, side: str, method: str, epsilon: float | None) -> dict[str, Any]:
    """Chosen on validation rows by published models; test accuracy of these and of fine-tuned ones, (splits, 1)."""
    offered, numbers = settings(side, method, epsilon), SEEDS["validation"]
    run = partial(writers.run, side, method, epsilon)
    first = [run(s, writers.splits["validation", numbers[i % len(numbers)]], 100 + i)[0] for i, s in enumerate(offered)]
    few = [offered[i] for i in np.argsort(first)[::-1][:AGAIN]]
    again = np.array([
        np.mean([run(s, writers.splits["validation", n], 900 + n, tune=True) for n in numbers], axis=0) for s in few
    ])  # fmt: skip
    best = int(again[:, 0].argmax())
    times = 1 + int(again[best, 1:].argmax())
    tests = [run(few[best], writers.splits["test", n], 5000 + n, tune=True) for n in SEEDS["test"]]
    return {
        "setting": few[best], "tried": len(offered), "validation": round(float(again[best, 0]), 5), "fine-tuning steps": TUNED_STEPS * TUNED[times],
        "published": [[round(t[0], 5)] for t in tests], "vanilla": [[round(t[times], 5)] for t in tests],
    }  # fmt: skip


def sweep(folder: Path, seconds: float = 1e9) -> None:
    started, file = time.perf_counter(), folder / "cnn.json"
    done: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    writers = Writers(folder)
    cells = [("alone", partial(alone, writers))]
    cells += [(f"{side}/{m}/{e}", partial(cell, writers, side, m, e)) for e in (0.8, 2.0, 0.1, None, 4.0) for side, m in WORK]
    for name, make in cells:
        if name not in done and time.perf_counter() - started < seconds:
            done[name] = make()
            file.write_text(json.dumps(done))
            print(f"{time.perf_counter() - started:7.1f} s  {name}  {json.dumps(done[name])}", flush=True)


def table2(quick: bool, seed: int) -> Any:
    """What a sweep left in cnn.json; nothing is trained here."""
    from experiments.common import Result, below, not_above

    kept, shown = json.loads((HERE / "cnn.json").read_text()), {"published": "published", "vanilla": "fine-tuned (vanilla)"}
    alone = np.array(kept["alone"]["test"])
    known = [e for e in EPSILONS if e is not None and all(f"{side}/{m}/{e}" in kept for side, m in WORK)]
    found = {(side, m, e, c): np.array(kept[f"{side}/{m}/{e}"][c]) for side, m in WORK for e in known for c in shown}
    names = {
        (PRINTED, "mean"): "PMTL, as printed",
        (PRINTED, "fedavg"): "FedAvg, as printed",
        (REPLACE, "mean"): "PMTL, sound, replace-one",
    }
    checks, series = [], {}
    for column, panel in shown.items():
        lines = {name: [found[side, m, e, column] for e in known] for (side, m), name in names.items()} | {
            "alone": [alone for _ in known]
        }
        for name, values in lines.items():
            points = {"x": known, "y": [float(v.mean()) for v in values], "std": [float(v.std()) for v in values]}
            series[f"{panel}: {name}"] = points | {"panel": panel, "label": name}
        for e in known:
            printed, fedavg, ours = (found[side, m, e, column] for side, m in names)
            checks.append(below(f"{panel}: private FedAvg is below PMTL at epsilon {e:g}", fedavg, printed))
            checks.append(below(f"{panel}: local is below PMTL at epsilon {e:g}", alone, printed))
            said = f"{panel}: sound PMTL (replace-one) is at least as good as PMTL as printed at epsilon {e:g}"
            checks.append(not_above(said, printed, ours, margin=0.02, about="ours"))
    return Result(
        "table2", "PMTL", "with the paper's network too, PMTL beats private FedAvg and learning alone",
        "FEMNIST, CNN: local .618; PMTL .371, .498, .621 at epsilon 0.1, 0.8, 2, fine-tuned .645, .640, .677 (Tables 1 and 3)",
        as_printed="; ".join(f"epsilon {e:g}: PMTL {found[PRINTED, 'mean', e, 'published'].mean():.3f}" for e in known) + f"; alone {alone.mean():.3f}",
        checks=checks, series=series, axes={"x": "epsilon", "y": "test accuracy on femnist", "log": "x"},
        settings={"model": "cnn of 213,630 parameters", "settings tried for a cell": TRIED, "chosen": {k: v["setting"] for k, v in kept.items()}},
    )  # fmt: skip


def keep(folder: Path) -> None:
    (HERE / "cnn.json").write_text(json.dumps(json.loads((folder / "cnn.json").read_text()), indent=0))


if __name__ == "__main__":
    command, where, *more = sys.argv[1:]
    {"prepare": prepare, "sweep": sweep, "keep": keep}[command](Path(where), *map(float, more))
