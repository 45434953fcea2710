"""The core: the fused gradient, a proximal iteration, the estimator around it, memory, import."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
from tests.support import proximal_gradient as pg

from benchmarks.timing import measured, take_turns, take_turns_with_processor, unavailable
from taskveil.losses import LOSSES
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.solvers.centred import EVERY, SmoothPart
from taskveil.structures import STRUCTURES
from taskveil.tasks.block import TaskBlock
from taskveil.threads import over_tasks, thread_count

WIDE = (3000, 100, 100)  # tasks, rows, features
MANY = (10_000, 20, 30)


def make_rows(n_tasks: int, n_rows: int, n_features: int) -> TaskBlock:
    """Related tasks of equal size; the truth does not matter here, the shapes do."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_tasks * n_rows, n_features))
    y = X[:, :3].sum(axis=1, keepdims=True) + rng.standard_normal((len(X), 1))
    return TaskBlock(X, y, np.arange(n_tasks + 1, dtype=np.int64) * n_rows)


def readers(block: TaskBlock) -> dict:
    """Two ways to read all of X once: NumPy's sum in parts on our threads, and in one piece."""
    flat, per_row = block.X.ravel(), block.X.shape[1]

    def on_threads():
        over_tasks(lambda a, b: flat[block.offsets[a] * per_row : block.offsets[b] * per_row].sum(), block.offsets, per_row)

    return {"read": on_threads, "sum": flat.sum}


def share_of_bandwidth(seconds: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Time of the faster reader / time of `name`, per turn. Only bytes of X count, not the targets and models read beside."""
    return np.minimum(seconds["read"], seconds["sum"]) / seconds[name]


def default_penalty(block: TaskBlock) -> float:
    """What `low-rank` takes where nothing is given and rows have unit noise: the spectral norm of pure gradient noise."""
    return float((np.sqrt(block.n_tasks) + np.sqrt(block.n_features)) / np.sqrt(block.counts.mean()))


def iteration(block: TaskBlock, structure: str = "trace_norm", penalty: float | None = None, from_rows: bool = False):
    """A call that runs one accelerated proximal round, state in and state out.

    As in a long fit: the first round, before which the curvature of the tasks is packed, has been run, unless `from_rows`
    asks for the rows in every round.
    """
    penalty = default_penalty(block) if penalty is None else penalty
    smooth = SmoothPart(block, LOSSES.get("squared"), from_rows=from_rows)
    problem = pg.Problem(smooth, [(STRUCTURES.get(structure), penalty)])
    holder = [problem.start()]

    def once():
        state = holder[0]
        holder[0] = pg.step(problem, state, pg.momentum("accelerated", state.since_restart + 1))

    once()
    return once


def cycle(once):
    """A call that runs every kind of round in its proportion: one that reads the rows and all until the next such one."""

    def rounds():
        for _ in range(EVERY):
            once()

    return rounds


def loop_iteration(block: TaskBlock):
    """What one writes first: NumPy calls per task, then the same proximal map."""
    structure, step = STRUCTURES.get("trace_norm"), 0.1
    W, m = np.zeros((block.n_tasks, block.n_features)), block.n_tasks

    def once():
        nonlocal W
        G = np.empty_like(W)
        for i in range(m):
            rows = slice(block.offsets[i], block.offsets[i + 1])
            X, y = block.X[rows], block.y[rows, 0]
            G[i] = X.T @ (X @ W[i] - y) / len(y)
        W = structure.prox((W - step * G).T, 0.1 * step).T

    return once


def batched_iteration(block: TaskBlock):
    """The same round in batched NumPy: two stacked products over all tasks, then the same proximal map; no intercepts."""
    structure, step = STRUCTURES.get("trace_norm"), 0.1
    m, penalty = block.n_tasks, default_penalty(block)
    X, y = block.X.reshape(m, -1, block.n_features), block.y.reshape(m, -1, 1)
    W = np.zeros((m, block.n_features))

    def once():
        nonlocal W
        residuals = X @ W[:, :, None] - y
        G = (X.transpose(0, 2, 1) @ residuals)[:, :, 0] / X.shape[1]
        W = structure.prox((W - step * G).T, penalty * step).T

    return once


def gradient_bandwidth(repeats: int) -> dict:
    block = make_rows(*WIDE)
    W, b = np.zeros((WIDE[0], 1, WIDE[2])), np.zeros((WIDE[0], 1))
    calls = readers(block)
    for loss in ("squared", "logistic"):
        calls[loss] = lambda loss=loss: mean_gradients(block, W, b, LOSSES.get(loss))
    return _bandwidth(block, calls, "squared", repeats)


def iteration_bandwidth(repeats: int) -> dict:
    block = make_rows(*WIDE)
    calls = {
        **readers(block),
        "iteration": cycle(iteration(block)),
        "full-rank": cycle(iteration(block, penalty=0.1)),  # so small that no direction is dropped: the dearest case
        "group-sparse": cycle(iteration(block, "group_sparse")),
        "from rows": iteration(block, from_rows=True),
        "batched NumPy": batched_iteration(block),
    }
    rounds = dict.fromkeys(["iteration", "full-rank", "group-sparse"], EVERY)
    return {**_bandwidth(block, calls, "iteration", repeats, rounds), **_packing(block)}


def _packing(block: TaskBlock) -> dict:
    """What packing the curvature takes once, in milliseconds, and what a round reads on average, over the bytes of X."""
    smooth = SmoothPart(block, LOSSES.get("squared"))
    start = time.perf_counter()
    smooth.curvature.pack_missing()
    seconds = time.perf_counter() - start
    share = smooth.curvature.numbers.nbytes / block.X.nbytes
    return {"packing_ms": round(1e3 * seconds, 1), "read_of_X": round((1 + (EVERY - 1) * share) / EVERY, 3)}


def _bandwidth(block: TaskBlock, calls: dict, name: str, repeats: int, rounds: dict[str, int] | None = None) -> dict:
    """Shares of the read bandwidth; a call in `rounds` stands for so many."""
    pairs = take_turns_with_processor(calls, repeats)
    pairs = {k: v / (rounds or {}).get(k, 1) for k, v in pairs.items()}
    seconds, used = ({k: v[:, j] for k, v in pairs.items()} for j in (0, 1))
    by_processor = float(np.median(share_of_bandwidth(used, name)))
    details = _details(block, seconds)
    shares = {other: float(np.median(share_of_bandwidth(seconds, other))) for other in calls if other not in ("read", "sum")}
    return measured(share_of_bandwidth(seconds, name), at_least=0.6, by_processor_time=by_processor, shares=shares, **details)


def speed_up_over_loop(repeats: int) -> dict:
    block = make_rows(*MANY)
    seconds = take_turns({"loop": loop_iteration(block), "iteration": iteration(block)}, repeats)
    return measured(seconds["loop"] / seconds["iteration"], at_least=5.0, **_details(block, seconds))


def linear_in_tasks(repeats: int) -> dict:
    sizes = [3000, 6000, 12_000, 24_000]  # smaller ones measure what every round costs, not how it grows
    calls = {str(m): cycle(iteration(make_rows(m, 50, 40))) for m in sizes}
    seconds = {m: t / EVERY for m, t in take_turns(calls, repeats).items()}
    logs = np.log([seconds[str(m)] for m in sizes])
    slopes = [np.polyfit(np.log(sizes), logs[:, k], 1)[0] for k in range(repeats)]
    middle = {m: float(np.median(t)) for m, t in seconds.items()}
    return measured(slopes, at_least=0.8, at_most=1.2, seconds=middle)


def fit_iteration_bandwidth(repeats: int) -> dict:
    return _fit_round(WIDE, min(repeats, 3), against="bandwidth")


def fit_speed_up_over_loop(repeats: int) -> dict:
    return _fit_round(MANY, min(repeats, 3), against="loop")


def _fit_round(shape, repeats: int, against: str) -> dict:
    """Seconds of one round of a fit: a long fit less a short one, over the difference in rounds."""
    try:
        import taskveil as tv
        from taskveil import methods
    except ImportError as error:
        return unavailable(f"the estimator is not importable: {error}")
    block, few, many = make_rows(*shape), 5, 105
    task = np.repeat(np.arange(shape[0]), shape[1])

    def fit(rounds):
        # Starting from zero instead of the tasks' own models changes no round, only the time before the first.
        method = methods.get("low-rank", rounds=rounds, tol=0.0, start="zero")
        return tv.TaskRegressor(method=method, epsilon=None).fit(block.X, block.y[:, 0], task=task)

    calls = {"few": lambda: fit(few), "many": lambda: fit(many)}
    calls |= readers(block) if against == "bandwidth" else {"loop": loop_iteration(block)}
    try:
        seconds = take_turns(calls, repeats)
    except Exception as error:  # whatever stops a fit, the other benchmarks still run
        return unavailable(f"the fit stopped with {type(error).__name__}: {error}")
    seconds["round"] = np.maximum((seconds["many"] - seconds["few"]) / (many - few), 1e-9)
    if against == "bandwidth":
        return measured(share_of_bandwidth(seconds, "round"), at_least=0.6, **_details(block, seconds))
    return measured(seconds["loop"] / seconds["round"], at_least=5.0, **_details(block, seconds))


MEMORY = """
import json, resource, sys
import numpy as np
import taskveil as tv
from taskveil import methods
def fit(m, n, d, shuffled):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m * n, d)); y = X[:, 0] + rng.standard_normal(m * n)
    task = np.repeat(np.arange(m), n)
    if shuffled: rng.shuffle(task)
    method = methods.get("low-rank", rounds=30, tol=0.0, penalty=0.1)
    before = rss()
    tv.TaskRegressor(method=method, epsilon=None).fit(X, y, task=task)
    return before, X.nbytes + y.nbytes + task.nbytes
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
fit(50, 20, 5, False)
before, arrays = fit({m}, {n}, {d}, {shuffled})
# Not ru_maxrss: a child starts with that of the process that started it.
peak = next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({{"before": before, "arrays": arrays, "peak": peak}}))
"""


def peak_memory(repeats: int) -> dict:
    """Of a fit in a fresh process, after a small one has loaded what it needs; rows sorted and shuffled."""
    if not sys.platform.startswith("linux"):
        return unavailable("peak memory is read from /proc")
    ratios, details = [], {}
    for shuffled in (False, True):
        code = MEMORY.format(m=WIDE[0], n=WIDE[1], d=WIDE[2], shuffled=shuffled)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            return unavailable("the fit did not run: " + (done.stderr.strip().splitlines() or ["no message"])[-1])
        seen = json.loads(done.stdout)
        ratios.append((seen["peak"] - seen["before"]) / seen["arrays"])
        details["shuffled" if shuffled else "sorted"] = {k: round(v / 1e6) for k, v in seen.items()}
    return measured(max(ratios), at_most=1.5, megabytes=details)


def import_time(repeats: int) -> dict:
    """Seconds in a fresh interpreter, file cache warm; the bare interpreter's start is listed beside it."""

    def run(code):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        return time.perf_counter() - start

    use = "import taskveil; taskveil.TaskRegressor"
    run(use)
    pairs = np.array([(run("import taskveil"), run("pass")) for _ in range(max(3, repeats // 2))])
    heavy = "import sys, taskveil; print([m for m in %r if m in sys.modules])"
    names = ["jax", "flwr", "plotly", "sqlalchemy", "dp_accounting", "opendp", "pandas", "numba"]
    loaded = subprocess.run([sys.executable, "-c", heavy % names], check=True, capture_output=True, text=True)
    details = {"bare_interpreter": float(np.median(pairs[:, 1])), "with_estimator": run(use)}
    return measured(pairs[:, 0], at_most=1.5, heavy_modules_loaded=loaded.stdout.strip(), **details)


def _details(block: TaskBlock, seconds: dict[str, np.ndarray]) -> dict:
    gigabytes = block.X.nbytes / 1e9
    return {
        "threads": thread_count(),
        "shape": [block.n_tasks, int(block.sizes[0]), block.n_features],
        "median_ms": {name: round(1e3 * float(np.median(t)), 2) for name, t in seconds.items()},
        "best_ms": {name: round(1e3 * float(np.min(t)), 2) for name, t in seconds.items()},
        "best_read_gigabytes_per_second": round(
            gigabytes / min(float(np.min(seconds[k])) for k in ("read", "sum") if k in seconds), 1
        )
        if "read" in seconds
        else None,
    }


BENCHMARKS = {
    "gradient-bandwidth": gradient_bandwidth,
    "iteration-bandwidth": iteration_bandwidth,
    "speed-up-over-loop": speed_up_over_loop,
    "linear-in-tasks": linear_in_tasks,
    "fit-iteration-bandwidth": fit_iteration_bandwidth,
    "fit-speed-up-over-loop": fit_speed_up_over_loop,
    "peak-memory": peak_memory,
    "import-time": import_time,
}
