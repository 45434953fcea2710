"""The secure sum: seconds for 100 and 1000 sites, growth per site, integer noise, bits and accuracy.

Seconds are processor seconds of this process (all parties run in it, one after the other), so that a busy
machine does not count; the clock is given beside. Noise is not part of a secure sum's seconds; it is reported on
its own.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from benchmarks.timing import measured, unavailable
from taskveil.privacy.integer_sampler import KeyStream, integer_noise
from taskveil.privacy.integer_tables import noise_table
from taskveil.runtime.secure import SecureSettings, secure_total
from taskveil.runtime.secure.messages import encode
from taskveil.runtime.secure.run import carry

COORDINATES = 10_000
BITS = 24
SHARE = 0.05  # of the sites may collude, and as many may drop out
FEW = 3  # the same as a number, where only the number of sites grows
PLOT = Path(__file__).parent / "results" / "secure-growth.json"


def settings_for(n_tasks: int, length: int, complete: bool = False) -> SecureSettings:
    some = max(1, int(SHARE * n_tasks))
    if complete:
        return SecureSettings(n_tasks, length, BITS, some, n_tasks - some, n_tasks - 1, n_tasks - some)
    return SecureSettings.choose(n_tasks, length, BITS, some, n_tasks - some)


def seconds_of(settings: SecureSettings) -> tuple[float, float]:
    """(processor, clock) seconds of one secure sum; the total is checked."""
    inputs = np.random.default_rng(0).integers(-1000, 1000, (settings.n_sites, settings.length))
    used, start = time.process_time(), time.perf_counter()
    total, _ = secure_total(inputs, settings)
    taken = time.process_time() - used, time.perf_counter() - start
    assert np.array_equal(total, inputs.sum(axis=0))
    return taken


def _sum(n_tasks: int, most: float, repeats: int) -> dict:
    settings = settings_for(n_tasks, COORDINATES)
    runs = np.array([seconds_of(settings) for _ in range(repeats)])
    details = {"clock": float(np.median(runs[:, 1])), "degree": settings.degree, "threshold": settings.threshold}
    return measured(runs[:, 0], at_most=most, unit="processor seconds", **details, tasks=n_tasks, coordinates=COORDINATES)


def hundred(repeats: int) -> dict:
    return _sum(100, 2.0, min(repeats, 3))


def thousand(repeats: int) -> dict:
    return _sum(1000, 40.0, 1)  # 150 neighbours: as many as 50 colluders and 50 dropouts need against a lying server


def dropouts(repeats: int) -> dict:
    """100 tasks of which 5 leave after sending their shares: the server opens their keys."""
    from taskveil.runtime.secure import Identity, SecureClient, SecureServer

    settings = settings_for(100, COORDINATES)
    inputs = np.random.default_rng(0).integers(-1000, 1000, (100, COORDINATES))
    people = [Identity() for _ in range(100)]
    roster = {t: p.public for t, p in enumerate(people)}
    used = time.process_time()
    server = SecureServer(settings, roster)
    carry(
        server,
        {t: SecureClient(t, settings, people[t], roster, inputs[t]) for t in range(100)},
        drops=lambda step, task: step >= 2 and task < 5,
    )
    taken = time.process_time() - used
    assert np.array_equal(settings.ring.centre(server.total), inputs[5:].sum(axis=0))
    return measured(taken, at_most=2.0, unit="processor seconds")


def noise(repeats: int) -> dict:
    """Million integer samples per processor second, for the deviation of a typical share."""
    rates = {}
    for law in ("discrete-gaussian", "skellam"):
        noise_table(law, 1000.0**2)
        stream, runs = KeyStream(bytes(32)), []
        for _ in range(min(repeats, 5)):
            used = time.process_time()
            integer_noise(law, 1000.0**2, 2_000_000, stream)
            runs.append(2.0 / (time.process_time() - used))
        rates[law] = runs
    slowest = min(rates, key=lambda law: float(np.median(rates[law])))
    medians = {law: float(np.median(r)) for law, r in rates.items()}
    return measured(rates[slowest], at_least=5.0, unit="million samples per processor second", by_law=medians)


def growth_table() -> list[dict]:
    """Per site: processor milliseconds and bytes, for growing numbers of sites; 1000 coordinates, fixed tolerances."""
    rows = []
    for n in (64, 128, 256, 512, 1024):
        settings = SecureSettings.choose(n, 1000, BITS, FEW, n - FEW)
        taken, _ = seconds_of(settings)
        rows.append({"tasks": n, "degree": settings.degree, "milliseconds": 1000 * taken / n, "bytes": traffic(settings)})
    return rows


def traffic(settings: SecureSettings) -> float:
    """Bytes one task sends and receives, averaged, beyond the masked vector itself."""
    from taskveil.runtime.secure import Identity, SecureClient, SecureServer

    people = [Identity() for _ in range(settings.n_sites)]
    roster = {t: p.public for t, p in enumerate(people)}
    zero = np.zeros(settings.length, dtype=np.int64)
    clients = {t: SecureClient(t, settings, people[t], roster, zero) for t in range(settings.n_sites)}
    server, total, sample = (SecureServer(settings, roster), 0, range(0, settings.n_sites, max(1, settings.n_sites // 8)))
    outgoing = server.start()
    while outgoing is not None:
        replies = {t: clients[t].step(m) for t, m in outgoing.items()}
        total += sum(len(encode(outgoing[t])) + len(encode(replies[t])) for t in sample)
        outgoing = server.step(replies)
    return total / len(sample) - settings.length * settings.ring.dtype.itemsize


def growth(repeats: int) -> dict:
    """Exponent of cost per site in the number of sites: 1 for a complete graph, near 0 for a degree that depends on the
    tolerances only."""
    rows = growth_table()
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(json.dumps(plot(rows)))
    n = np.log([r["tasks"] for r in rows[1:]])
    exponent = float(np.polyfit(n, np.log([r["milliseconds"] for r in rows[1:]]), 1)[0])
    return measured(exponent, at_most=0.4, unit="exponent of seconds per task", rows=rows, plot=str(PLOT.name))


def plot(rows: list[dict]) -> dict:
    """A Plotly figure: cost per site by number of sites."""
    x = [r["tasks"] for r in rows]
    return {
        "data": [
            {"type": "scatter", "name": "processor time per task (ms)", "x": x, "y": [r["milliseconds"] for r in rows]},
            {"type": "scatter", "name": "neighbours per task", "x": x, "y": [r["degree"] for r in rows]},
            {"type": "scatter", "name": "protocol bytes per task (kB)", "x": x, "y": [r["bytes"] / 1000 for r in rows]},
        ],
        "layout": {
            "title": {"text": "Secure sum: what one task pays, by number of tasks"},
            "xaxis": {"type": "log", "title": {"text": "tasks"}},
            "yaxis": {"title": {"text": "per task"}, "rangemode": "tozero"},
        },
    }


def accuracy(name: str, train: float, runs: int) -> dict:
    """nMSE of subspace at epsilon 1 with a secure sum, over that with a curator; means over seeds."""
    from taskveil.estimators import TaskRegressor
    from taskveil.estimators.metrics import evaluate
    from taskveil.privacy.aggregation import use_integer_sum
    from taskveil.runtime import secure
    from taskveil.tasks.load import load_tasks
    from taskveil.tasks.split import split_rows

    try:
        tasks = load_tasks(name)
    except Exception as error:
        return unavailable(f"{name}: {error}")
    scores: dict[str, list[float]] = {"curator": [], "secure": []}
    bits: list[int] = []
    install, secure.install = (secure.install, lambda: None)  # its total is the plain integer sum: tested
    use_integer_sum(lambda messages, mechanism: messages.sum(axis=0))
    try:
        for seed in range(runs):
            own, other = split_rows(tasks, train, seed)
            for way, found in scores.items():
                fitted = TaskRegressor("subspace", epsilon=1.0, aggregation=way, seed=seed, insecure_noise_seed=seed).fit(own)
                found.append(evaluate(fitted, other, "nmse"))
            bits = [release.mechanism.bits for release in fitted.record_.plan.releases]
    finally:
        secure.install = install
        secure.install()
    means = {way: float(np.mean(found)) for way, found in scores.items()}
    error = {way: float(np.std(found) / np.sqrt(runs)) for way, found in scores.items()}
    return measured(
        means["secure"] / means["curator"], at_most=1.05, unit="nMSE secure / curator", nmse=means,
        standard_error=error, runs=runs, bits_per_coordinate=bits, train_fraction=train,
    )  # fmt: skip


BENCHMARKS = {
    "secure-100-tasks": hundred,
    "secure-1000-tasks": thousand,
    "secure-dropouts": dropouts,
    "integer-noise": noise,
    "secure-growth-per-task": growth,
    "secure-accuracy-low-rank": lambda repeats: accuracy("synthetic:low-rank", 0.8, max(repeats, 20)),
    "secure-accuracy-school": lambda repeats: accuracy("school", 0.3, max(repeats, 8)),
}
