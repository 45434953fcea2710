"""Phones recognise activities: few tasks, so the row is protected, and the server is not trusted.

    python examples/phones.py       uses the HAR data where it is on this machine, made-up phones otherwise
"""

from __future__ import annotations

import numpy as np

import taskveil as tv
from taskveil.errors import EnvironmentMissing


def phones() -> tv.TaskSet:
    try:
        tasks = tv.load_tasks("har", positive="sitting")
        return tv.split_rows(tasks, 0.5, seed=0, group="run")[0]
    except EnvironmentMissing:
        print("The HAR data is not here (`taskveil data fetch har`); using made-up phones.")
        return made_up()


def made_up(n_phones: int = 20, n_windows: int = 120, n_features: int = 8) -> tv.TaskSet:
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((n_phones * n_windows, n_features)) / 3, -1, 1)
    phone = np.repeat([f"phone-{i:02d}" for i in range(n_phones)], n_windows)
    sitting = np.where(X @ rng.standard_normal(n_features) + 0.3 * rng.standard_normal(len(X)) > 0, "yes", "no")
    bounds = {"features": {"*": [-1, 1]}, "classes": ["no", "yes"]}
    return tv.load_tasks((X, sitting, phone), bounds=bounds)


def main(tasks: tv.TaskSet | None = None) -> tv.TaskClassifier:
    tasks = phones() if tasks is None else tasks
    est = tv.TaskClassifier(method="mean", unit="record", epsilon=4.0).fit(tasks)
    print(est.certificate_)
    ids = [tasks.task_names[i] for i in tasks.task_of_row()]
    print(f"accuracy on the training rows: {est.score(tasks.X, tasks.y, task=ids):.2f}")
    return est


if __name__ == "__main__":
    main()
