"""Time to solution: whole calls, from arrays or a command line to fitted models, beside what one would use instead.

Octave runs least_trace.m, MALSAR's algorithm in our own plain words, where Octave is installed. Processor seconds stand beside
the clock: on a busy machine they say more.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from benchmarks.core import MANY, WIDE, default_penalty, make_rows
from benchmarks.timing import measured, take_turns_with_processor, unavailable

HERE = Path(__file__).parent
ROUNDS = 50
CROWD = (100_000, MANY[1], MANY[2])  # tasks, rows, features
PEER_TASKS = 2000  # over which a loop of scikit-learn is measured


def low_rank_fit(repeats: int) -> dict:
    """`TaskRegressor("low-rank", rounds=50, epsilon=None).fit`, warm, against the same number of iterations under Octave."""
    octave = shutil.which("octave-cli") or shutil.which("octave")
    if octave is None:
        return unavailable("Octave is not installed (Debian: apt-get install octave)")
    fit = low_rank_call()
    fit()
    ours = np.array([seconds_of(fit) for _ in range(min(repeats, 3))])
    sizes = [str(value) for value in (*WIDE, ROUNDS, WIDE[1] * default_penalty(make_rows(*WIDE)))]
    done = subprocess.run(
        [octave, "--quiet", "--no-init-file", str(HERE / "least_trace.m"), *sizes], capture_output=True, text=True, check=True
    )
    theirs, megabytes = float(done.stdout), np.prod(WIDE) * 8 / 1e6
    return measured(
        theirs / ours[:, 0], at_least=20.0, seconds=round(float(np.median(ours[:, 0])), 2),
        processor_seconds=round(float(np.median(ours[:, 1])), 2), peer=f"Octave, MALSAR's algorithm: {theirs:.1f} s",
        floor=f"{round(floor_of_low_rank(), 2)} s: X ({megabytes:.0f} MB) read 7 times, 5 million operations per task",
    )  # fmt: skip


def low_rank_call():
    import taskveil as tv
    from taskveil import methods

    block = make_rows(*WIDE)
    task = np.repeat(np.arange(WIDE[0]), WIDE[1])
    method = methods.get("low-rank", rounds=ROUNDS)
    return lambda: tv.TaskRegressor(method=method, epsilon=None).fit(block.X, block.y[:, 0], task=task)


def floor_of_low_rank() -> float:
    """Seconds to read X as often as a fit must, and to do its operations at the speed of a large product."""
    block, tasks = make_rows(*WIDE), WIDE[0]
    side = np.random.default_rng(0).standard_normal((1000, 1000))
    reading, product = (min(seconds_of(call)[0] for _ in range(3)) for call in (block.X.sum, lambda: side @ side))
    return 7 * reading + 5e6 * tasks * product / 2e9


def low_rank_cold(repeats: int) -> dict:
    """The first fit of a process whose compiled loops are in the cache, less a warm one: seconds."""
    code = (
        "import time, benchmarks.whole as w; fit = w.low_rank_call(); times = []\n"
        "for _ in range(2):\n    start = time.perf_counter(); fit(); times.append(time.perf_counter() - start)\n"
        "print(times[0] - times[1])"
    )
    found = [float(in_a_process(["-c", code]).stdout) for _ in range(min(repeats, 3))]
    return measured(found, at_most=2.0, peer="a warm fit of the same process")


@cache  # one fit answers for its time and its memory
def crowd(method: str, n_tasks: int, dtype: str = "float64") -> dict:
    """Seconds and memory of a private fit of so many small tasks, in a process of its own."""
    code = CROWD_FIT.format(method=method, m=n_tasks, n=CROWD[1], d=CROWD[2], dtype=dtype)
    return json.loads(in_a_process(["-c", code]).stdout)


CROWD_FIT = """
import json, resource, time, warnings
import numpy as np
import taskveil as tv
warnings.simplefilter("ignore")
def fit(m, n={n}, d={d}):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m * n, d), dtype=np.{dtype}); y = X[:, :3].sum(axis=1) + rng.standard_normal(m * n, dtype=np.{dtype})
    task = np.repeat(np.arange(m), n)
    before, start, used = rss(), time.perf_counter(), time.process_time()
    tv.TaskRegressor("{method}", epsilon=1.0).fit(X, y, task=task)
    return dict(seconds=time.perf_counter() - start, processor=time.process_time() - used, before=before,
                arrays=X.nbytes + y.nbytes + task.nbytes)
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
fit(300)
found = fit({m})
found["peak"] = next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps(found))
"""


def crowd_seconds(method: str):
    def seconds(repeats: int) -> dict:
        found = crowd(method, CROWD[0])
        peer = ridge_loop() * CROWD[0]
        return measured(
            found["seconds"], at_most=20.0, processor_seconds=round(found["processor"], 1),
            peer=f"a loop of RidgeCV: {peer:.0f} s", floor="X read 13 times (together), 5 times (subspace)",
        )  # fmt: skip

    return seconds


def crowd_against_ridge(repeats: int) -> dict:
    """Seconds per task of a loop of scikit-learn's RidgeCV over ours."""
    found = crowd("subspace", CROWD[0])
    per_task = ridge_loop()
    return measured(per_task / (found["seconds"] / CROWD[0]), at_least=8.0, peer=f"RidgeCV: {1e3 * per_task:.2f} ms a task")


@lru_cache(maxsize=1)
def ridge_loop() -> float:
    """Seconds of one task in a loop of RidgeCV over as many strengths as we try."""
    from sklearn.linear_model import RidgeCV

    block = make_rows(PEER_TASKS, *CROWD[1:])
    strengths = np.geomspace(1e-3, 1e3, 21)

    def loop() -> None:
        for i in range(block.n_tasks):
            RidgeCV(alphas=strengths).fit(block.X[block.rows(i)], block.y[block.rows(i), 0])

    return seconds_of(loop)[0] / PEER_TASKS


def crowd_memory(repeats: int) -> dict:
    """Memory above the caller's arrays at the peak of a fit, over those arrays."""
    found = crowd("together", CROWD[0])
    return measured((found["peak"] - found["before"]) / found["arrays"], at_most=1.5, floor="0.9: the rows in common units")


def crowd_growth(repeats: int) -> dict:
    """Exponent of processor time in the number of tasks, to a million in single precision."""
    sizes = [10_000, 100_000, 1_000_000]
    seconds = [crowd("subspace", m, "float32")["processor"] for m in sizes]
    return measured(np.polyfit(np.log(sizes), np.log(seconds), 1)[0], at_most=1.1, processor_seconds=dict(zip(sizes, seconds)))


def command(*arguments: str):
    """A call of the command line in a process of its own."""
    return lambda: in_a_process(["-m", "taskveil.cli", *arguments])


def plan_seconds(repeats: int) -> dict:
    plan = command("plan", "--tasks", "100", "--features", "12", "--epsilon", "1")
    return _process(plan, 0.8, repeats, floor="importing NumPy and SciPy's special functions")


def help_seconds(repeats: int) -> dict:
    return _process(command("--help"), 0.3, repeats, floor="starting Python")


def fit_school(repeats: int) -> dict:
    """`taskveil fit school` less importing scikit-learn and Numba, turn by turn."""
    with tempfile.TemporaryDirectory() as folder:
        turns = take_turns_with_children(
            {
                "fit": command("fit", "school", "-o", f"{folder}/model", "--overwrite"),
                "import": lambda: in_a_process(["-c", "import sklearn.linear_model, numba"]),
            },
            min(repeats, 5),
        )
    above = turns["fit"] - turns["import"]
    return measured(above[:, 0], at_most=1.0, processor_seconds=round(float(np.median(above[:, 1])), 2), peer="the imports alone")


def compare_har(repeats: int) -> dict:
    """Once: a minute's work needs no warm-up."""
    call = command("compare", "har", "--methods", "local,pooled,together", "--epsilons", "1", "--json")
    seconds, processor = seconds_of(call, with_children)
    return measured(seconds, at_most=60.0, processor_seconds=round(processor, 1))


def _process(call, most: float, repeats: int, **details: str) -> dict:
    turns = take_turns_with_children({"call": call}, min(repeats, 5))["call"]
    return measured(turns[:, 0], at_most=most, processor_seconds=round(float(np.median(turns[:, 1])), 2), **details)


def seconds_of(call, clock=time.process_time) -> tuple[float, float]:
    """Seconds and processor seconds of one call."""
    start, used = time.perf_counter(), clock()
    call()
    return time.perf_counter() - start, clock() - used


def with_children() -> float:
    """Processor seconds of this process and of those it started."""
    return sum(os.times()[:4])


def take_turns_with_children(calls: dict, repeats: int) -> dict[str, np.ndarray]:
    """As take_turns_with_processor, for calls that start a process: its processor seconds count."""
    return take_turns_with_processor(calls, repeats, clock=with_children)


def in_a_process(arguments: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=HERE.parent)


BENCHMARKS = {
    "low-rank-fit": low_rank_fit,
    "low-rank-cold": low_rank_cold,
    "together-100000": crowd_seconds("together"),
    "subspace-100000": crowd_seconds("subspace"),
    "subspace-against-ridgecv": crowd_against_ridge,
    "memory-100000": crowd_memory,
    "growth-to-1000000": crowd_growth,
    "plan-seconds": plan_seconds,
    "help-seconds": help_seconds,
    "fit-school": fit_school,
    "compare-har": compare_har,
}
