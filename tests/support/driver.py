"""A driver of a run over partitions, as a process of its own that tests may kill (taskveil/faults.py)."""

from __future__ import annotations

import os

import dask.array
import distributed  # imported before the process is split off

import taskveil as tv
from taskveil.cli.main import run
from taskveil.estimators.partitioned import fit, storage

__all__ = ["command_line", "dask", "distributed", "fit", "storage", "train"]


def command_line(words: list[str], env: dict[str, str]) -> None:
    """A command of taskveil; ends the process with its exit code."""
    os.environ.update(env)
    run(words)


def train(folder: str, table: str, scheduler: str, env: dict[str, str]) -> None:
    """Three rounds with ledger and checkpoint, saved; goes on where an earlier one in the same folder was killed."""
    os.environ.update(env)
    est = tv.TaskRegressor(
        tv.methods.get("low-rank", rounds=3, local_steps=1), epsilon=1.0, delta=1e-5, insecure_noise_seed=5, runtime="dask",
        client=scheduler, ledger=f"sqlite:///{folder}/budget.db", account="wards", run_dir=f"{folder}/run",
    )  # fmt: skip
    est.fit(tv.load_tasks(table, task="task", target="y", lazy=True, partitions=3)).save(f"{folder}/model")
